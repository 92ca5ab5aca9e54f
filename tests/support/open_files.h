// File descriptors for tests that need many.
#pragma once

#include <sys/resource.h>

#include <algorithm>

namespace tutti::testing {

// How many connections a test can open that wants so many: fewer where the system allows this process, and those that
// it starts, fewer files. Some are left for other things.
inline int allowed_connections(int wanted) {
  constexpr rlim_t kOthers = 500;
  // A server takes connections of one host up to 9/32 of its files.
  constexpr rlim_t kFilesEach = 4;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const rlim_t needed = static_cast<rlim_t>(wanted) * kFilesEach + kOthers;
  if (files.rlim_cur < needed) {
    files.rlim_cur = std::min(needed, files.rlim_max);
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  }
  return files.rlim_cur < kOthers ? 0 : static_cast<int>((std::min(needed, files.rlim_cur) - kOthers) / kFilesEach);
}

}  // namespace tutti::testing
