#include "tutti/io/record_reader.h"

#include <algorithm>
#include <new>

#include "tutti/io/internal/byte_source.h"
#include "tutti/io/internal/record_frame.h"

namespace tutti {

namespace {

// A length is believed up to this; beyond, memory is taken as the bytes come.
constexpr std::uint64_t kTrustedBytes = 1 << 20;

Result<Compression> parse_compression(std::string_view name) {
  if (name.empty()) return Compression::kNone;
  if (name == "ZLIB") return Compression::kZlib;
  if (name == "GZIP") return Compression::kGzip;
  return invalid_argument("record file compression \"", printable(name), "\" is not one of \"\", \"ZLIB\", \"GZIP\"");
}

}  // namespace

RecordReader::RecordReader(std::string path, std::unique_ptr<ByteSource> source)
    : path_(std::move(path)), source_(std::move(source)) {}
RecordReader::~RecordReader() = default;

Result<std::unique_ptr<RecordReader>> RecordReader::open(FileSystem& fs, const std::string& path,
                                                         const RecordReaderOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const Compression compression, parse_compression(options.compression));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, fs.open_for_read(path));
  std::unique_ptr<ByteSource> source = make_file_source(std::move(file), options.buffer_bytes);
  if (compression != Compression::kNone) source = make_inflate_source(std::move(source), compression);
  return std::unique_ptr<RecordReader>(new RecordReader(path, std::move(source)));
}

Result<bool> RecordReader::next(std::string* record) {
  TUTTI_RETURN_IF_ERROR(error_);
  Result<bool> found = read_record(record);
  if (!found.ok()) {
    error_ = found.status().with_context(str_cat("record at ", offset_, " of \"", printable(path_), "\""));
    return error_;
  }
  return found;
}

Result<bool> RecordReader::read_record(std::string* record) {
  char header[kRecordHeaderBytes];
  TUTTI_ASSIGN_OR_RETURN(const std::size_t count, source_->read(header));
  if (count == 0) return false;
  if (count < kRecordHeaderBytes) {
    return data_loss("truncated: ", count, " of the ", kRecordHeaderBytes, " bytes before it");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::uint64_t length, record_length({header, kRecordHeaderBytes}));
  TUTTI_RETURN_IF_ERROR(read_body(length, record));
  char footer[kRecordFooterBytes];
  TUTTI_ASSIGN_OR_RETURN(const std::size_t footer_count, source_->read(footer));
  if (footer_count < kRecordFooterBytes) return data_loss("truncated: no checksum after its ", length, " bytes");
  TUTTI_RETURN_IF_ERROR(check_record(*record, {footer, kRecordFooterBytes}));
  offset_ += kRecordHeaderBytes + length + kRecordFooterBytes;
  return true;
}

Status RecordReader::read_body(std::uint64_t bytes, std::string* record) {
  record->clear();
  std::uint64_t piece = kTrustedBytes;
  while (record->size() < bytes) {
    const std::size_t before = record->size();
    const std::uint64_t wanted = std::min(bytes - before, piece);
    piece *= 2;
    try {
      record->resize(before + wanted);
    } catch (const std::exception&) {  // no memory, or more than a string can be
      return resource_exhausted("no memory for its ", bytes, " bytes");
    }
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, source_->read(std::span(*record).subspan(before)));
    if (count < wanted) return data_loss("truncated: ", before + count, " of its ", bytes, " bytes");
  }
  return {};
}

}  // namespace tutti
