// Arithmetic without denormal numbers.
#pragma once

#include <cstdint>

#if defined(__SSE2__)
#include <xmmintrin.h>
#endif

namespace tutti {

// While it lives, the calling thread's floating-point results and operands below the smallest normal number count as
// zero, as in TensorFlow's threads. Decaying averages (Adam's moments of a weight without gradients) end in denormals,
// and each operation on one takes a hundred cycles or more. Threads that are started meanwhile inherit the setting.
// Must be destroyed on the thread that made it. Does nothing on processors it does not know.
class FlushDenormals {
 public:
  FlushDenormals() : saved_(read()) { write(saved_ | kFlush); }
  ~FlushDenormals() { write(saved_); }
  FlushDenormals(const FlushDenormals&) = delete;
  FlushDenormals& operator=(const FlushDenormals&) = delete;

 private:
#if defined(__SSE2__)
  static constexpr std::uint64_t kFlush = 0x8040;  // flush to zero, denormals are zero
  static std::uint64_t read() { return _mm_getcsr(); }
  static void write(std::uint64_t state) { _mm_setcsr(static_cast<unsigned>(state)); }
#elif defined(__aarch64__)
  static constexpr std::uint64_t kFlush = 1 << 24;  // FZ
  static std::uint64_t read() {
    std::uint64_t state;
    asm volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void write(std::uint64_t state) { asm volatile("msr fpcr, %0" ::"r"(state)); }
#else
  static constexpr std::uint64_t kFlush = 0;
  static std::uint64_t read() { return 0; }
  static void write(std::uint64_t) {}
#endif
  const std::uint64_t saved_;
};

}  // namespace tutti
