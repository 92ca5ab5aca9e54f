// A file from front to back: by lines or by bytes.
#pragma once

#include <memory>
#include <string>

#include "tutti/core/file_system.h"

namespace tutti {

class ByteSource;

// One thread at a time.
class FileStream {
 public:
  // `compression` as TensorFlow names it: "", "ZLIB" or "GZIP"; kInvalidArgument for others.
  static Result<std::unique_ptr<FileStream>> open(FileSystem& files, const std::string& path,
                                                  const std::string& compression = "");
  ~FileStream();

  // Appends up to `count` bytes to `to`; fewer at the end.
  Status read(std::size_t count, std::string* to);
  // Passes over up to `count` bytes.
  Status skip(std::size_t count);
  // A line without its end and without carriage returns. False when nothing is left.
  Result<bool> line(std::string* to);

 private:
  explicit FileStream(std::unique_ptr<ByteSource> source);
  // Whether there is a byte to be had.
  Result<bool> fill();

  const std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::size_t at_ = 0;  // in buffer_
};

}  // namespace tutti
