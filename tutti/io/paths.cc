#include "tutti/io/paths.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>

#include "tutti/core/status.h"

namespace tutti {

std::string directory_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

Status make_directory_of(FileSystem& fs, std::string_view path) { return fs.make_directories(directory_of(path)); }

std::string temporary_name(std::string_view path) {
  // From the system and not from a seed: two tasks with the same seed may write beside each other.
  std::uint64_t number = 0;
  TUTTI_CHECK(getentropy(&number, sizeof number) == 0, "the system has no random bytes");
  return str_cat(path, ".tempstate", number);
}

std::string sharded_name(std::string_view base, int shard, int num_shards) {
  char numbers[64];
  std::snprintf(numbers, sizeof numbers, "-%05d-of-%05d", shard, num_shards);
  return str_cat(base, numbers);
}

}  // namespace tutti
