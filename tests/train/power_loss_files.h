// A disk that forgets what was not synced when the power goes.
#pragma once

#include <filesystem>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "tutti/core/file_system.h"
#include "tutti/core/mutex.h"
#include "tutti/io/paths.h"

namespace tutti {

// Passes everything to the local disk and remembers how to undo it: names (creations, renames, removals) until their
// directory is synced, bytes until their file is. `lose_power` undoes it all, as the worst of disks would. `graveyard`
// is an empty directory where removed files wait. Thread-safe.
class PowerLossFiles : public FileSystem {
 public:
  explicit PowerLossFiles(std::string graveyard) : graveyard_(std::move(graveyard)) {}

  void lose_power() {
    MutexLock lock(mu_);
    for (auto change = changes_.rbegin(); change != changes_.rend(); ++change) {
      std::error_code lost;  // where the directory itself is gone for good, so is what was in it
      change->undo(lost);
    }
    changes_.clear();
    for (const auto& [path, bytes] : synced_bytes_) {
      std::error_code gone;
      if (std::filesystem::exists(path, gone)) std::filesystem::resize_file(path, bytes, gone);
    }
    synced_bytes_.clear();
  }

  Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) override {
    return disk_.open_for_read(path);
  }
  Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) override {
    MutexLock lock(mu_);
    bury(path);
    auto file = disk_.open_for_write(path);
    if (!file.ok()) return file;
    synced_bytes_[path] = 0;
    note(path, [path](std::error_code& error) { std::filesystem::remove(path, error); });
    return std::unique_ptr<WritableFile>(new File(*this, path, *std::move(file)));
  }
  Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) override {
    return unimplemented("append to ", path);
  }
  Result<FileInfo> info(const std::string& path) override { return disk_.info(path); }
  Result<std::vector<std::string>> list(const std::string& directory) override { return disk_.list(directory); }
  Status make_directories(const std::string& path) override {
    MutexLock lock(mu_);
    if (disk_.exists(path)) return {};
    TUTTI_RETURN_IF_ERROR(disk_.make_directories(path));
    note(path, [path](std::error_code& error) { std::filesystem::remove_all(path, error); });
    return {};
  }
  Status remove(const std::string& path) override {
    MutexLock lock(mu_);
    const Result<FileInfo> info = disk_.info(path);
    if (!info.ok()) return info.status();
    if (!info->is_directory) {
      bury(path);
      return {};
    }
    TUTTI_RETURN_IF_ERROR(disk_.remove(path));
    note(path, [path](std::error_code& error) { std::filesystem::create_directory(path, error); });
    return {};
  }
  Status rename(const std::string& from, const std::string& to) override {
    MutexLock lock(mu_);
    bury(to);
    TUTTI_RETURN_IF_ERROR(disk_.rename(from, to));
    move_bytes(from, to);
    note(to, [this, from, to](std::error_code& error) TUTTI_NO_THREAD_SAFETY_ANALYSIS {
      std::filesystem::rename(to, from, error);
      move_bytes(to, from);
    });
    return {};
  }
  Status sync_directory(const std::string& directory) override {
    MutexLock lock(mu_);
    changes_.remove_if([&](const Change& change) { return change.directory == directory; });
    return disk_.sync_directory(directory);
  }

 private:
  struct Change {
    std::string directory;
    std::function<void(std::error_code&)> undo;
  };

  class File : public WritableFile {
   public:
    File(PowerLossFiles& owner, std::string path, std::unique_ptr<WritableFile> file)
        : owner_(owner), path_(std::move(path)), file_(std::move(file)) {}
    Status append(std::string_view bytes) override {
      bytes_ += bytes.size();
      return file_->append(bytes);
    }
    Status flush() override { return file_->flush(); }
    Status sync() override {
      TUTTI_RETURN_IF_ERROR(file_->flush());
      MutexLock lock(owner_.mu_);
      owner_.synced_bytes_[path_] = bytes_;
      return {};
    }
    Status close() override { return file_->close(); }

   private:
    PowerLossFiles& owner_;
    const std::string path_;
    const std::unique_ptr<WritableFile> file_;
    std::uint64_t bytes_ = 0;
  };

  void note(const std::string& path, std::function<void(std::error_code&)> undo) TUTTI_REQUIRES(mu_) {
    changes_.push_back({directory_of(path), std::move(undo)});
  }
  // Moves a file that is there out of sight.
  void bury(const std::string& path) TUTTI_REQUIRES(mu_) {
    if (!disk_.exists(path)) return;
    const std::string grave = str_cat(graveyard_, "/", buried_++);
    std::filesystem::rename(path, grave);
    note(path, [path, grave](std::error_code& error) { std::filesystem::rename(grave, path, error); });
  }
  void move_bytes(const std::string& from, const std::string& to) TUTTI_REQUIRES(mu_) {
    auto node = synced_bytes_.extract(from);
    if (node.empty()) return;
    node.key() = to;
    synced_bytes_.erase(to);
    synced_bytes_.insert(std::move(node));
  }

  FileSystem& disk_ = local_file_system();
  const std::string graveyard_;
  Mutex mu_;
  std::list<Change> changes_ TUTTI_GUARDED_BY(mu_);  // oldest first
  std::map<std::string, std::uint64_t> synced_bytes_ TUTTI_GUARDED_BY(mu_);
  int buried_ TUTTI_GUARDED_BY(mu_) = 0;
};

}  // namespace tutti
