#include <utility>

#include "tutti/core/file_system.h"

namespace tutti {

namespace {

using Fault = FaultyFileSystem::Fault;

class FaultyRandomAccessFile : public RandomAccessFile {
 public:
  FaultyRandomAccessFile(std::string path, std::unique_ptr<RandomAccessFile> base, const Fault& fault)
      : path_(std::move(path)), base_(std::move(base)), fault_(fault) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const override {
    TUTTI_RETURN_IF_ERROR(fault_(FileOp::kRead, path_));
    return base_->read(offset, out);
  }

 private:
  const std::string path_;
  const std::unique_ptr<RandomAccessFile> base_;
  const Fault& fault_;  // the file system's, which outlives its files
};

// Keeps its first error, injected or not, as WritableFile demands.
class FaultyWritableFile : public WritableFile {
 public:
  FaultyWritableFile(std::string path, std::unique_ptr<WritableFile> base, const Fault& fault, bool tear_appends)
      : path_(std::move(path)), base_(std::move(base)), fault_(fault), tear_appends_(tear_appends) {}

  Status append(std::string_view bytes) override {
    TUTTI_RETURN_IF_ERROR(error_);
    error_ = fault_(FileOp::kAppend, path_);
    if (error_.ok()) {
      error_ = base_->append(bytes);
    } else if (tear_appends_) {
      // Flushed, so that the torn half is there even if the test goes on as after a crash.
      if (base_->append(bytes.substr(0, bytes.size() / 2)).ok()) (void)base_->flush();
    }
    return error_;
  }
  Status flush() override {
    return call(FileOp::kFlush, [this] { return base_->flush(); });
  }
  Status sync() override {
    return call(FileOp::kSync, [this] { return base_->sync(); });
  }
  Status close() override {
    return call(FileOp::kClose, [this] { return base_->close(); });
  }

 private:
  template <typename Call>
  Status call(FileOp op, Call pass_on) {
    if (error_.ok()) error_ = fault_(op, path_);
    if (error_.ok()) error_ = pass_on();
    return error_;
  }

  const std::string path_;
  const std::unique_ptr<WritableFile> base_;
  const Fault& fault_;  // the file system's, which outlives its files
  const bool tear_appends_;
  Status error_;
};

}  // namespace

FaultyFileSystem::FaultyFileSystem(FileSystem& base, Fault fault, bool tear_appends)
    : base_(base), fault_(std::move(fault)), tear_appends_(tear_appends) {}

Result<std::unique_ptr<RandomAccessFile>> FaultyFileSystem::open_for_read(const std::string& path) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kOpenRead, path));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<RandomAccessFile> file, base_.open_for_read(path));
  return std::unique_ptr<RandomAccessFile>(std::make_unique<FaultyRandomAccessFile>(path, std::move(file), fault_));
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::open_for_write(const std::string& path) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kOpenWrite, path));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.open_for_write(path));
  return std::unique_ptr<WritableFile>(
      std::make_unique<FaultyWritableFile>(path, std::move(file), fault_, tear_appends_));
}

Result<std::unique_ptr<WritableFile>> FaultyFileSystem::open_for_append(const std::string& path) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kOpenWrite, path));
  TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.open_for_append(path));
  return std::unique_ptr<WritableFile>(
      std::make_unique<FaultyWritableFile>(path, std::move(file), fault_, tear_appends_));
}

Result<FileInfo> FaultyFileSystem::info(const std::string& path) { return base_.info(path); }

Result<std::vector<std::string>> FaultyFileSystem::list(const std::string& directory) { return base_.list(directory); }

Status FaultyFileSystem::make_directories(const std::string& path) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kMakeDirectories, path));
  return base_.make_directories(path);
}

Status FaultyFileSystem::remove(const std::string& path) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kRemove, path));
  return base_.remove(path);
}

Status FaultyFileSystem::rename(const std::string& from, const std::string& to) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kRename, from));
  return base_.rename(from, to);
}

Status FaultyFileSystem::sync_directory(const std::string& directory) {
  TUTTI_RETURN_IF_ERROR(fault_(FileOp::kSyncDirectory, directory));
  return base_.sync_directory(directory);
}

}  // namespace tutti
