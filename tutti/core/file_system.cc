#include "tutti/core/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include "tutti/core/allocator.h"

namespace tutti {

namespace {

// What append() gathers before it calls the system. Larger saves calls for small records; larger pieces
// than this go past it.
constexpr std::size_t kWriteBufferBytes = 64 << 10;
// Past the cache the system takes whole blocks, from aligned memory; the more at a time, the less often it is waited
// for.
constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kLargeWriteBufferBytes = 1 << 20;

Code code_of_errno(int error) {
  switch (error) {
    case ENOENT:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kResourceExhausted;
    case ENOTDIR:
    case EISDIR:
    case ENOTEMPTY:
    case ELOOP:
      return Code::kFailedPrecondition;
    default:
      return Code::kUnknown;
  }
}

// `open "/x/y" for reading: No such file or directory`; `purpose` begins with a space or is empty.
Status file_error(std::string_view verb, const std::string& path, std::string_view purpose, int error) {
  return Status(code_of_errno(error),
                str_cat(verb, " \"", printable(path), "\"", purpose, ": ", std::generic_category().message(error)));
}

constexpr std::string_view kSchemeEnd = "://";

// "gs" of "gs://bucket/x"; empty when there is none.
std::string_view scheme_of(std::string_view path) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  std::size_t end = 0;
  while (end < path.size() &&
         (is_letter(path[end]) || (end > 0 && ((path[end] >= '0' && path[end] <= '9') || path[end] == '.')))) {
    ++end;
  }
  return path.substr(end).starts_with(kSchemeEnd) ? path.substr(0, end) : std::string_view();
}

// Repeats a system call that a signal interrupted.
template <typename Call>
auto retry(Call call) {
  while (true) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

// An open file; -1 is none.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return fd_; }
  // The error of the system, or 0.
  int close() {
    // After EINTR Linux has closed it all the same; trying again could hit another thread's file.
    const int result = ::close(std::exchange(fd_, -1));
    return result < 0 && errno != EINTR ? errno : 0;
  }

 private:
  int fd_;
};

// Never waits: opening a pipe would, until its other end is opened.
Result<Descriptor> open_file(const std::string& name, int flags, std::string_view purpose) {
  TUTTI_ASSIGN_OR_RETURN(const std::string path, local_path(name));
  constexpr mode_t kMode = 0666;  // less what the umask takes away
  const int fd = retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kMode); });
  if (fd < 0) return file_error("open", path, purpose, errno);
  return Descriptor(fd);
}

Status not_a_regular_file(const std::string& path, std::string_view purpose) {
  return failed_precondition("open \"", printable(path), "\"", purpose, ": not a regular file");
}

// Pipes and devices may keep a reader waiting for ever, or never end. The system opens a directory, too, and fails only
// at the first read.
Status check_source(const std::string& path, const Descriptor& file, std::string_view purpose) {
  struct stat status;
  if (::fstat(file.get(), &status) < 0) return file_error("open", path, purpose, errno);
  if (S_ISDIR(status.st_mode)) return file_error("open", path, purpose, EISDIR);
  return S_ISREG(status.st_mode) ? Status() : not_a_regular_file(path, purpose);
}

// Character devices such as /dev/null take what they are given.
Status check_target(const std::string& path, const Descriptor& file, std::string_view purpose) {
  struct stat status;
  if (::fstat(file.get(), &status) < 0) return file_error("open", path, purpose, errno);
  return S_ISREG(status.st_mode) || S_ISCHR(status.st_mode) ? Status() : not_a_regular_file(path, purpose);
}

