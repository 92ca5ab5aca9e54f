#include "tutti/core/thread_setup.h"

#include <pthread.h>
#include <sched.h>

namespace tutti {

void name_thread(const std::string& name) {
  pthread_setname_np(pthread_self(), name.substr(0, kMaxThreadName).c_str());
}

void begin_computing_thread(const std::string& name) {
  name_thread(name);
  int policy = 0;
  sched_param parameters{};
  if (pthread_getschedparam(pthread_self(), &policy, &parameters) != 0 || policy != SCHED_OTHER) return;
  // Where it is refused, the thread computes nevertheless.
  (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters);
}

}  // namespace tutti
