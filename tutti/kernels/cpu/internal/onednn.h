// What every use of oneDNN needs: an engine, a stream, the size of the team, and arguments from step memory.
#pragma once

#include <omp.h>

#include <algorithm>
#include <dnnl.hpp>

namespace tutti::cpu::internal::onednn {

// Constant once made; oneDNN's engines are safe to share.
inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// A stream of the CPU only says where to run; one per thread saves making one per call.
inline dnnl::stream& stream() {
  thread_local dnnl::stream own(engine());
  return own;
}

// The team size is a setting of the calling thread, read when a primitive is made and when it runs. Returns what it is
// now.
inline int set_team_size(int threads) {
#if defined(__SANITIZE_THREAD__)
  // libgomp is not instrumented: its barriers would be reported as races.
  threads = 1;
#endif
  threads = std::max(threads, 1);
  if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  return threads;
}

}  // namespace tutti::cpu::internal::onednn
