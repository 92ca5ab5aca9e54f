#include "tutti/kernels/cpu/utf8.h"

#include <algorithm>
#include <array>
#include <clocale>
#include <cwctype>
#include <iterator>

namespace tutti::cpu {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// Characters whose upper case is more than one character (Unicode's SpecialCasing), by code point.
struct LongUpper {
  char32_t from;
  std::array<char32_t, 3> to;
};
constexpr LongUpper kLongUpper[] = {
    // clang-format off
    {0x00df, {0x0053, 0x0053}}, {0x0149, {0x02bc, 0x004e}}, {0x01f0, {0x004a, 0x030c}},
    {0x0390, {0x0399, 0x0308, 0x0301}}, {0x03b0, {0x03a5, 0x0308, 0x0301}}, {0x0587, {0x0535, 0x0552}},
    {0x1e96, {0x0048, 0x0331}}, {0x1e97, {0x0054, 0x0308}}, {0x1e98, {0x0057, 0x030a}}, {0x1e99, {0x0059, 0x030a}},
    {0x1e9a, {0x0041, 0x02be}}, {0x1f50, {0x03a5, 0x0313}}, {0x1f52, {0x03a5, 0x0313, 0x0300}},
    {0x1f54, {0x03a5, 0x0313, 0x0301}}, {0x1f56, {0x03a5, 0x0313, 0x0342}}, {0x1f80, {0x1f08, 0x0399}},
    {0x1f81, {0x1f09, 0x0399}}, {0x1f82, {0x1f0a, 0x0399}}, {0x1f83, {0x1f0b, 0x0399}}, {0x1f84, {0x1f0c, 0x0399}},
    {0x1f85, {0x1f0d, 0x0399}}, {0x1f86, {0x1f0e, 0x0399}}, {0x1f87, {0x1f0f, 0x0399}}, {0x1f88, {0x1f08, 0x0399}},
    {0x1f89, {0x1f09, 0x0399}}, {0x1f8a, {0x1f0a, 0x0399}}, {0x1f8b, {0x1f0b, 0x0399}}, {0x1f8c, {0x1f0c, 0x0399}},
    {0x1f8d, {0x1f0d, 0x0399}}, {0x1f8e, {0x1f0e, 0x0399}}, {0x1f8f, {0x1f0f, 0x0399}}, {0x1f90, {0x1f28, 0x0399}},
    {0x1f91, {0x1f29, 0x0399}}, {0x1f92, {0x1f2a, 0x0399}}, {0x1f93, {0x1f2b, 0x0399}}, {0x1f94, {0x1f2c, 0x0399}},
    {0x1f95, {0x1f2d, 0x0399}}, {0x1f96, {0x1f2e, 0x0399}}, {0x1f97, {0x1f2f, 0x0399}}, {0x1f98, {0x1f28, 0x0399}},
    {0x1f99, {0x1f29, 0x0399}}, {0x1f9a, {0x1f2a, 0x0399}}, {0x1f9b, {0x1f2b, 0x0399}}, {0x1f9c, {0x1f2c, 0x0399}},
    {0x1f9d, {0x1f2d, 0x0399}}, {0x1f9e, {0x1f2e, 0x0399}}, {0x1f9f, {0x1f2f, 0x0399}}, {0x1fa0, {0x1f68, 0x0399}},
    {0x1fa1, {0x1f69, 0x0399}}, {0x1fa2, {0x1f6a, 0x0399}}, {0x1fa3, {0x1f6b, 0x0399}}, {0x1fa4, {0x1f6c, 0x0399}},
    {0x1fa5, {0x1f6d, 0x0399}}, {0x1fa6, {0x1f6e, 0x0399}}, {0x1fa7, {0x1f6f, 0x0399}}, {0x1fa8, {0x1f68, 0x0399}},
    {0x1fa9, {0x1f69, 0x0399}}, {0x1faa, {0x1f6a, 0x0399}}, {0x1fab, {0x1f6b, 0x0399}}, {0x1fac, {0x1f6c, 0x0399}},
    {0x1fad, {0x1f6d, 0x0399}}, {0x1fae, {0x1f6e, 0x0399}}, {0x1faf, {0x1f6f, 0x0399}}, {0x1fb2, {0x1fba, 0x0399}},
    {0x1fb3, {0x0391, 0x0399}}, {0x1fb4, {0x0386, 0x0399}}, {0x1fb6, {0x0391, 0x0342}},
    {0x1fb7, {0x0391, 0x0342, 0x0399}}, {0x1fbc, {0x0391, 0x0399}}, {0x1fc2, {0x1fca, 0x0399}},
    {0x1fc3, {0x0397, 0x0399}}, {0x1fc4, {0x0389, 0x0399}}, {0x1fc6, {0x0397, 0x0342}},
    {0x1fc7, {0x0397, 0x0342, 0x0399}}, {0x1fcc, {0x0397, 0x0399}}, {0x1fd2, {0x0399, 0x0308, 0x0300}},
    {0x1fd3, {0x0399, 0x0308, 0x0301}}, {0x1fd6, {0x0399, 0x0342}}, {0x1fd7, {0x0399, 0x0308, 0x0342}},
    {0x1fe2, {0x03a5, 0x0308, 0x0300}}, {0x1fe3, {0x03a5, 0x0308, 0x0301}}, {0x1fe4, {0x03a1, 0x0313}},
    {0x1fe6, {0x03a5, 0x0342}}, {0x1fe7, {0x03a5, 0x0308, 0x0342}}, {0x1ff2, {0x1ffa, 0x0399}},
    {0x1ff3, {0x03a9, 0x0399}}, {0x1ff4, {0x038f, 0x0399}}, {0x1ff6, {0x03a9, 0x0342}},
    {0x1ff7, {0x03a9, 0x0342, 0x0399}}, {0x1ffc, {0x03a9, 0x0399}}, {0xfb00, {0x0046, 0x0046}},
    {0xfb01, {0x0046, 0x0049}}, {0xfb02, {0x0046, 0x004c}}, {0xfb03, {0x0046, 0x0046, 0x0049}},
    {0xfb04, {0x0046, 0x0046, 0x004c}}, {0xfb05, {0x0053, 0x0054}}, {0xfb06, {0x0053, 0x0054}},
    {0xfb13, {0x0544, 0x0546}}, {0xfb14, {0x0544, 0x0535}}, {0xfb15, {0x0544, 0x053b}}, {0xfb16, {0x054e, 0x0546}},
    {0xfb17, {0x0544, 0x053d}},
    // clang-format on
};

// The C library's tables of single characters, in a locale of our own: the program's stays as it is.
locale_t unicode_locale() {
  static const locale_t locale = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

bool is_letter(char32_t c) {
  const locale_t locale = unicode_locale();
  return locale != nullptr && iswalpha_l(static_cast<wint_t>(c), locale) != 0;
}

char32_t simple_case(char32_t c, bool upper) {
  const locale_t locale = unicode_locale();
  if (locale == nullptr) return c;
  const auto wide = static_cast<wint_t>(c);
  return static_cast<char32_t>(upper ? towupper_l(wide, locale) : towlower_l(wide, locale));
}

void append_upper(std::string& out, char32_t c) {
  const auto* found = std::lower_bound(std::begin(kLongUpper), std::end(kLongUpper), c,
                                       [](const LongUpper& row, char32_t key) { return row.from < key; });
  if (found == std::end(kLongUpper) || found->from != c) return append_utf8(out, simple_case(c, true));
  for (char32_t part : found->to) {
    if (part != 0) append_utf8(out, part);
  }
}

// How many bytes a character that begins with this one has; 0 for a byte that begins none.
int sequence_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

bool is_scalar_value(char32_t c, int length) {
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  return c >= kLeast[length] && c < 0x110000 && (c < 0xd800 || c >= 0xe000);
}

}  // namespace

std::int64_t utf8_length(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_utf8_continuation(c); });
}