class LocalRandomAccessFile : public RandomAccessFile {
 public:
  LocalRandomAccessFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<char> out) const override {
    constexpr auto kEnd = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    std::size_t done = 0;
    while (done < out.size() && offset + done <= kEnd && offset <= kEnd) {
      const ssize_t count = retry([&] {
        return ::pread(file_.get(), out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
      });
      if (count < 0) return file_error("read", path_, str_cat(" at ", offset + done), errno);
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

 private:
  const std::string path_;
  const Descriptor file_;
};

// Keeps its first error: what was lost then stays lost, so every later call must fail, too.
class LocalWritableFile : public WritableFile {
 public:
  // `uncached`: the file was opened with O_DIRECT.
  LocalWritableFile(std::string path, Descriptor file, bool uncached)
      : path_(std::move(path)),
        file_(std::move(file)),
        uncached_(uncached),
        capacity_(uncached ? kLargeWriteBufferBytes : kWriteBufferBytes),
        memory_(uncached ? message_allocator().allocate(capacity_ + kBlockBytes)
                         : heap_allocator().allocate(capacity_)) {
    TUTTI_CHECK(memory_ != nullptr, "no memory for ", capacity_, " bytes");
    void* aligned = memory_->data();
    std::size_t space = memory_->bytes();
    buffer_ = static_cast<char*>(uncached ? std::align(kBlockBytes, capacity_, aligned, space) : aligned);
  }
  ~LocalWritableFile() override {
    if (!closed_) (void)close();
  }

  Status append(std::string_view bytes) override {
    TUTTI_RETURN_IF_ERROR(check_open());
    while (uncached_ && !bytes.empty() && error_.ok()) {
      bytes.remove_prefix(gather(bytes));
      if (gathered_ == capacity_) error_.update(write_gathered());
    }
    if (gathered_ + bytes.size() > capacity_) error_.update(write_gathered());
    TUTTI_RETURN_IF_ERROR(error_);
    if (bytes.size() < capacity_) {
      gather(bytes);
    } else {
      error_.update(write_all(bytes));
    }
    return error_;
  }

  Status flush() override {
    TUTTI_RETURN_IF_ERROR(check_open());
    error_.update(write_gathered());
    return error_;
  }

  Status sync() override {
    TUTTI_RETURN_IF_ERROR(flush());
    if (retry([&] { return ::fsync(file_.get()); }) < 0) error_ = file_error("sync", path_, "", errno);
    return error_;
  }

  Status close() override {
    if (closed_) return error_;
    if (error_.ok()) (void)flush();
    closed_ = true;
    if (const int error = file_.close(); error != 0) error_.update(file_error("close", path_, "", error));
    return error_;
  }

 private:
  Status check_open() const {
    if (error_.ok() && closed_) return failed_precondition("write \"", printable(path_), "\": the file is closed");
    return error_;
  }

  // As much as there is room for; how much that is.
  std::size_t gather(std::string_view bytes) {
    const std::size_t count = std::min(bytes.size(), capacity_ - gathered_);
    if (count > 0) std::memcpy(buffer_ + gathered_, bytes.data(), count);
    gathered_ += count;
    return count;
  }

  Status write_gathered() {
    const std::string_view bytes(buffer_, std::exchange(gathered_, 0));
    if (!uncached_) return write_all(bytes);
    const std::size_t blocks = bytes.size() / kBlockBytes * kBlockBytes;
    TUTTI_RETURN_IF_ERROR(write_all(bytes.substr(0, blocks)));
    if (blocks < bytes.size()) use_cache();
    return write_all(bytes.substr(blocks));
  }

  // From now on.
  void use_cache() {
    ::fcntl(file_.get(), F_SETFL, ::fcntl(file_.get(), F_GETFL) & ~O_DIRECT);
    uncached_ = false;
  }

  Status write_all(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = retry([&] { return ::write(file_.get(), bytes.data(), bytes.size()); });
      if (count < 0 && errno == EINVAL && uncached_) {  // it wants larger blocks, or has written half of one
        use_cache();
        continue;
      }
      if (count < 0) return file_error("write", path_, "", errno);
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return {};
  }

  const std::string path_;
  Descriptor file_;
  bool uncached_;
  const std::size_t capacity_;
  const BufferPtr memory_;
  char* buffer_;
  std::size_t gathered_ = 0;  // in the buffer
  Status error_;
  bool closed_ = false;
};

class LocalFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<RandomAccessFile>> open_for_read(const std::string& path) override {
    constexpr std::string_view kPurpose = " for reading";
    TUTTI_ASSIGN_OR_RETURN(Descriptor file, open_file(path, O_RDONLY, kPurpose));
    TUTTI_RETURN_IF_ERROR(check_source(path, file, kPurpose));
    return std::unique_ptr<RandomAccessFile>(std::make_unique<LocalRandomAccessFile>(path, std::move(file)));
  }

  Result<std::unique_ptr<WritableFile>> open_for_write(const std::string& path) override {
    return open_writable(path, O_WRONLY | O_CREAT | O_TRUNC, " for writing");
  }

  Result<std::unique_ptr<WritableFile>> open_for_large_write(const std::string& path) override {
    constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
    Result<Descriptor> file = open_file(path, kFlags | O_DIRECT, "");
    if (!file.ok() || !check_target(path, *file, "").ok()) return open_for_write(path);  // not every file system has it
    return std::unique_ptr<WritableFile>(std::make_unique<LocalWritableFile>(path, *std::move(file), true));
  }

  Result<std::unique_ptr<WritableFile>> open_for_append(const std::string& path) override {
    return open_writable(path, O_WRONLY | O_CREAT | O_APPEND, " for appending");
  }

  Result<FileInfo> info(const std::string& name) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string path, local_path(name));
    struct stat status;
    if (::stat(path.c_str(), &status) < 0) return file_error("stat", path, "", errno);
    return FileInfo{.bytes = static_cast<std::uint64_t>(status.st_size),
                    .is_directory = S_ISDIR(status.st_mode),
                    .modified_micros = std::int64_t{status.st_mtim.tv_sec} * 1'000'000 + status.st_mtim.tv_nsec / 1000};
  }

  Result<std::vector<std::string>> list(const std::string& name) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string directory, local_path(name));
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(directory.c_str()), ::closedir);
    if (!stream) return file_error("list", directory, "", errno);
    std::vector<std::string> names;
    while (true) {
      errno = 0;
      const dirent* entry = ::readdir(stream.get());
      if (!entry) break;
      const std::string_view entry_name = entry->d_name;
      if (entry_name != "." && entry_name != "..") names.emplace_back(entry_name);
    }
    if (errno != 0) return file_error("list", directory, "", errno);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_directories(const std::string& name) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string path, local_path(name));
    if (path.empty()) return file_error("make directory", path, "", ENOENT);
    constexpr mode_t kMode = 0777;  // less what the umask takes away
    // Parents first. Another process may make the same ones at the same time, so "exists" is no error as
    // long as it is a directory; asking beforehand would only race.
    std::size_t end = 0;
    while (end != std::string::npos) {
      end = path.find('/', end + 1);
      const std::string part = path.substr(0, end);
      if (::mkdir(part.c_str(), kMode) == 0) continue;
      const int error = errno;
      struct stat status;
      if (::stat(part.c_str(), &status) < 0) return file_error("make directory", part, "", error);
      if (!S_ISDIR(status.st_mode)) return file_error("make directory", part, "", ENOTDIR);
    }
    return {};
  }

  Status remove(const std::string& name) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string path, local_path(name));
    if (std::remove(path.c_str()) < 0) return file_error("remove", path, "", errno);
    return {};
  }

  Status rename(const std::string& old_name, const std::string& new_name) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string from, local_path(old_name));
    TUTTI_ASSIGN_OR_RETURN(const std::string to, local_path(new_name));
    if (std::rename(from.c_str(), to.c_str()) < 0) {
      return file_error("rename", from, str_cat(" to \"", printable(to), "\""), errno);
    }
    return {};
  }

  Status sync_directory(const std::string& directory) override {
    TUTTI_ASSIGN_OR_RETURN(Descriptor file, open_file(directory, O_RDONLY | O_DIRECTORY, " for syncing"));
    if (retry([&] { return ::fsync(file.get()); }) < 0) return file_error("sync directory", directory, "", errno);
    return {};
  }

 private:
  static Result<std::unique_ptr<WritableFile>> open_writable(const std::string& path, int flags,
                                                             std::string_view purpose) {
    TUTTI_ASSIGN_OR_RETURN(Descriptor file, open_file(path, flags, purpose));
    TUTTI_RETURN_IF_ERROR(check_target(path, file, purpose));
    return std::unique_ptr<WritableFile>(std::make_unique<LocalWritableFile>(path, std::move(file), false));
  }
};

}  // namespace

