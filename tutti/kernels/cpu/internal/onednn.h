// What every use of oneDNN needs: an engine, a stream, and to stay on its thread.
#pragma once

#include <omp.h>

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

// While it lives, oneDNN starts no threads of its own, whose barriers (OpenMP's) stand still when the cores are shared
// with other processes. Kernels cut their work for a Team instead. A setting of the calling thread, which may be the
// user's and so is put back.
class [[nodiscard]] StayOnThisThread {
 public:
  StayOnThisThread() {
    if (before_ != 1) omp_set_num_threads(1);
  }
  ~StayOnThisThread() {
    if (before_ != 1) omp_set_num_threads(before_);
  }
  StayOnThisThread(const StayOnThisThread&) = delete;
  StayOnThisThread& operator=(const StayOnThisThread&) = delete;

 private:
  const int before_ = omp_get_max_threads();
};

}  // namespace tutti::cpu::internal::onednn
