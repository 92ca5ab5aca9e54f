// Reading sorted tables (see table_writer.h) that may come from anywhere: nothing in the file is believed before it
// is checked against the file's real size, and every block against its checksum.
//
// Not LevelDB's own reader: that one allocates whatever size a damaged file asks for.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti {

// Thread-safe. Errors name the file: kDataLoss when it is damaged or no table, kUnimplemented when it is compressed.
class TableReader {
 public:
  // Reads the list of blocks.
  static Result<std::unique_ptr<TableReader>> open(FileSystem& fs, const std::string& path);

  // In the order of keys, which is checked. Ends early with what `visit` returns, if that is not OK.
  using Visit = std::function<Status(std::string_view key, std::string_view value)>;
  Status scan(const Visit& visit) const;
  // Nothing when the table has no such key.
  Result<std::optional<std::string>> find(std::string_view key) const;

  const std::string& path() const { return path_; }
  std::uint64_t file_bytes() const { return file_bytes_; }

 private:
  struct Block {
    std::string last_key;  // or anything after it and before the next block
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  TableReader(std::string path, std::unique_ptr<RandomAccessFile> file, std::uint64_t file_bytes)
      : path_(std::move(path)), file_(std::move(file)), file_bytes_(file_bytes) {}
  Status read_index();
  Status read_exactly(std::uint64_t offset, std::uint64_t bytes, std::string* out) const;
  Status read_block(std::uint64_t offset, std::uint64_t bytes, std::string* contents) const;
  template <typename... Parts>
  Status damaged(const Parts&... parts) const;

  const std::string path_;
  const std::unique_ptr<RandomAccessFile> file_;
  const std::uint64_t file_bytes_;
  std::vector<Block> blocks_;  // constant once open
};

}  // namespace tutti
