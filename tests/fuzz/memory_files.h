// Files in memory, for fuzzers: nothing touches the disk.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti::fuzz {

class MemoryReadFile : public RandomAccessFile {
 public:
  explicit MemoryReadFile(const std::string& bytes) : bytes_(bytes) {}
  Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const override {
    if (offset >= bytes_.size()) return std::size_t{0};
    return bytes_.copy(out.data(), out.size(), offset);
  }

 private:
  const std::string& bytes_;  // the file system's
};

class MemoryWritableFile : public WritableFile {
 public:
  explicit MemoryWritableFile(std::string& bytes) : bytes_(bytes) {}
  Status append(std::string_view bytes) override {
    bytes_ += bytes;
    return {};
  }
  Status flush() override { return {}; }
  Status sync() override { return {}; }
  Status close() override { return {}; }

 private:
  std::string& bytes_;
};

// Files as given by `put`; can be read and written, in one flat directory.
class MemoryFileSystem : public FileSystem {
 public:
  void put(const std::string& path, std::string bytes) { files_[path] = std::move(bytes); }

  Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) override {
    if (!files_.contains(path)) return not_found("no file \"", printable(path), "\"");
    return std::unique_ptr<RandomAccessFile>(std::make_unique<MemoryReadFile>(files_[path]));
  }
  Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) override {
    files_[path].clear();
    return open_for_append(path);
  }
  Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) override {
    return std::unique_ptr<WritableFile>(std::make_unique<MemoryWritableFile>(files_[path]));
  }
  Result<FileInfo> info(const std::string& path) override {
    const auto file = files_.find(path);
    if (file == files_.end()) return not_found("no file \"", printable(path), "\"");
    return FileInfo{.bytes = file->second.size()};
  }
  Result<std::vector<std::string>> list(const std::string&) override {
    std::vector<std::string> names;
    for (const auto& [path, bytes] : files_) names.push_back(path.substr(path.rfind('/') + 1));
    return names;
  }
  Status make_directories(const std::string&) override { return {}; }
  Status remove(const std::string& path) override {
    return files_.erase(path) ? Status() : not_found("no file \"", printable(path), "\"");
  }
  Status rename(const std::string& from, const std::string& to) override {
    if (!files_.contains(from)) return not_found("no file \"", printable(from), "\"");
    files_[to] = std::move(files_[from]);
    files_.erase(from);
    return {};
  }
  Status sync_directory(const std::string&) override { return {}; }

 private:
  std::map<std::string, std::string> files_;
};

}  // namespace tutti::fuzz
