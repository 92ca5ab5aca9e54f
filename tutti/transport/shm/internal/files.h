// Memory files and mappings, with owners.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/core/unique_fd.h"

namespace tutti::shm {

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
