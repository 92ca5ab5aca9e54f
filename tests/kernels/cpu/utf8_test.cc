#include "tutti/kernels/cpu/utf8.h"

#include <gtest/gtest.h>

namespace tutti::cpu::utf8_test {

TEST(Utf8, EveryCodePointComesBack) {
  for (char32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(text, c);
    std::size_t at = 0;
    const char32_t expected = c >= 0xd800 && c < 0xe000 ? 0xfffd : c;
    ASSERT_EQ(next_utf8(text, &at), expected) << static_cast<unsigned>(c);
    if (expected == c) {
      ASSERT_EQ(at, text.size());
      ASSERT_EQ(utf8_length(text), 1);
    }
  }
}

TEST(Utf8, BadBytesAreReplacedOneByOne) {
  // Overlong, surrogate, beyond the last plane, cut short, stray.
  for (std::string_view bad : {"\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf0\x9d", "\x80"}) {
    std::size_t at = 0;
    EXPECT_EQ(next_utf8(bad, &at), U'\ufffd');
    EXPECT_EQ(at, 1u);
  }
}

TEST(Utf8, Case) {
  EXPECT_EQ(utf8_upper("aéß ﬁŉ"), "AÉSS FIʼN");
  EXPECT_EQ(utf8_lower("AÉẞ ΑΣ ΒΣΓ Σ"), "aéß ας βσγ σ");
  EXPECT_EQ(utf8_lower("İ"), "i\u0307");
  EXPECT_EQ(utf8_lower("A\xff"), "a\ufffd");
  EXPECT_EQ(utf8_upper(""), "");
}

}  // namespace tutti::cpu::utf8_test
