// What a thread of this library does first.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

// What Linux shows of a thread's name.
inline constexpr std::size_t kMaxThreadName = 15;

enum class ThreadWork {
  // Keeps time, writes files, waits for others: has a core soon after it was woken.
  kServes,
  // Runs kernels. Woken while all cores are taken, it waits until another thread waits or has had its turn, and takes
  // the
  // core from nobody (SCHED_BATCH). Where several tasks share a host's cores, the messages that they wake each other
  // with
  // would otherwise end each other's kernels half way, with caches that are cold when they go on. An idle core is taken
  // at once, as ever.
  kComputes,
};

// Names the calling thread, whose name is cut to kMaxThreadName, and says what it is for, whatever the thread that made
// it is for. Where the operator chose how the program is scheduled, that stays.
void begin_thread(const std::string& name, ThreadWork work = ThreadWork::kServes);

}  // namespace tutti
