// Writes a few IDX files for the fuzzer to start from: idx_seeds FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "tests/data/gzip_support.h"
#include "tutti/core/file_system.h"

using namespace tutti;

namespace {

// Two zero bytes, the type of elements, and the dimensions, each of which is less than 256 here.
std::string idx(char type, const std::string& dims, std::size_t bytes) {
  std::string file{0, 0, type, static_cast<char>(dims.size())};
  for (const char dim : dims) file += std::string(3, '\0') + dim;
  for (std::size_t i = 0; i < bytes; ++i) file += static_cast<char>(i * 7);
  return file;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: idx_seeds FOLDER\n"), 2;
  const std::vector<std::string> files = {idx(8, "\x05", 5),   idx(8, "\x02\x03\x04", 24), idx(9, "\x03", 3),
                                          idx(11, "\x03", 6),  idx(12, "\x02\x02", 16),    idx(13, "\x02", 8),
                                          idx(14, "\x02", 16), idx(8, "\x05", 4)};
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (const bool compressed : {false, true}) {
      const std::string path = std::string(argv[1]) + "/seed_" + std::to_string(i) + (compressed ? ".gz" : "");
      const Status written = write_file(local_file_system(), path, compressed ? testing::gzip(files[i]) : files[i]);
      if (written.ok()) continue;
      std::fprintf(stderr, "idx_seeds: %s\n", written.to_string().c_str());
      return 1;
    }
  }
  return 0;
}
