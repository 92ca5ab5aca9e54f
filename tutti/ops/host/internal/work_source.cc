#include "tutti/ops/host/internal/work_source.h"

#include <algorithm>

#include "tutti/io/file_stream.h"
#include "tutti/io/record_reader.h"

namespace tutti {
namespace {

class IdentitySource : public WorkSource {
 public:
  Status begin(FileSystem&, const std::string& work) override {
    work_ = work;
    return {};
  }
  Result<Step> next(std::string* key, std::string* value) override {
    *key = work_;
    *value = work_;
    return Step::kLastRecord;
  }
  bool can_be_saved() const override { return true; }

 private:
  std::string work_;
};

class WholeFileSource : public WorkSource {
 public:
  Status begin(FileSystem& files, const std::string& work) override {
    work_ = work;
    files_ = &files;
    return {};
  }
  Result<Step> next(std::string* key, std::string* value) override {
    TUTTI_ASSIGN_OR_RETURN(*value, read_file(*files_, work_));
    *key = work_;
    return Step::kLastRecord;
  }

 private:
  std::string work_;
  FileSystem* files_ = nullptr;  // of the task; used between begin and the end of the work only
};

class TextLineSource : public WorkSource {
 public:
  explicit TextLineSource(std::int64_t skip) : skip_(skip) {}

  Status begin(FileSystem& files, const std::string& work) override {
    work_ = work;
    number_ = 0;
    TUTTI_ASSIGN_OR_RETURN(stream_, FileStream::open(files, work));
    std::string line;
    for (; number_ < skip_; ++number_) {
      TUTTI_ASSIGN_OR_RETURN(const bool more, stream_->line(&line));
      if (!more) break;
    }
    return {};
  }
  Result<Step> next(std::string* key, std::string* value) override {
    TUTTI_ASSIGN_OR_RETURN(const bool more, stream_->line(value));
    if (!more) return Step::kEnd;
    *key = str_cat(work_, ":", ++number_);
    return Step::kRecord;
  }

 private:
  const std::int64_t skip_;
  std::string work_;
  std::unique_ptr<FileStream> stream_;
  std::int64_t number_ = 0;
};

struct FixedLengths {
  std::int64_t header = 0, record = 0, footer = 0, hop = 0;
  std::string compression;
};

// Records overlap when they are longer than the hop. The footer is what is left when a record would reach into it: its
// bytes are read ahead, since a compressed file does not say how long it is.
class FixedLengthSource : public WorkSource {
 public:
  explicit FixedLengthSource(FixedLengths lengths) : lengths_(std::move(lengths)) {}

  Status begin(FileSystem& files, const std::string& work) override {
    work_ = work;
    number_ = 0;
    window_.clear();
    TUTTI_ASSIGN_OR_RETURN(stream_, FileStream::open(files, work, lengths_.compression));
    std::string header;
    TUTTI_RETURN_IF_ERROR(stream_->read(static_cast<std::size_t>(lengths_.header), &header));
    if (header.size() == static_cast<std::size_t>(lengths_.header)) return {};
    return out_of_range("\"", printable(work), "\" ends after ", header.size(), " bytes of a header of ",
                        lengths_.header);
  }
  Result<Step> next(std::string* key, std::string* value) override {
    const auto record = static_cast<std::size_t>(lengths_.record);
    const std::size_t wanted = record + static_cast<std::size_t>(lengths_.footer);
    if (window_.size() < wanted) TUTTI_RETURN_IF_ERROR(stream_->read(wanted - window_.size(), &window_));
    if (window_.size() < wanted) return Step::kEnd;
    value->assign(window_, 0, record);
    *key = str_cat(work_, ":", number_++);
    const auto hop = static_cast<std::size_t>(lengths_.hop);
    if (hop < window_.size()) {
      window_.erase(0, hop);
    } else {
      TUTTI_RETURN_IF_ERROR(stream_->skip(hop - window_.size()));
      window_.clear();
    }
    return Step::kRecord;
  }

 private:
  const FixedLengths lengths_;
  std::string work_;
  std::unique_ptr<FileStream> stream_;
  std::string window_;  // from the next record on
  std::int64_t number_ = 0;
};

class RecordSource : public WorkSource {
 public:
  explicit RecordSource(RecordReaderOptions options) : options_(std::move(options)) {}

  Status begin(FileSystem& files, const std::string& work) override {
    work_ = work;
    TUTTI_ASSIGN_OR_RETURN(reader_, RecordReader::open(files, work, options_));
    return {};
  }
  Result<Step> next(std::string* key, std::string* value) override {
    *key = str_cat(work_, ":", reader_->offset());
    TUTTI_ASSIGN_OR_RETURN(const bool more, reader_->next(value));
    return more ? Step::kRecord : Step::kEnd;
  }

 private:
  const RecordReaderOptions options_;
  std::string work_;
  std::unique_ptr<RecordReader> reader_;
};

}  // namespace

Result<std::unique_ptr<WorkSource>> make_identity_source(const KernelInit&) {
  return std::unique_ptr<WorkSource>(std::make_unique<IdentitySource>());
}

Result<std::unique_ptr<WorkSource>> make_whole_file_source(const KernelInit&) {
  return std::unique_ptr<WorkSource>(std::make_unique<WholeFileSource>());
}

Result<std::unique_ptr<WorkSource>> make_text_line_source(const KernelInit& init) {
  const std::int64_t skip = init.attr<std::int64_t>("skip_header_lines");
  if (skip < 0) return invalid_argument("skip_header_lines must be >= 0 not ", skip);
  return std::unique_ptr<WorkSource>(std::make_unique<TextLineSource>(skip));
}

Result<std::unique_ptr<WorkSource>> make_fixed_length_source(const KernelInit& init) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  FixedLengths lengths;
  lengths.header = init.attr<std::int64_t>("header_bytes");
  lengths.record = init.attr<std::int64_t>("record_bytes");
  lengths.footer = init.attr<std::int64_t>("footer_bytes");
  lengths.hop = init.attr<std::int64_t>("hop_bytes");
  for (const auto& [name, bytes] :
       {std::pair("header_bytes", lengths.header), {"footer_bytes", lengths.footer}, {"hop_bytes", lengths.hop}}) {
    if (bytes < 0 || bytes > kMost) return invalid_argument(name, " must be >= 0 not ", bytes);
  }
  if (lengths.record <= 0 || lengths.record > kMost)
    return invalid_argument("record_bytes must be > 0 not ", lengths.record);
  if (lengths.hop == 0) lengths.hop = lengths.record;
  if (init.attrs.find("encoding") != init.attrs.end()) {
    const std::string& encoding = init.attr<std::string>("encoding");
    if (encoding != "" && encoding != "ZLIB" && encoding != "GZIP") {
      return invalid_argument("Unsupported encoding: ", printable(encoding));
    }
    lengths.compression = encoding;
  }
  return std::unique_ptr<WorkSource>(std::make_unique<FixedLengthSource>(std::move(lengths)));
}

Result<std::unique_ptr<WorkSource>> make_record_source(const KernelInit& init) {
  RecordReaderOptions options;
  options.compression = init.attr<std::string>("compression_type");
  return std::unique_ptr<WorkSource>(std::make_unique<RecordSource>(std::move(options)));
}

}  // namespace tutti