char32_t next_utf8(std::string_view text, std::size_t* at) {
  const auto lead = static_cast<unsigned char>(text[*at]);
  const int length = sequence_length(lead);
  ++*at;
  if (length == 1) return lead;
  if (length == 0) return kReplacement;
  char32_t c = lead & (0x7fu >> length);
  std::size_t end = *at;
  for (int i = 1; i < length; ++i, ++end) {
    if (end >= text.size() || !is_utf8_continuation(text[end])) return kReplacement;
    c = c << 6 | (static_cast<unsigned char>(text[end]) & 0x3f);
  }
  if (!is_scalar_value(c, length)) return kReplacement;
  *at = end;
  return c;
}

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
    return;
  }
  const int length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  constexpr unsigned kLead[] = {0, 0, 0xc0, 0xe0, 0xf0};
  out += static_cast<char>(kLead[length] | c >> (6 * (length - 1)));
  for (int i = length - 2; i >= 0; --i) out += static_cast<char>(0x80 | (c >> (6 * i) & 0x3f));
}

std::string utf8_upper(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(out, next_utf8(text, &at));
  return out;
}

std::string utf8_lower(std::string_view text) {
  constexpr char32_t kSigma = 0x3a3, kFinalSigma = 0x3c2, kDottedI = 0x130;
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t c = next_utf8(text, &at);
    std::size_t after = at;
    const bool ends_word = at == text.size() || !is_letter(next_utf8(text, &after));
    if (c == kDottedI) {
      out += "i\u0307";
    } else {
      append_utf8(out, c == kSigma && in_word && ends_word ? kFinalSigma : simple_case(c, false));
    }
    in_word = is_letter(c);
  }
  return out;
}

}  // namespace tutti::cpu
