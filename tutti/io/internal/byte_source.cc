#include "tutti/io/internal/byte_source.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tutti {

namespace {

class FileSource : public ByteSource {
 public:
  FileSource(std::unique_ptr<RandomAccessFile> file, std::size_t buffer_bytes)
      : file_(std::move(file)), buffer_(buffer_bytes, '\0') {}

  Result<std::size_t> read(std::span<char> out) override {
    std::size_t done = 0;
    while (done < out.size()) {
      if (begin_ == end_) {
        // What is larger than the buffer goes past it.
        if (out.size() - done >= buffer_.size()) {
          TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file_->read(offset_, out.subspan(done)));
          offset_ += count;
          return done + count;
        }
        TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file_->read(offset_, buffer_));
        if (count == 0) break;
        offset_ += count;
        begin_ = 0;
        end_ = count;
      }
      const std::size_t count = std::min(out.size() - done, end_ - begin_);
      std::memcpy(out.data() + done, buffer_.data() + begin_, count);
      begin_ += count;
      done += count;
    }
    return done;
  }

 private:
  const std::unique_ptr<RandomAccessFile> file_;
  std::string buffer_;
  std::size_t begin_ = 0, end_ = 0;  // of what is in the buffer and not yet given out
  std::uint64_t offset_ = 0;         // in the file, of what comes after the buffer
};

class InflateSource : public ByteSource {
 public:
  InflateSource(std::unique_ptr<ByteSource> compressed, Compression compression)
      : compressed_(std::move(compressed)), gzip_(compression == Compression::kGzip), input_(kInputBytes, '\0') {
    constexpr int kGzipFraming = 16;
    ready_ = inflateInit2(&stream_, MAX_WBITS + (gzip_ ? kGzipFraming : 0)) == Z_OK;
  }
  ~InflateSource() override {
    if (ready_) inflateEnd(&stream_);
  }

  Result<std::size_t> read(std::span<char> out) override {
    if (!ready_) return resource_exhausted("no memory for zlib's state");
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0 && !input_ended_) TUTTI_RETURN_IF_ERROR(fill());
      if (between_members_) {
        TUTTI_RETURN_IF_ERROR(next_member());
        continue;
      }
      const std::size_t room = std::min<std::size_t>(out.size() - done, kMaxPiece);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(room);
      const int state = inflate(&stream_, Z_NO_FLUSH);
      const std::size_t made = room - stream_.avail_out;
      done += made;
      given_ += made;
      if (state == Z_STREAM_END) {
        between_members_ = true;
      } else if (state != Z_OK && state != Z_BUF_ERROR) {
        return data_loss("the compressed stream is damaged after ", given_,
                         " bytes of content: ", stream_.msg ? stream_.msg : "no detail");
      } else if (made == 0 && stream_.avail_in == 0 && input_ended_) {
        return data_loss("the compressed stream ends early, after ", given_, " bytes of content");
      }
    }
    return done;
  }

 private:
  static constexpr std::size_t kInputBytes = 64 << 10;
  static constexpr std::size_t kMaxPiece = 1 << 30;  // zlib's counters are 32 bits wide

  Status fill() {
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, compressed_->read(input_));
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(count);
    input_ended_ = count < input_.size();
    return {};
  }

  // REQUIRES: there is input left, unless all of it was read.
  Status next_member() {
    between_members_ = false;
    if (stream_.avail_in == 0 || !gzip_) {
      ended_ = true;
    } else if (inflateReset(&stream_) != Z_OK) {
      return internal_error("zlib cannot start the next member");
    }
    return {};
  }

  const std::unique_ptr<ByteSource> compressed_;
  const bool gzip_;
  std::string input_;
  z_stream stream_ = {};
  bool ready_ = false;
  bool input_ended_ = false;
  bool between_members_ = false;
  bool ended_ = false;
  std::uint64_t given_ = 0;
};

}  // namespace

std::unique_ptr<ByteSource> make_file_source(std::unique_ptr<RandomAccessFile> file, std::size_t buffer_bytes) {
  return std::make_unique<FileSource>(std::move(file), std::max<std::size_t>(buffer_bytes, 1));
}

std::unique_ptr<ByteSource> make_inflate_source(std::unique_ptr<ByteSource> compressed, Compression compression) {
  return std::make_unique<InflateSource>(std::move(compressed), compression);
}

}  // namespace tutti
