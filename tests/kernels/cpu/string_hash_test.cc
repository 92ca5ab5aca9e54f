#include "tutti/kernels/cpu/string_hash.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::cpu::string_hash_test {

// What TensorFlow's StringToHashBucketFast, ...Strong (key 123, 456) and StringToHashBucket give for 2^62 buckets, for
// texts of lengths at both sides of every case of the algorithms.
struct Row {
  std::size_t length;
  std::uint64_t fast;
  std::uint64_t strong;
  std::uint64_t legacy;
};
constexpr Row kRows[] = {
    // clang-format off
    {0, 0x1ae16a3b2f90404f, 0x0c5254ec1f1e0dee, 0x01769421199f9e3b},
    {1, 0x33454265b6df75e3, 0x1dd995ed019448ac, 0x29962dc026eac9fc},
    {2, 0x25c94e7de3fd684f, 0x06ae3f32ef0175e2, 0x1e5334e4f126caca},
    {3, 0x2d5b0cbcc48fdc6b, 0x00c7ca607b56df7a, 0x03af46cb9e5aec25},
    {4, 0x3b803bc75cee3292, 0x3ca072c8082db1c8, 0x0d626c998fcbd02e},
    {7, 0x2d26868869003b0a, 0x0b68a342d2a4cc19, 0x20ddabef71d59df0},
    {8, 0x13b52af6d9b92820, 0x06d53a2936fae1d9, 0x17c4983d4b66a4bd},
    {9, 0x2f002a726b27544e, 0x0ecd324b8c6632b5, 0x06498386478b2db6},
    {15, 0x23a2d5a9cab38c6b, 0x247ef4c84cc587cb, 0x08b6aa88e1941ca3},
    {16, 0x3496a3696582095e, 0x2248b07d108d4179, 0x0b0246f7dff5a15d},
    {17, 0x1f0c64814df23a1a, 0x3f79741ebe655518, 0x000e4e514cb908e4},
    {24, 0x18b7341e21f9156c, 0x2369e471d07e5ed3, 0x32eec4475bffa526},
    {31, 0x08b2aebb06a4ade5, 0x278d2feef07857aa, 0x1973877ea05d1cf6},
    {32, 0x1636decce0f119bc, 0x3949ae6284ed48e4, 0x12e9732ad7ec4cdc},
    {33, 0x2fa5de3a3dd81cac, 0x122f2c6d7b7cb908, 0x32704dca0060aeda},
    {48, 0x0f434269047fa3d0, 0x0f2daf5420256f93, 0x2b556714b4fdb917},
    {63, 0x347b000892b736d5, 0x1623e756f30d8864, 0x00167d0658e4b09f},
    {64, 0x201e9a6d5635769e, 0x1763145ebeead191, 0x188b4cdd11166e32},
    {65, 0x266a26491da9530d, 0x23b0e6aee46d6e40, 0x11b6cd0a81334b31},
    {100, 0x1771e5caf34ad868, 0x3f932cef659bfc65, 0x380dc50e737e9a99},
    {127, 0x04d86f1dc468d399, 0x25f439816e10d378, 0x308f827cc93c0846},
    {128, 0x117472f7f980118d, 0x27601356a983923d, 0x154c3a088dea4c1c},
    {129, 0x0eb7d4a2cddb5078, 0x34f2eed5d40d6eea, 0x2f49bad677115bde},
    {192, 0x29dccca451f6d409, 0x08bf27981643994d, 0x0646df59e7683d59},
    {200, 0x1137238fe25cbe34, 0x0812a6c5be115bf2, 0x31f81549eee6e453},
    {1000, 0x106b2f1c71fdc6d0, 0x2de1710a82a48860, 0x082c6a4b50c48fbd},
    // clang-format on
};

std::string text_of_length(std::size_t length) {
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += static_cast<char>('a' + i * 7 % 26);
  return text;
}

TEST(StringHash, AsTensorFlow) {
  constexpr std::uint64_t kBuckets = std::uint64_t{1} << 62;
  for (const Row& row : kRows) {
    const std::string text = text_of_length(row.length);
    EXPECT_EQ(fingerprint64(text) % kBuckets, row.fast) << row.length;
    EXPECT_EQ(sip_hash(123, 456, text) % kBuckets, row.strong) << row.length;
    EXPECT_EQ(murmur_hash64(text) % kBuckets, row.legacy) << row.length;
  }
}

// The first vector of SipHash's own paper: key 00 01 ... 0f, text 00 01 ... 0e.
TEST(StringHash, SipHashVector) {
  std::string text;
  for (char c = 0; c < 15; ++c) text += c;
  EXPECT_EQ(sip_hash(0x0706050403020100, 0x0f0e0d0c0b0a0908, text), 0xa129ca6149be45e5u);
}

// No byte outside the text counts, wherever it lies in memory.
TEST(StringHash, DependsOnTheTextOnly) {
  for (std::size_t length = 0; length < 300; ++length) {
    const std::string text = text_of_length(length), padded = "xyz" + text + "more";
    const std::string_view inside = std::string_view(padded).substr(3, length);
    EXPECT_EQ(fingerprint64(inside), fingerprint64(text)) << length;
    EXPECT_EQ(sip_hash(1, 2, inside), sip_hash(1, 2, text)) << length;
    EXPECT_EQ(murmur_hash64(inside), murmur_hash64(text)) << length;
  }
}

}  // namespace tutti::cpu::string_hash_test
