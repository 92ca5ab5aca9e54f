// Writing record files (TFRecord): any bytes, framed by their length and checksums.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/file_system.h"

namespace tutti {

// Keeps its first error, which names the file. One thread at a time.
class RecordWriter {
 public:
  // Creates or truncates.
  static Result<std::unique_ptr<RecordWriter>> create(FileSystem& fs, const std::string& path);
  explicit RecordWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}

  Status write(std::string_view record);
  Status flush() { return file_->flush(); }
  Status sync() { return file_->sync(); }
  // Without it errors of the last records are lost.
  Status close() { return file_->close(); }

 private:
  const std::unique_ptr<WritableFile> file_;
};

}  // namespace tutti
