// Writing sorted tables: the files behind checkpoints. LevelDB's format, by LevelDB's builder, uncompressed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/file_system.h"

namespace tutti {

class TableWriter {
 public:
  // `file` must outlive this, and is neither synced nor closed by it.
  explicit TableWriter(WritableFile& file);
  ~TableWriter();

  // kInvalidArgument unless `key` comes after all before it, in the order of bytes.
  Status add(std::string_view key, std::string_view value);
  // What makes the file a table. Nothing may follow.
  Status finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti
