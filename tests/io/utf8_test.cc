#include "tutti/io/internal/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace tutti::utf8_test {

TEST(Utf8, Good) {
  for (const std::string text : {"", "plain", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xf4\x8f\xbf\xbf", "a\xc2\x80z"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  EXPECT_TRUE(is_utf8(std::string(3, '\0')));
}

TEST(Utf8, Bad) {
  for (const std::string text :
       {"\x80", "\xff", "\xc3", "\xc3(", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xe2\x82", "\xed\xa0\x80",
        "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x9f\x98", "ok\xfe"}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

}  // namespace tutti::utf8_test
