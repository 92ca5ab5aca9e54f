// What a thread of this library does first.
#pragma once

#include <cstddef>
#include <string>

namespace tutti {

// What Linux shows of a thread's name.
inline constexpr std::size_t kMaxThreadName = 15;

// Names the calling thread; the rest of a longer name is cut off.
void name_thread(const std::string& name);

// Names it and says that it computes: woken while all cores are taken, it waits until another thread waits or has had
// its turn, and takes the core from nobody (SCHED_BATCH). Where several tasks share a host's cores, the messages that
// they wake each other with would otherwise end each other's kernels half way, with caches that are cold when they go
// on. An idle core is taken at once, as ever. Threads that the operator gave another policy keep it.
void begin_computing_thread(const std::string& name);

}  // namespace tutti
