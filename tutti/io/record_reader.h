// Reading record files (TFRecord; see record_writer.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/file_system.h"

namespace tutti {

class ByteSource;

struct RecordReaderOptions {
  // Of the whole file, as TensorFlow names it: "", "ZLIB" or "GZIP".
  std::string compression = "";
  // What is read from the file at once.
  std::size_t buffer_bytes = 256 << 10;
};

// One thread at a time.
class RecordReader {
 public:
  // kInvalidArgument for a compression that is not known.
  static Result<std::unique_ptr<RecordReader>> open(FileSystem& fs, const std::string& path,
                                                    const RecordReaderOptions& options = {});
  ~RecordReader();

  // The next record; false at the end of the file. kDataLoss, naming the file and the offset of the record (in what
  // the compressed file holds, if it is one), when it is damaged or cut short; every later call then fails likewise.
  // Memory grows with what is really in the file, whatever length it claims.
  Result<bool> next(std::string* record);

  // Of the record that `next` would give.
  std::uint64_t offset() const { return offset_; }

 private:
  RecordReader(std::string path, std::unique_ptr<ByteSource> source);
  Result<bool> read_record(std::string* record);
  Status read_body(std::uint64_t bytes, std::string* record);

  const std::string path_;
  const std::unique_ptr<ByteSource> source_;
  std::uint64_t offset_ = 0;
  Status error_;
};

}  // namespace tutti
