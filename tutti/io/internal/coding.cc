#include "tutti/io/internal/coding.h"

#include <limits>

#include "tutti/core/varints.h"

namespace tutti {

namespace {

template <typename T>
void put_fixed(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

template <typename T>
bool take_fixed(std::string_view& rest, T* value) {
  if (rest.size() < sizeof(T)) return false;
  T result = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) result |= static_cast<T>(static_cast<unsigned char>(rest[i])) << (8 * i);
  rest.remove_prefix(sizeof(T));
  *value = result;
  return true;
}

}  // namespace

void put_fixed32(std::string& out, std::uint32_t value) { put_fixed(out, value); }
void put_fixed64(std::string& out, std::uint64_t value) { put_fixed(out, value); }

void put_varint64(std::string& out, std::uint64_t value) { append_varint(value, &out); }

bool ByteCursor::fixed32(std::uint32_t* value) { return take_fixed(rest_, value); }
bool ByteCursor::fixed64(std::uint64_t* value) { return take_fixed(rest_, value); }

bool ByteCursor::varint64(std::uint64_t* value) { return take_varint(rest_, value); }

bool ByteCursor::varint32(std::uint32_t* value) {
  std::uint64_t wide = 0;
  if (!varint64(&wide) || wide > std::numeric_limits<std::uint32_t>::max()) return false;
  *value = static_cast<std::uint32_t>(wide);
  return true;
}

bool ByteCursor::bytes(std::uint64_t count, std::string_view* value) {
  if (count > rest_.size()) return false;
  *value = rest_.substr(0, count);
  rest_.remove_prefix(count);
  return true;
}

}  // namespace tutti
