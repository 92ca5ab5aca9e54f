// What the runners of recorded cases share: every folder below a root, one case each.
#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

namespace tutti::interop {

// The `main` of PROGRAM ROOT [PART_OF_A_NAME]: calls check(folder), which says whether the case agrees, and ends with a
// line that counts, `prefix` before it. A root without cases fails.
template <typename Check>
int run_folders(int argc, char** argv, const char* prefix, const Check& check) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s ROOT [PART_OF_A_NAME]\n", argv[0]);
    return 2;
  }
  try {
    const std::string part = argc > 2 ? argv[2] : "";
    std::vector<std::filesystem::path> folders;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1])) {
      if (entry.path().filename().string().find(part) != std::string::npos) folders.push_back(entry.path());
    }
    std::sort(folders.begin(), folders.end());
    int passed = 0, failed = 0;
    for (const auto& folder : folders) {
      ++(check(folder) ? passed : failed);
      std::fflush(stdout);
    }
    std::printf("%s%d passed, %d failed\n", prefix, passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

}  // namespace tutti::interop
