#include "tutti/distributed/data_directories.h"

#include <filesystem>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

namespace fs = std::filesystem;

bool lies_in(const fs::path& path, const fs::path& directory) {
  auto part = path.begin();
  for (const auto& wanted : directory) {
    if (part == path.end() || *part != wanted) return false;
    ++part;
  }
  return true;
}

class DataDirectories : public FileSystem {
 public:
  DataDirectories(FileSystem& base, std::vector<fs::path> directories)
      : base_(base), directories_(std::move(directories)) {}

  Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.open_for_read(real);
  }
  Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.open_for_write(real);
  }
  Result<std::unique_ptr<WritableFile>> open_for_large_write(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.open_for_large_write(real);
  }
  Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.open_for_append(real);
  }
  Result<FileInfo> info(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.info(real);
  }
  Result<std::vector<std::string>> list(const std::string& directory) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(directory));
    return base_.list(real);
  }
  Status make_directories(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(path));
    return base_.make_directories(real);
  }
  Status remove(const std::string& path) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve_entry(path));
    return base_.remove(real);
  }
  Status rename(const std::string& from, const std::string& to) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real_from, resolve_entry(from));
    TUTTI_ASSIGN_OR_RETURN(const std::string real_to, resolve_entry(to));
    return base_.rename(real_from, real_to);
  }
  Status sync_directory(const std::string& directory) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(directory));
    return base_.sync_directory(real);
  }

 private:
  // Where the path leads: what it is given on as, so that a link that is changed meanwhile changes nothing.
  Result<std::string> resolve(const std::string& path) const {
    TUTTI_ASSIGN_OR_RETURN(const std::string local, local_path(path));
    std::error_code error;
    const fs::path absolute = fs::absolute(local, error);
    const fs::path real = error ? fs::path() : fs::weakly_canonical(absolute, error);
    if (error) return permission_denied(printable(path), ": cannot be resolved: ", error.message());
    // What does not exist yet was not resolved: a link there leads nowhere now, and anywhere later.
    for (fs::path part = real; part.has_relative_path(); part = part.parent_path()) {
      if (fs::is_symlink(fs::symlink_status(part, error))) return denied(path);
    }
    for (const auto& directory : directories_) {
      if (lies_in(real, directory)) return real.string();
    }
    return denied(path);
  }

  // As resolve, but the last part may be a link, which is meant itself.
  Result<std::string> resolve_entry(const std::string& path) const {
    TUTTI_ASSIGN_OR_RETURN(const std::string local, local_path(path));
    const fs::path name = fs::path(local).filename();
    if (name.empty() || name == "." || name == "..") return resolve(local);
    const fs::path parent = fs::path(local).parent_path();
    TUTTI_ASSIGN_OR_RETURN(const std::string real, resolve(parent.empty() ? "." : parent.string()));
    return (fs::path(real) / name).string();
  }

  Status denied(const std::string& path) const {
    if (directories_.empty()) return permission_denied(printable(path), ": this server was given no data directory");
    std::vector<std::string> names;
    for (const auto& directory : directories_) names.push_back(directory.string());
    return permission_denied(printable(path), ": outside of the data directories ", str_join(names, ", "));
  }

  FileSystem& base_;
  const std::vector<fs::path> directories_;
};

}  // namespace

Result<std::unique_ptr<FileSystem>> make_data_directories(FileSystem& base,
                                                          const std::vector<std::string>& directories) {
  std::vector<fs::path> real;
  for (const auto& directory : directories) {
    TUTTI_ASSIGN_OR_RETURN(const std::string local, local_path(directory));
    std::error_code error;
    real.push_back(fs::canonical(local, error));
    if (error) return not_found("data directory ", printable(directory), ": ", error.message());
    if (!fs::is_directory(real.back(), error)) {
      return failed_precondition("data directory ", printable(directory), ": not a directory");
    }
  }
  return std::unique_ptr<FileSystem>(std::make_unique<DataDirectories>(base, std::move(real)));
}

}  // namespace tutti
