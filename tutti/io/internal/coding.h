// Numbers in files: fixed little-endian and base-128 varints.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

void put_fixed32(std::string& out, std::uint32_t value);
void put_fixed64(std::string& out, std::uint64_t value);
void put_varint64(std::string& out, std::uint64_t value);

// Takes values off the front of bytes from outside. A call that finds too few bytes, or a varint that is too long or
// too large, returns false; where the cursor stands is then undefined.
class ByteCursor {
 public:
  explicit ByteCursor(std::string_view bytes) : rest_(bytes) {}
  bool fixed32(std::uint32_t* value);
  bool fixed64(std::uint64_t* value);
  bool varint32(std::uint32_t* value);
  bool varint64(std::uint64_t* value);
  bool bytes(std::uint64_t count, std::string_view* value);
  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

}  // namespace tutti
