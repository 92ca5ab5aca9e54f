// Looking at the test's own process.
#pragma once

#include <filesystem>
#include <iterator>

namespace tutti::test {

// Threads that this process has now.
inline int count_threads() {
  using Entries = std::filesystem::directory_iterator;
  return static_cast<int>(std::distance(Entries("/proc/self/task"), Entries()));
}

}  // namespace tutti::test
