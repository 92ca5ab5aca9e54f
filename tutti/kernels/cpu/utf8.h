// UTF-8, read and written one code point at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti::cpu {

inline bool is_utf8_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }
// Bytes that begin a character: their number for valid text, and something harmless for other bytes.
std::int64_t utf8_length(std::string_view text);
// The code point at `*at`, which moves behind it; U+FFFD for bytes that are none. REQUIRES: *at < text.size().
char32_t next_utf8(std::string_view text, std::size_t* at);
void append_utf8(std::string& out, char32_t code_point);

// Full Unicode case, without the rules of single languages. Bytes that are not UTF-8 become U+FFFD.
std::string utf8_upper(std::string_view text);
std::string utf8_lower(std::string_view text);

}  // namespace tutti::cpu
