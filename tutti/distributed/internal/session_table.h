// The sessions of a master by their handles.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti::internal {

class MasterSession;

// In shards, so that steps of different sessions do not meet at one lock. Thread-safe.
class SessionTable {
 public:
  using Pointer = std::shared_ptr<MasterSession>;

  void insert(const std::string& handle, Pointer session) {
    Shard& shard = shard_of(handle);
    MutexLock lock(shard.mu);
    shard.sessions[handle] = std::move(session);
  }
  // Null when there is none.
  Pointer find(const std::string& handle) {
    Shard& shard = shard_of(handle);
    MutexLock lock(shard.mu);
    auto it = shard.sessions.find(handle);
    return it == shard.sessions.end() ? nullptr : it->second;
  }
  Pointer remove(const std::string& handle) {
    Shard& shard = shard_of(handle);
    MutexLock lock(shard.mu);
    auto it = shard.sessions.find(handle);
    if (it == shard.sessions.end()) return nullptr;
    Pointer session = std::move(it->second);
    shard.sessions.erase(it);
    return session;
  }
  std::size_t size() {
    std::size_t count = 0;
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mu);
      count += shard.sessions.size();
    }
    return count;
  }
  std::vector<Pointer> all() {
    std::vector<Pointer> sessions;
    for (Shard& shard : shards_) {
      MutexLock lock(shard.mu);
      for (const auto& [handle, session] : shard.sessions) sessions.push_back(session);
    }
    return sessions;
  }

 private:
  struct Shard {
    Mutex mu;
    std::unordered_map<std::string, Pointer> sessions TUTTI_GUARDED_BY(mu);
  };
  Shard& shard_of(const std::string& handle) { return shards_[std::hash<std::string>{}(handle) % shards_.size()]; }

  std::array<Shard, 16> shards_;
};

}  // namespace tutti::internal
