#include "tutti/core/thread_setup.h"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

namespace tutti {

void begin_thread(const std::string& name, ThreadWork work) {
  pthread_setname_np(pthread_self(), name.substr(0, kMaxThreadName).c_str());
  const int own = sched_getscheduler(0);
  if (own != SCHED_OTHER && own != SCHED_BATCH) return;
  // The main thread has what the program was started with.
  if (sched_getscheduler(getpid()) != SCHED_OTHER) return;
  const sched_param none{};
  // Where it is refused, the thread works nevertheless.
  (void)pthread_setschedparam(pthread_self(), work == ThreadWork::kComputes ? SCHED_BATCH : SCHED_OTHER, &none);
}

}  // namespace tutti
