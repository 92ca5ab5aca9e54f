#include "tutti/core/strings.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

namespace tutti::strings_test {

struct Named {
  std::string to_string() const { return "named"; }
};

TEST(StrCat, JoinsAllKindsOfPieces) {
  const std::string text = "text";
  const char* pointer = "pointer";
  EXPECT_EQ(str_cat("a", text, std::string_view("view"), pointer, 'c', true, false, -1, 2u, Named{}),
            "atextviewpointerctruefalse-12named");
  EXPECT_EQ(str_cat(), "");
}

TEST(StrCat, IntegersAtTheirLimits) {
  EXPECT_EQ(str_cat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(str_cat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(str_cat(static_cast<std::uint8_t>(200)), "200");
  EXPECT_EQ(str_cat(static_cast<std::int8_t>(-5)), "-5");
}

TEST(StrCat, FloatsAreTheShortestThatReadBack) {
  EXPECT_EQ(str_cat(0.1), "0.1");
  EXPECT_EQ(str_cat(0.1f), "0.1");
  EXPECT_EQ(str_cat(static_cast<double>(0.1f)), "0.10000000149011612");
  EXPECT_EQ(str_cat(3.0), "3");
  EXPECT_EQ(str_cat(-0.0), "-0");
  EXPECT_EQ(str_cat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(str_cat(std::nan("")), "nan");
  for (const double value : {1e300, 5e-324, 1.0 / 3, 123456789.123456789, std::numeric_limits<double>::max()}) {
    EXPECT_EQ(std::strtod(str_cat(value).c_str(), nullptr), value);
    EXPECT_EQ(std::strtod(str_cat(-value).c_str(), nullptr), -value);
  }
}

TEST(StrJoin, PutsSeparatorsBetween) {
  EXPECT_EQ(str_join(std::vector<int>{}, ", "), "");
  EXPECT_EQ(str_join(std::vector<int>{1}, ", "), "1");
  EXPECT_EQ(str_join(std::vector<std::string>{"a", "", "c"}, ", "), "a, , c");
  EXPECT_EQ(str_join(std::vector<bool>{true, false}, "|"), "true|false");
}

TEST(StrSplit, KeepsEmptyPieces) {
  using Pieces = std::vector<std::string_view>;
  EXPECT_EQ(str_split("a,b,c", ','), (Pieces{"a", "b", "c"}));
  EXPECT_EQ(str_split("", ','), (Pieces{""}));
  EXPECT_EQ(str_split(",", ','), (Pieces{"", ""}));
  EXPECT_EQ(str_split("a,,b,", ','), (Pieces{"a", "", "b", ""}));
}

TEST(StrStrip, OnlyTheEnds) {
  EXPECT_EQ(str_strip("  a b\t\r\n"), "a b");
  EXPECT_EQ(str_strip("a"), "a");
  EXPECT_EQ(str_strip(" \n "), "");
  EXPECT_EQ(str_strip(""), "");
}

TEST(ParseInt64, TheWholeText) {
  std::int64_t value = 0;
  EXPECT_TRUE(parse_int64("0", &value));
  EXPECT_EQ(value, 0);
  EXPECT_TRUE(parse_int64("-9223372036854775808", &value));
  EXPECT_EQ(value, std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(parse_int64("9223372036854775807", &value));
  EXPECT_EQ(value, std::numeric_limits<std::int64_t>::max());
}

TEST(ParseInt64, LeavesTheValueWhenItIsNoNumber) {
  std::int64_t value = 42;
  for (const char* text : {"", " 1", "1 ", "1x", "x", "-", "+1", "0x10", "1.5", "9223372036854775808"}) {
    EXPECT_FALSE(parse_int64(text, &value)) << text;
  }
  EXPECT_EQ(value, 42);
}

TEST(Printable, EscapesWhatIsNotPrintableAscii) {
  EXPECT_EQ(printable("plain text ~"), "plain text ~");
  EXPECT_EQ(printable("a\nb\tc"), "a\\nb\\tc");
  EXPECT_EQ(printable(std::string_view("\0\x7f\xff", 3)), "\\x00\\x7f\\xff");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, NeverLongerThanTheLimit) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abc...");
  EXPECT_EQ(printable("ab\ncdefg", 6), "ab...");  // the escape is not cut in two
  EXPECT_EQ(printable("\xff\xff", 8), "\\xff\\xff");
  EXPECT_EQ(printable("abc", 2), "..");
  EXPECT_EQ(printable("abc", 0), "");
  const std::string large(1 << 20, '\xff');
  EXPECT_LE(printable(large).size(), 200u);
  EXPECT_TRUE(printable(large).ends_with("..."));
}

}  // namespace tutti::strings_test
