// The sending half of a connection: the queue in front of the ring, and what is lent to the peer.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/payload.h"
#include "tutti/transport/shm/internal/loans.h"
#include "tutti/transport/shm/internal/message.h"
#include "tutti/transport/shm/internal/segment_pool.h"

namespace tutti::shm {

// Sends without ever waiting: what does not fit in the ring is queued, and goes on when the peer has made room
// (flush). The queue holds references to payloads, at most kMaxQueuedBytes behind the first and
// kMaxQueuedMessages of them.
//
// A piece that lies in one of our segments is lent: its owner is kept in the loans. Large ones from elsewhere are
// copied into a segment first; when the segments are full, or too many loans are out already, bytes go through the
// ring. Thread-safe; owners are dropped with no lock held.
class MessageSender {
 public:
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{1} << 30;
  static constexpr std::size_t kMaxQueuedMessages = std::size_t{1} << 16;

  // `socket`, `bell`, which wakes the peer, `pool` and `loans` outlive it.
  MessageSender(RingWriter ring, int socket, int bell, SegmentPool& pool, Loans& loans);

  // kResourceExhausted: too much is queued, nothing was sent. Other errors: the connection is lost.
  Status send(MessageKind kind, std::uint64_t id, const Status& status, std::string_view text, const Payload& payload);
  Status send(MessageKind kind, std::uint64_t id) { return send(kind, id, {}, {}, {}); }
  // Of a value of the peer's. Nobody waits for those of small ones: they ride with the next message, or ring when there
  // are many.
  Status release(std::uint64_t loan, std::uint64_t bytes);
  // Whether send() copies as much of it, since it lies in none of our segments.
  bool copies(const Payload& payload, std::size_t at_least) const;
  bool has_unrung();
  // For what was sent quietly.
  void ring();
  // Takes the call back while it is queued, or tells the peer that nobody waits for it.
  Status cancel_call(std::uint64_t id);
  // Tells the peer, if it has seen the segment.
  Status forget_segment(std::uint64_t id);
  // Continues with the queue.
  Status flush();
  // Drops the queue and tells the peer that nothing is sent any more.
  void close();

 private:
  struct OutMessage {
    MessageKind kind{};
    std::uint64_t id = 0;
    std::string head;                     // header, piece headers, text
    std::vector<Payload::Piece> in_ring;  // pieces whose bytes go through the ring
    std::vector<std::uint64_t> loans;
    std::size_t bytes = 0;   // of the payload
    std::size_t part = 0;    // 0: head, else in_ring[part - 1]
    std::size_t offset = 0;  // in the part
  };
  class Packer;

  bool announce(const Segment& segment);
  // Of a message that the peer has seen nothing of.
  void take_back(const OutMessage& message);
  enum class Kind { kBounded, kOwed, kQuiet };
  Status enqueue(OutMessage& message, Kind kind);
  std::size_t waiting_bytes() const TUTTI_REQUIRES(mu_);
  Status write_queue(std::vector<OutMessage>& finished, bool& wake) TUTTI_REQUIRES(mu_);
  bool write_message(OutMessage& message) TUTTI_REQUIRES(mu_);

  const int socket_;
  const int bell_;
  SegmentPool& pool_;
  Loans& loans_;

  Mutex mu_;
  RingWriter ring_ TUTTI_GUARDED_BY(mu_);
  std::deque<OutMessage> queue_ TUTTI_GUARDED_BY(mu_);
  std::size_t queued_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  int unrung_ TUTTI_GUARDED_BY(mu_) = 0;  // quiet messages since the peer last had reason to look
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;

  Mutex announced_mu_;
  // Segments whose descriptor the peer has.
  std::unordered_set<std::uint64_t> announced_ TUTTI_GUARDED_BY(announced_mu_);
};

}  // namespace tutti::shm
