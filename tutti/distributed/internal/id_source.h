// Random numbers for sessions, steps and requests, without a lock.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "tutti/distributed/internal/request_ids.h"

namespace tutti::internal {

// Thread-safe.
class IdSource {
 public:
  // From the system when `seed` is 0.
  explicit IdSource(std::uint64_t seed) : ids_(seed == 0 ? from_system() : seed) {}

  // Never 0.
  std::int64_t request_id() { return ids_.next(); }
  // 57 bits, as TensorFlow's: the top 7 are 0.
  std::int64_t step_id() {
    for (;;) {
      const std::uint64_t id = static_cast<std::uint64_t>(ids_.next()) >> 7;
      if (id != 0) return static_cast<std::int64_t>(id);
    }
  }
  // 16 hex digits.
  std::string handle() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text(16, '0');
    std::uint64_t id = static_cast<std::uint64_t>(ids_.next());
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, id >>= 4) *digit = kDigits[id & 15];
    return text;
  }

 private:
  static std::uint64_t from_system() {
    std::random_device device;
    return (std::uint64_t{device()} << 32) | device();
  }

  RequestIds ids_;
};

}  // namespace tutti::internal
