#include "tutti/kernels/cpu/string_hash.h"

#include <bit>
#include <cstddef>
#include <cstring>
#include <utility>

namespace tutti::cpu {
namespace {

using Word = std::uint64_t;

// Tutti runs on little-endian machines only.
Word word_at(const char* p) {
  Word value;
  std::memcpy(&value, p, sizeof value);
  return value;
}
Word half_word_at(const char* p) {
  std::uint32_t value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// FarmHash, the variant "na". One function for each range of lengths.
constexpr Word kFarm0 = 0xc3a5c85c97cb3127;
constexpr Word kFarm1 = 0xb492b66fbe98f273;
constexpr Word kFarm2 = 0x9ae16a3b2f90404f;

Word shift_mix(Word value) { return value ^ (value >> 47); }

Word mix_pair(Word u, Word v, Word mul) {
  const Word a = shift_mix((u ^ v) * mul);
  return shift_mix((v ^ a) * mul) * mul;
}

Word farm_up_to_16(const char* s, std::size_t size) {
  const Word mul = kFarm2 + size * 2;
  if (size >= 8) {
    const Word a = word_at(s) + kFarm2;
    const Word b = word_at(s + size - 8);
    return mix_pair(std::rotr(b, 37) * mul + a, (std::rotr(a, 25) + b) * mul, mul);
  }
  if (size >= 4) return mix_pair(size + (half_word_at(s) << 3), half_word_at(s + size - 4), mul);
  if (size == 0) return kFarm2;
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(s[i])); };
  const std::uint32_t y = byte(0) + (byte(size / 2) << 8);
  const std::uint32_t z = static_cast<std::uint32_t>(size) + (byte(size - 1) << 2);
  return shift_mix(y * kFarm2 ^ z * kFarm0) * kFarm2;
}

Word farm_17_to_32(const char* s, std::size_t size) {
  const Word mul = kFarm2 + size * 2;
  const Word a = word_at(s) * kFarm1;
  const Word b = word_at(s + 8);
  const Word c = word_at(s + size - 8) * mul;
  const Word d = word_at(s + size - 16) * kFarm2;
  return mix_pair(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kFarm2, 18) + c, mul);
}

Word farm_33_to_64(const char* s, std::size_t size) {
  const Word mul = kFarm2 + size * 2;
  const Word a = word_at(s) * kFarm2;
  const Word b = word_at(s + 8);
  const Word c = word_at(s + size - 8) * mul;
  const Word d = word_at(s + size - 16) * kFarm2;
  const Word y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const Word z = mix_pair(y, a + std::rotr(b + kFarm2, 18) + c, mul);
  const Word e = word_at(s + 16) * mul;
  const Word f = word_at(s + 24);
  const Word g = (y + word_at(s + size - 32)) * mul;
  const Word h = (z + word_at(s + size - 24)) * mul;
  return mix_pair(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, mul);
}

using Pair = std::pair<Word, Word>;

Pair farm_32_bytes(const char* s, Word a, Word b) {
  const Word last = word_at(s + 24);
  a += word_at(s);
  b = std::rotr(b + a + last, 21);
  const Word first = a;
  a += word_at(s + 8);
  a += word_at(s + 16);
  b += std::rotr(a, 44);
  return {a + last, b + first};
}

// What lies between the blocks of 64 bytes.
struct FarmState {
  Word x = 81;
  Word y = 81 * kFarm1 + 113;
  Word z = shift_mix((81 * kFarm1 + 113) * kFarm2 + 113) * kFarm2;
  Pair v{0, 0};
  Pair w{0, 0};

  // `weight` is 1 for all blocks but the last, which has 9.
  void take_block(const char* s, Word mul, Word weight) {
    x = std::rotr(x + y + v.first + word_at(s + 8), 37) * mul;
    y = std::rotr(y + v.second + word_at(s + 48), 42) * mul;
    x ^= w.second * weight;
    y += v.first * weight + word_at(s + 40);
    z = std::rotr(z + w.first, 33) * mul;
    v = farm_32_bytes(s, v.second * mul, x + w.first);
    w = farm_32_bytes(s + 32, z + w.second, y + word_at(s + 16));
    std::swap(z, x);
  }
};

Word farm_long(const char* s, std::size_t size) {
  FarmState state;
  state.x = state.x * kFarm2 + word_at(s);
  const char* const last_block = s + size - 64;  // overlaps the block before it
  for (std::size_t blocks = (size - 1) / 64; blocks > 0; --blocks, s += 64) state.take_block(s, kFarm1, 1);
  const Word mul = kFarm1 + ((state.z & 0xff) << 1);
  state.w.first += (size - 1) & 63;
  state.v.first += state.w.first;
  state.w.first += state.v.first;
  state.take_block(last_block, mul, 9);
  return mix_pair(mix_pair(state.v.first, state.w.first, mul) + shift_mix(state.y) * kFarm0 + state.z,
                  mix_pair(state.v.second, state.w.second, mul) + state.x, mul);
}

struct SipState {
  Word v0, v1, v2, v3;

  SipState(Word key0, Word key1)
      : v0(key0 ^ 0x736f6d6570736575),
        v1(key1 ^ 0x646f72616e646f6d),
        v2(key0 ^ 0x6c7967656e657261),
        v3(key1 ^ 0x7465646279746573) {}

  void rounds(int count) {
    for (; count > 0; --count) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32);
      v2 += v1;
      v0 += v3;
      v1 = std::rotl(v1, 17) ^ v2;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 = std::rotl(v2, 32);
    }
  }
  void take(Word word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

// Up to seven bytes as the low end of a word.
Word tail_word(const char* s, std::size_t size) {
  Word word = 0;
  if (size != 0) std::memcpy(&word, s, size);
  return word;
}

}  // namespace

std::uint64_t fingerprint64(std::string_view text) {
  if (text.size() <= 16) return farm_up_to_16(text.data(), text.size());
  if (text.size() <= 32) return farm_17_to_32(text.data(), text.size());
  if (text.size() <= 64) return farm_33_to_64(text.data(), text.size());
  return farm_long(text.data(), text.size());
}

std::uint64_t sip_hash(std::uint64_t key0, std::uint64_t key1, std::string_view text) {
  SipState state(key0, key1);
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) state.take(word_at(text.data() + i));
  state.take(tail_word(text.data() + whole, text.size() - whole) | static_cast<Word>(text.size()) << 56);
  state.v2 ^= 0xff;
  state.rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::uint64_t murmur_hash64(std::string_view text) {
  constexpr Word kMultiplier = 0xc6a4a7935bd1e995;
  constexpr Word kSeed = 0xdecafcaffe;
  const auto shifted = [](Word value) { return value ^ (value >> 47); };
  Word hash = kSeed ^ (text.size() * kMultiplier);
  const std::size_t whole = text.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8) {
    hash ^= shifted(word_at(text.data() + i) * kMultiplier) * kMultiplier;
    hash *= kMultiplier;
  }
  if (whole < text.size()) {
    hash ^= tail_word(text.data() + whole, text.size() - whole);
    hash *= kMultiplier;
  }
  return shifted(shifted(hash) * kMultiplier);
}

}  // namespace tutti::cpu
