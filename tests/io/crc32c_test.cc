#include "tutti/io/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tutti::crc32c_test {

// Bit by bit, from the polynomial.
std::uint32_t slow_crc(std::string_view bytes) {
  std::uint32_t crc = 0xffffffff;
  for (char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
  }
  return ~crc;
}

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(mask_crc(0), 0xa282ead8u);
  EXPECT_EQ(mask_crc(0xe3069283u), 0xc78ab0e5u);
  EXPECT_EQ(unmask_crc(0xc78ab0e5u), 0xe3069283u);
}

TEST(Crc32c, AllLengthsAndSplits) {
  std::mt19937 random(1);
  std::string bytes;
  for (int length = 0; length < 300; ++length) {
    EXPECT_EQ(crc32c(bytes), slow_crc(bytes)) << length;
    const std::size_t split = bytes.empty() ? 0 : random() % bytes.size();
    EXPECT_EQ(crc32c_extend(crc32c(bytes.substr(0, split)), bytes.substr(split)), slow_crc(bytes));
    EXPECT_EQ(unmask_crc(mask_crc(crc32c(bytes))), crc32c(bytes));
    bytes += static_cast<char>(random());
  }
}

}  // namespace tutti::crc32c_test
