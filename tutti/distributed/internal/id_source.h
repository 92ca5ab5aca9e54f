// Numbers for sessions, steps and requests.
#pragma once

#include <sys/random.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/distributed/internal/request_ids.h"

namespace tutti::internal {

// Thread-safe. A session's handle and a step's number are all that it takes to use the session or to receive the step's
// values, so they are drawn one by one from the system's random source: nobody can compute one from another. Numbers of
// requests only tell requests apart.
class IdSource {
 public:
  // `seed`: of everything, for simulations, which must be repeatable; 0: from the system.
  explicit IdSource(std::uint64_t seed) : is_seeded_(seed != 0), ids_(is_seeded_ ? seed : random_bits()) {}

  // Never 0.
  std::int64_t request_id() { return ids_.next(); }
  // 57 bits, as TensorFlow's: the top 7 are 0.
  std::int64_t step_id() {
    for (;;) {
      const std::uint64_t id = draw() >> 7;
      if (id != 0) return static_cast<std::int64_t>(id);
    }
  }
  // 16 hex digits.
  std::string handle() {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text(16, '0');
    std::uint64_t id = draw();
    for (auto digit = text.rbegin(); digit != text.rend(); ++digit, id >>= 4) *digit = kDigits[id & 15];
    return text;
  }

 private:
  std::uint64_t draw() { return is_seeded_ ? static_cast<std::uint64_t>(ids_.next()) : random_bits(); }
  static std::uint64_t random_bits() {
    std::uint64_t bits = 0;
    TUTTI_CHECK(::getrandom(&bits, sizeof(bits), 0) == static_cast<ssize_t>(sizeof(bits)),
                "the system has no random bytes");
    return bits;
  }

  const bool is_seeded_;
  RequestIds ids_;
};

}  // namespace tutti::internal
