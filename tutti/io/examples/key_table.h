// Finding the few keys that are wanted among all that examples have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// Constant once made; shared between threads.
class KeyTable {
 public:
  static constexpr int kNone = -1;

  // Of keys that are given twice the first is found; repeated() is one of those, or null.
  explicit KeyTable(std::vector<std::string> keys);
  const std::string* repeated() const { return repeated_ < 0 ? nullptr : &key(repeated_); }

  // The key's index, or kNone.
  int find(std::string_view key) const {
    for (std::uint32_t at = hash(key) & mask_;; at = (at + 1) & mask_) {
      const int index = places_[at];
      if (index == kNone || keys_[static_cast<std::size_t>(index)] == key) return index;
    }
  }
  const std::string& key(int index) const { return keys_[static_cast<std::size_t>(index)]; }
  int size() const { return static_cast<int>(keys_.size()); }

 private:
  // By length and both ends: names differ there, and keys come from the graph, not from the data.
  static std::uint32_t hash(std::string_view key);

  const std::vector<std::string> keys_;
  std::vector<int> places_;  // a power of two of them, at most half taken
  std::uint32_t mask_ = 0;
  int repeated_ = kNone;
};

}  // namespace tutti
