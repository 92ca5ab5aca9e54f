// Text helpers for messages and names. Light on purpose: included nearly everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tutti {

namespace internal {
void append_int(std::string& out, std::int64_t value);
void append_uint(std::string& out, std::uint64_t value);
// The shortest digits that read back as the same value.
void append_float(std::string& out, float value);
void append_double(std::string& out, double value);

template <typename T>
void append_piece(std::string& out, const T& piece) {
  if constexpr (std::is_same_v<T, bool>) {
    out += piece ? "true" : "false";
  } else if constexpr (std::is_same_v<T, char>) {
    out += piece;
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    out += std::string_view(piece);
  } else if constexpr (std::is_same_v<T, float>) {
    append_float(out, piece);
  } else if constexpr (std::is_floating_point_v<T>) {
    append_double(out, static_cast<double>(piece));
  } else if constexpr (std::is_unsigned_v<T>) {
    append_uint(out, piece);
  } else if constexpr (std::is_integral_v<T>) {
    append_int(out, piece);
  } else {
    out += piece.to_string();
  }
}
}  // namespace internal

// Joins strings, numbers and anything with a to_string() method.
template <typename... Parts>
std::string str_cat(const Parts&... parts) {
  std::string out;
  (internal::append_piece(out, parts), ...);
  return out;
}

// "a, b, c" of any range whose elements str_cat takes.
template <typename Range>
std::string str_join(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& piece : range) {
    if (!first) out += separator;
    first = false;
    internal::append_piece(out, piece);
  }
  return out;
}

// One piece more than there are separators.
std::vector<std::string_view> str_split(std::string_view text, char separator);
// Without the ASCII white space at both ends.
std::string_view str_strip(std::string_view text);

// The whole of `text` as a decimal number; false when it is not one or does not fit.
bool parse_int64(std::string_view text, std::int64_t* value);

// `text` made safe for a log line or an error: at most `limit` bytes (ending in "..." when cut), bytes
// that are not printable ASCII escaped. Names from outside may be megabytes long and of any bytes.
std::string printable(std::string_view text, std::size_t limit = 200);

}  // namespace tutti
