// Philox 4x32 with 10 rounds: a counter turned into random bits. Any place of the sequence is reached at once, so
// that several threads can fill one tensor and the result does not depend on their number.
#pragma once

#include <array>
#include <cstdint>

namespace tutti::cpu {

class Philox {
 public:
  using Block = std::array<std::uint32_t, 4>;

  // `key` drives the rounds; `stream` is the upper half of the counter.
  Philox(std::uint64_t key, std::uint64_t stream) : Philox(key, 0, stream) {}
  // From any place: the counter's halves.
  Philox(std::uint64_t key, std::uint64_t low, std::uint64_t high) : low_(low), high_(high), key_(key) {}

  std::uint64_t key() const { return key_; }
  std::uint64_t low() const { return low_; }
  std::uint64_t high() const { return high_; }

  // Moves on by `count` blocks.
  void skip(std::uint64_t count) {
    low_ += count;
    if (low_ < count) ++high_;
  }
  // The block at the current place; moves on by one.
  Block next() {
    Block counter = {static_cast<std::uint32_t>(low_), static_cast<std::uint32_t>(low_ >> 32),
                     static_cast<std::uint32_t>(high_), static_cast<std::uint32_t>(high_ >> 32)};
    std::uint32_t k0 = static_cast<std::uint32_t>(key_);
    std::uint32_t k1 = static_cast<std::uint32_t>(key_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0];
      const std::uint64_t b = std::uint64_t{0xCD9E8D57} * counter[2];
      counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ k0, static_cast<std::uint32_t>(b),
                 static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ k1, static_cast<std::uint32_t>(a)};
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    skip(1);
    return counter;
  }

 private:
  std::uint64_t low_;
  std::uint64_t high_;
  std::uint64_t key_;
};

// The words of consecutive blocks, one at a time.
class PhiloxWords {
 public:
  explicit PhiloxWords(Philox generator) : generator_(generator) {}
  std::uint32_t next() {
    if (used_ == 4) {
      block_ = generator_.next();
      used_ = 0;
    }
    return block_[used_++];
  }

 private:
  Philox generator_;
  Philox::Block block_{};
  int used_ = 4;
};

}  // namespace tutti::cpu
