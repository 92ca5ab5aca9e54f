#include "tutti/data/gzip.h"

#include <gtest/gtest.h>

#include "gzip_support.h"

namespace tutti::gzip_test {

using testing::gzip;

TEST(Gzip, UnfoldsWhatWasFolded) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += std::to_string(i * 7919 % 1000);
  Result<std::string> out = gunzip(gzip(text), text.size() + 100);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(*out, text);
}

TEST(Gzip, EmptyContent) {
  Result<std::string> out = gunzip(gzip(""), 10);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(*out, "");
}

TEST(Gzip, StopsAtTheLimit) {
  Result<std::string> out = gunzip(gzip(std::string(1 << 20, 'a')), 1000);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(*out, std::string(1000, 'a'));
}

TEST(Gzip, MembersFollowEachOther) {
  Result<std::string> out = gunzip(gzip("one ") + gzip("") + gzip("two") + "trailing", 100);
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(*out, "one two");
}

TEST(Gzip, EveryTruncationIsAnError) {
  const std::string whole = gzip("a text that is long enough to have some bytes, some bytes, some bytes");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    EXPECT_EQ(gunzip(whole.substr(0, n), 1000).status().code(), Code::kDataLoss) << n;
  }
}

TEST(Gzip, DamageIsAnErrorNotACrash) {
  const std::string whole = gzip("a text that is long enough to have some bytes");
  for (std::size_t n = 0; n < whole.size(); ++n) {
    std::string damaged = whole;
    damaged[n] = static_cast<char>(damaged[n] ^ 0x5a);
    (void)gunzip(damaged, 1000);  // a damaged comment or time stamp may pass; memory must stay whole
  }
  std::string wrong_sum = whole;
  wrong_sum[whole.size() - 8] = static_cast<char>(wrong_sum[whole.size() - 8] ^ 1);
  const Status status = gunzip(wrong_sum, 1000).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_NE(status.message().find("damaged"), std::string::npos) << status.message();
}

TEST(Gzip, Magic) {
  EXPECT_TRUE(is_gzip("\x1f\x8b\x08"));
  EXPECT_FALSE(is_gzip("\x1f"));
  EXPECT_FALSE(is_gzip(""));
}

}  // namespace tutti::gzip_test
