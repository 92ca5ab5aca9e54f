// Random numbers for sessions, steps and requests, from a seed and without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <string>

#include "tutti/core/strings.h"

namespace tutti::internal {

// Thread-safe.
class IdSource {
 public:
  explicit IdSource(std::uint64_t seed) : state_(seed == 0 ? from_system() : seed) {}

  // Never 0.
  std::uint64_t next() {
    for (;;) {
      // SplitMix64: each state gives another number, so taking one is one atomic addition. Order does not matter.
      std::uint64_t x = state_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed);
      x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
      x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
      x ^= x >> 31;
      if (x != 0) return x;
    }
  }
  std::int64_t request_id() { return static_cast<std::int64_t>(next()); }
  // 57 bits, as TensorFlow's: the top 7 are 0.
  std::int64_t step_id() {
    for (;;) {
      const std::uint64_t id = next() >> 7;
      if (id != 0) return static_cast<std::int64_t>(id);
    }
  }
  // 16 hex digits.
  std::string handle() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text(16, '0');
    std::uint64_t id = next();
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, id >>= 4) *digit = kDigits[id & 15];
    return text;
  }

 private:
  static std::uint64_t from_system() {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }

  std::atomic<std::uint64_t> state_;
};

}  // namespace tutti::internal
