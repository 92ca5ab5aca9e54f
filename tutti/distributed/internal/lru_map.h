// A map of limited size that forgets what was not asked for the longest.
#pragma once

#include <cstddef>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace tutti::internal {

// Not thread-safe.
template <typename Value>
class LruMap {
 public:
  // REQUIRES: limit > 0.
  explicit LruMap(std::size_t limit) : limit_(limit) {}

  // Null when it is not there. Valid until the next insert.
  Value* find(std::string_view key) {
    const auto found = index_.find(key);
    if (found == index_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return &found->second->second;
  }
  // What is there under the key then: the old value, if there was one.
  Value& insert(std::string key, Value value) {
    if (Value* known = find(key)) return *known;
    entries_.emplace_front(std::move(key), std::move(value));
    index_.emplace(entries_.front().first, entries_.begin());
    if (entries_.size() > limit_) {
      index_.erase(entries_.back().first);
      entries_.pop_back();
    }
    return entries_.front().second;
  }
  std::size_t size() const { return entries_.size(); }

 private:
  using Entries = std::list<std::pair<const std::string, Value>>;  // the latest first

  const std::size_t limit_;
  Entries entries_;
  std::unordered_map<std::string_view, typename Entries::iterator> index_;  // keys lie in the entries
};

}  // namespace tutti::internal
