#include "tutti/io/file_stream.h"

#include <algorithm>

#include "tutti/io/internal/byte_source.h"

namespace tutti {

namespace {

constexpr std::size_t kStreamBuffer = 256 << 10;

}  // namespace

FileStream::FileStream(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
FileStream::~FileStream() = default;

Result<std::unique_ptr<FileStream>> FileStream::open(FileSystem& files, const std::string& path,
                                                     const std::string& compression) {
  if (compression != "" && compression != "ZLIB" && compression != "GZIP") {
    return invalid_argument("\"", printable(path), "\": unknown compression \"", printable(compression), "\"");
  }
  TUTTI_ASSIGN_OR_RETURN(auto file, files.open_for_read(path));
  std::unique_ptr<ByteSource> source = make_file_source(std::move(file), kStreamBuffer);
  if (compression != "") {
    source = make_inflate_source(std::move(source), compression == "ZLIB" ? Compression::kZlib : Compression::kGzip);
  }
  return std::unique_ptr<FileStream>(new FileStream(std::move(source)));
}

Status FileStream::read(std::size_t count, std::string* to) {
  while (count > 0) {
    TUTTI_ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return {};
    const std::size_t part = std::min(count, buffer_.size() - at_);
    to->append(buffer_, at_, part);
    at_ += part;
    count -= part;
  }
  return {};
}

Status FileStream::skip(std::size_t count) {
  while (count > 0) {
    TUTTI_ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return {};
    const std::size_t part = std::min(count, buffer_.size() - at_);
    at_ += part;
    count -= part;
  }
  return {};
}

Result<bool> FileStream::line(std::string* to) {
  to->clear();
  bool any = false;
  while (true) {
    TUTTI_ASSIGN_OR_RETURN(const bool more, fill());
    if (!more) return any;
    any = true;
    const std::size_t end = buffer_.find('\n', at_);
    const std::size_t stop = std::min(end, buffer_.size());
    for (std::size_t i = at_; i < stop; ++i) {
      if (buffer_[i] != '\r') to->push_back(buffer_[i]);
    }
    at_ = end == std::string::npos ? buffer_.size() : end + 1;
    if (end != std::string::npos) return true;
  }
}

Result<bool> FileStream::fill() {
  if (at_ < buffer_.size()) return true;
  buffer_.resize(kStreamBuffer);
  at_ = 0;
  const Result<std::size_t> count = source_->read(buffer_);
  buffer_.resize(count.ok() ? *count : 0);
  if (!count.ok()) return count.status();
  return !buffer_.empty();
}

}  // namespace tutti
