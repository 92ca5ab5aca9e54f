// Files as an interface: the local disk, and one for tests that fails on demand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"

namespace tutti {

// Reads at any offset. Thread-safe.
class RandomAccessFile {
 public:
  virtual ~RandomAccessFile() = default;
  // Fills `out` as far as the file goes; the count read is less than asked only at the end of the file.
  virtual Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const = 0;
};

// Appends, through a buffer: an error may show at a later call than the append that caused it. Once one
// has failed, every later call fails with the same error. One thread at a time.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status append(std::string_view bytes) = 0;
  // Handed to the system.
  virtual Status flush() = 0;
  // On the disk.
  virtual Status sync() = 0;
  // Flushes. Without it the destructor closes and drops errors. Again: no effect, the same answer.
  virtual Status close() = 0;
};

struct FileInfo {
  std::uint64_t bytes = 0;
  bool is_directory = false;
  std::int64_t modified_micros = 0;
};

// Thread-safe. Errors name the path: kNotFound, kAlreadyExists, kPermissionDenied, kResourceExhausted
// (disk full, too many open files), kFailedPrecondition (a directory or not one, directory not empty, links that go
// round), kInvalidArgument (a zero byte in the path), else kUnknown.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  // Regular files only: a pipe or a device is refused (kFailedPrecondition), without waiting for its other end.
  virtual Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) = 0;
  // Creates or truncates.
  virtual Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) = 0;
  // The same for a file that is large, synced, and not read again soon: past the system's cache, where it would cost
  // twice the time and drive out what is read often, if that can be done there.
  virtual Result<std::unique_ptr<WritableFile>> open_for_large_write(const std::string& path) {
    return open_for_write(path);
  }
  // Creates or appends to.
  virtual Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) = 0;
  virtual Result<FileInfo> info(const std::string& path) = 0;
  // Names, not paths, sorted.
  virtual Result<std::vector<std::string>> list(const std::string& directory) = 0;
  virtual Status make_directories(const std::string& path) = 0;
  // A file or an empty directory.
  virtual Status remove(const std::string& path) = 0;
  // Replaces `to` in one step.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  // Makes renames and creations in `directory` survive a crash.
  virtual Status sync_directory(const std::string& directory) = 0;

  bool exists(const std::string& path) { return info(path).ok(); }
};

// Takes paths of the local disk, also as "file:///x/y", which is "/x/y".
FileSystem& local_file_system();

// Whether `path` begins with a scheme, as "gs://bucket/x" does.
bool has_scheme(std::string_view path);

// The path on the local disk: `path` itself, or what comes after "file://". kUnimplemented, with the scheme, for any
// other one; kInvalidArgument for a host ("file://host/x") and for a zero byte.
Result<std::string> local_path(const std::string& path);

Result<std::string> read_file(FileSystem& fs, const std::string& path);
Status write_file(FileSystem& fs, const std::string& path, std::string_view contents);

// The calls a FaultyFileSystem can be made to fail.
enum class FileOp {
  kOpenRead,
  kRead,
  kOpenWrite,
  kAppend,
  kFlush,
  kSync,
  kClose,
  kRemove,
  kRename,
  kMakeDirectories,
  kSyncDirectory
};

// Passes everything to `base`, after asking `fault`: what it returns, if not OK, is the call's answer,
// and nothing reaches `base`. A faulty append may still write the first half (`tear_appends`), as a full
// disk does. A rename is asked about under its old name. `base` outlives this, and this outlives the files
// it opened. Thread-safe if `fault` is.
class FaultyFileSystem : public FileSystem {
 public:
  using Fault = std::function<Status(FileOp op, const std::string& path)>;
  FaultyFileSystem(FileSystem& base, Fault fault, bool tear_appends = false);

  Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& directory) override;
  Status make_directories(const std::string& path) override;
  Status remove(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status sync_directory(const std::string& directory) override;

 private:
  FileSystem& base_;
  const Fault fault_;
  const bool tear_appends_;
};

}  // namespace tutti
