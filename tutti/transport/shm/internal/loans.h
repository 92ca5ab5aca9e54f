// What two processes lend each other. It outlasts their connection: a value that was lent is not written again before
// its reader has let go of it, whoever closes what in between.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "tutti/core/mutex.h"
#include "tutti/transport/shm/internal/event_loop.h"
#include "tutti/transport/shm/internal/files.h"
#include "tutti/transport/shm/internal/segment_pool.h"

namespace tutti::shm {

using SharedSocket = std::shared_ptr<const UniqueFd>;

// Held by an open connection and by each value that it has received and somebody still reads. The last to go tells the
// peer, by closing our half of the socket, that nothing of its memory is looked at any more.
class Borrowing {
 public:
  explicit Borrowing(SharedSocket socket) : socket_(std::move(socket)) {}
  ~Borrowing();
  Borrowing(const Borrowing&) = delete;
  Borrowing& operator=(const Borrowing&) = delete;

 private:
  const SharedSocket socket_;
};

// The owners of what is lent to one peer. Thread-safe; owners are dropped with no lock held.
class Loans : public Watched, public std::enable_shared_from_this<Loans> {
 public:
  // All lie in segments, whose size is what bounds the memory.
  static constexpr std::size_t kMaxLoans = std::size_t{1} << 18;

  Loans(SharedSocket socket, std::shared_ptr<SegmentPool> pool, std::weak_ptr<EventLoop> loop);
  // What is still lent is kept for as long as the pool could use its memory again.
  ~Loans() override;

  // 0: not lent, too many are or the connection has ended.
  std::uint64_t lend(std::shared_ptr<const void> owner);
  // The peer has given it back, or never heard of it. kDataLoss: there is no such loan.
  Status release(std::uint64_t loan);
  // The connection has ended, and the loop no longer watches its socket for others. Nothing is lent any more; what is,
  // stays until the peer looks at nothing any more or has died.
  void outlast_connection();

  void ready(int fd) override;

 private:
  using Owners = std::unordered_map<std::uint64_t, std::shared_ptr<const void>>;

  void peer_is_done();

  const SharedSocket socket_;
  const std::shared_ptr<SegmentPool> pool_;
  const std::weak_ptr<EventLoop> loop_;  // holds us, at the end

  Mutex mu_;
  std::uint64_t next_ TUTTI_GUARDED_BY(mu_) = 1;
  bool ended_ TUTTI_GUARDED_BY(mu_) = false;
  Owners owners_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::shm
