#include "tutti/transport/shm/internal/doorbell.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <string_view>

namespace tutti::shm {

Result<UniqueFd> make_doorbell() {
  UniqueFd fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return resource_exhausted(errno_text("eventfd"));
  return fd;
}

void ring_doorbell(int fd) {
  const std::uint64_t one = 1;
  // Fails when the counter is full, which takes 2^64 rings or a peer that spoils its own bell.
  [[maybe_unused]] const auto written = ::write(fd, &one, sizeof one);
}

Status check_doorbell(int fd) {
  std::array<char, 64> name{};
  const ssize_t size = ::readlink(str_cat("/proc/self/fd/", fd).c_str(), name.data(), name.size());
  if (size < 0) return unavailable("what a descriptor is for is not known: ", errno_text("readlink in /proc/self/fd"));
  const std::string_view is(name.data(), static_cast<std::size_t>(size));
  if (is != "anon_inode:[eventfd]") return data_loss("a descriptor for '", printable(is), "' instead of a doorbell");
  if ((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) return data_loss("a doorbell that would make who rings it wait");
  return {};
}

}  // namespace tutti::shm
