// The peer's segments, as it has told us of them over the socket.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>

#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/files.h"
#include "tutti/transport/shm/internal/handshake.h"
#include "tutti/transport/shm/internal/message.h"

namespace tutti::shm {

// Thread-safe. Mappings live on while somebody holds them.
class PeerMemory {
 public:
  // `socket` outlives it.
  explicit PeerMemory(int socket) : socket_(socket) {}

  // Takes in packets, at most some dozens; `more`: call it again, after others had their turn. kUnavailable: the peer
  // has closed. Other errors: it is not to be trusted.
  Status receive(bool& more);
  struct Place {
    std::shared_ptr<Mapping> mapping;
    std::span<const std::byte> bytes;
  };
  // kDataLoss when it lies outside of what the peer has shared.
  Result<Place> find(const PieceHeader& piece);
  Status forget(std::uint64_t segment);

 private:
  // Whether there may be more.
  bool receive_locked(std::size_t max_packets) TUTTI_REQUIRES(mu_);
  Status add(const Received& received) TUTTI_REQUIRES(mu_);

  const int socket_;
  Mutex mu_;
  std::uint64_t mapped_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  Status closed_ TUTTI_GUARDED_BY(mu_);  // the first error
  std::unordered_map<std::uint64_t, std::shared_ptr<Mapping>> segments_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::shm
