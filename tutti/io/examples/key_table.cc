#include "tutti/io/examples/key_table.h"

#include <cstring>

namespace tutti {

std::uint32_t KeyTable::hash(std::string_view key) {
  if (key.empty()) return 0;
  std::uint64_t front = 0, back = 0;
  const std::size_t part = key.size() < 8 ? key.size() : 8;
  std::memcpy(&front, key.data(), part);
  std::memcpy(&back, key.data() + key.size() - part, part);
  const std::uint64_t mixed = (front + key.size()) * 0x9e3779b97f4a7c15u ^ back * 0xc2b2ae3d27d4eb4fu;
  return static_cast<std::uint32_t>(mixed >> 32 ^ mixed >> 15);
}

KeyTable::KeyTable(std::vector<std::string> keys) : keys_(std::move(keys)) {
  std::size_t room = 4;
  while (room < 2 * keys_.size() + 1) room *= 2;
  places_.assign(room, kNone);
  mask_ = static_cast<std::uint32_t>(room - 1);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (find(keys_[i]) != kNone) {
      repeated_ = static_cast<int>(i);
      continue;
    }
    std::uint32_t at = hash(keys_[i]) & mask_;
    while (places_[at] != kNone) at = (at + 1) & mask_;
    places_[at] = static_cast<int>(i);
  }
}

}  // namespace tutti
