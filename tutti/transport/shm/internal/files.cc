#include "tutti/transport/shm/internal/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace tutti::shm {

std::string errno_text(std::string_view what) { return str_cat(what, ": ", std::generic_category().message(errno)); }

Result<std::shared_ptr<Mapping>> Mapping::map(int fd, std::size_t bytes, Access access) {
  const int protection = access == Access::kRead ? PROT_READ : PROT_READ | PROT_WRITE;
  void* data = ::mmap(nullptr, bytes, protection, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (data == MAP_FAILED) return resource_exhausted(errno_text(str_cat("mapping ", bytes, " bytes of shared memory")));
  return std::shared_ptr<Mapping>(new Mapping(static_cast<std::byte*>(data), bytes));
}

Mapping::~Mapping() { ::munmap(data_, bytes_); }

Result<UniqueFd> make_memory_file(const char* name, std::size_t bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return resource_exhausted(errno_text("memfd_create"));
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return resource_exhausted(errno_text(str_cat("a memory file of ", bytes, " bytes")));
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
    return internal_error(errno_text("sealing a memory file"));
  }
  return fd;
}

void seal_against_writers(int fd) {
#if !defined(F_SEAL_FUTURE_WRITE)
  constexpr int F_SEAL_FUTURE_WRITE = 0x0010;
#endif
  // A kernel that does not know it refuses; peers of this user are then trusted not to write.
  (void)::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
}

Status check_memory_file(int fd, std::size_t bytes) {
  struct stat info {};
  struct statfs file_system {};
  if (::fstat(fd, &info) != 0 || ::fstatfs(fd, &file_system) != 0) return data_loss(errno_text("shared memory"));
  if (file_system.f_type != TMPFS_MAGIC) return data_loss("shared memory that is not a plain memory file");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) return data_loss("shared memory that is not sealed against shrinking");
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) < bytes) {
    return data_loss("shared memory of ", info.st_size, " bytes that was said to have ", bytes);
  }
  return {};
}

}  // namespace tutti::shm
