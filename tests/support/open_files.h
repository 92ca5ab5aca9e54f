// File descriptors for tests that need many.
#pragma once

#include <sys/resource.h>

namespace tutti::testing {

// Lets this process, and those that it starts, have so many open at once. False: the system does not.
inline bool allow_files(rlim_t count) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return false;
  if (files.rlim_cur >= count) return true;
  files.rlim_cur = count;
  return files.rlim_max >= count && setrlimit(RLIMIT_NOFILE, &files) == 0;
}

}  // namespace tutti::testing
