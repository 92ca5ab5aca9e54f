// File descriptors, memory files and mappings, with owners.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "tutti/core/status.h"

namespace tutti::shm {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// "what: No such file or directory" of errno.
std::string errno_text(std::string_view what);

// Pages of a memory file. Unmapped by the last holder, whatever has happened to the file's other users meanwhile.
class Mapping {
 public:
  enum class Access { kRead, kReadWrite };
  static Result<std::shared_ptr<Mapping>> map(int fd, std::size_t bytes, Access access);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Mapping(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* const data_;
  const std::size_t bytes_;
};

// A memory file of so many zeros, that can no longer be made shorter or longer.
Result<UniqueFd> make_memory_file(const char* name, std::size_t bytes);
// From here on nobody else can map it for writing. Left out by kernels before 5.1.
void seal_against_writers(int fd);
// Whether reading a mapping of so many bytes of it can never fault: a memory file, sealed against shrinking.
Status check_memory_file(int fd, std::size_t bytes);

}  // namespace tutti::shm
