// What every step of a registered graph receives from other tasks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tutti::internal {

// The task to ask for the value of `key` when `task` wants it; empty: itself. A client's value has the client's device
// at both ends, and is put into the table of whichever task needs it.
std::string_view source_of(std::string_view key, std::string_view task);
// That of the sender in a key with at least two parts; 0 when it is none.
std::uint64_t incarnation_in(std::string_view key);
// The value's name in a key, for messages; all of a key that has none.
std::string name_in(std::string_view key);

// Constant, but for what is learnt about the sources.
class ReceivedValues {
 public:
  struct Source {
    std::string task;
    std::uint64_t incarnation = 0;
    std::vector<std::string> keys;
    std::vector<std::int64_t> unhurried;  // those of them, by index, that may as well come with others
    // It does not know RecvTensors. Nothing hangs on when this is seen.
    std::atomic<bool> plain{false};
  };
  struct Place {
    std::size_t source = 0;
    std::size_t index = 0;
  };

  // Of a graph of `task`. Keys of its own values are left out, and those that come twice are there once. `unhurried`:
  // by key, as TaskGraph has it.
  ReceivedValues(std::string_view task, const std::vector<std::string>& keys, const std::vector<bool>& unhurried = {});

  const std::vector<std::unique_ptr<Source>>& sources() const { return sources_; }
  // Null: none of these.
  const Place* find(std::string_view key) const {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &found->second;
  }

 private:
  std::vector<std::unique_ptr<Source>> sources_;
  std::unordered_map<std::string_view, Place> places_;  // of the sources' keys
};

}  // namespace tutti::internal