FileSystem& local_file_system() {
  static LocalFileSystem file_system;
  return file_system;
}

bool has_scheme(std::string_view path) { return !scheme_of(path).empty(); }

Result<std::string> local_path(const std::string& path) {
  // The system would take such a path up to the zero and touch another file than was named.
  if (path.find('\0') != std::string::npos) return invalid_argument("path \"", printable(path), "\" holds a zero byte");
  const std::string_view scheme = scheme_of(path);
  if (scheme.empty()) return path;
  if (scheme != "file") {
    return unimplemented("File system scheme '", scheme, "' not implemented (file: '", printable(path), "')");
  }
  std::string local = path.substr(scheme.size() + kSchemeEnd.size());
  if (local.empty()) return std::string("/");  // of a file in the root, its directory
  if (local.front() != '/') {
    const std::string_view host = std::string_view(local).substr(0, local.find('/'));
    return invalid_argument("path \"", printable(path), "\" names the host \"", printable(host),
                            "\": a path of this machine has three slashes, \"file:///...\"");
  }
  return local;
}

Result<std::string> read_file(FileSystem& fs, const std::string& path) {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, fs.open_for_read(path));
  TUTTI_ASSIGN_OR_RETURN(const FileInfo info, fs.info(path));
  // One byte more than the size, so that one read also sees the end. The file may have grown meanwhile,
  // and some (those of /proc) tell no size: then go on, doubling.
  std::string contents;
  std::size_t done = 0;
  std::size_t capacity = info.bytes + 1;
  while (true) {
    contents.resize(capacity);
    TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file->read(done, std::span(contents).subspan(done)));
    done += count;
    if (done < contents.size()) break;
    capacity = std::max<std::size_t>(2 * capacity, 4096);
  }
  contents.resize(done);
  return contents;
}

Status write_file(FileSystem& fs, const std::string& path, std::string_view contents) {
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, fs.open_for_write(path));
  TUTTI_RETURN_IF_ERROR(file->append(contents));
  return file->close();
}

}  // namespace tutti
