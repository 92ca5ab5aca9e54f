#include "tutti/core/strings.h"

#include <charconv>

namespace tutti {

namespace internal {
namespace {

// Enough for the shortest form of any double and any 64-bit integer.
constexpr std::size_t kNumberBytes = 32;

template <typename T>
void append_number(std::string& out, T value) {
  char buffer[kNumberBytes];
  const std::to_chars_result result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

}  // namespace

void append_int(std::string& out, std::int64_t value) { append_number(out, value); }
void append_uint(std::string& out, std::uint64_t value) { append_number(out, value); }
void append_float(std::string& out, float value) { append_number(out, value); }
void append_double(std::string& out, double value) { append_number(out, value); }

}  // namespace internal

std::vector<std::string_view> str_split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  while (true) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view str_strip(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool parse_int64(std::string_view text, std::int64_t* value) {
  const char* end = text.data() + text.size();
  std::int64_t parsed;
  const std::from_chars_result result = std::from_chars(text.data(), end, parsed);
  if (result.ec != std::errc() || result.ptr != end) return false;
  *value = parsed;
  return true;
}

std::string printable(std::string_view text, std::size_t limit) {
  constexpr char kHex[] = "0123456789abcdef";
  constexpr std::string_view kCut = "...";
  std::string out;
  // Where to cut, should the whole not fit: after the last piece that leaves room for the dots.
  std::size_t cut = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else {
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
    if (out.size() > limit) {
      out.resize(cut);
      out += kCut.substr(0, limit - cut);
      return out;
    }
    if (out.size() + kCut.size() <= limit) cut = out.size();
  }
  return out;
}

}  // namespace tutti
