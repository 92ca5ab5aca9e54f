// The sending half of a connection: the queue in front of the ring, and what is lent to the peer.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tutti/core/mutex.h"
#include "tutti/core/payload.h"
#include "tutti/transport/shm/internal/frame.h"
#include "tutti/transport/shm/internal/segment_pool.h"

namespace tutti::shm {

// Sends without ever waiting: what does not fit in the ring is queued, and goes on when the peer has made room
// (flush). The queue holds references to payloads, at most kMaxQueuedBytes and kMaxQueuedFrames of them.
//
// A piece that lies in one of our segments is lent: its owner is kept until the peer's release or the end of the
// connection. Large ones from elsewhere are copied into a segment first; when the segments are full, or `loan_limit`
// bytes are lent already, bytes go through the ring. Thread-safe; owners are dropped with no lock held.
class FrameSender {
 public:
  static constexpr std::size_t kMaxQueuedBytes = std::size_t{1} << 30;
  static constexpr std::size_t kMaxQueuedFrames = std::size_t{1} << 16;

  // The descriptors and `pool` outlive it.
  FrameSender(RingWriter ring, int socket, int peer_doorbell, SegmentPool& pool, std::size_t loan_limit);

  // kResourceExhausted: too much is queued, nothing was sent. Other errors: the connection is lost.
  Status send(FrameKind kind, std::uint64_t id, const Status& status, std::string_view text, const Payload& payload);
  Status send(FrameKind kind, std::uint64_t id) { return send(kind, id, {}, {}, {}); }
  // Takes the call back while it is queued, or tells the peer that nobody waits for it.
  Status cancel_call(std::uint64_t id);
  // Tells the peer, if it has seen the segment.
  Status forget_segment(std::uint64_t id);
  // The peer has given a loan back. kDataLoss: there is none.
  Status release(std::uint64_t loan);
  // Continues with the queue.
  Status flush();
  // Drops the queue and the loans. Nothing is sent any more.
  void close();

 private:
  struct OutFrame {
    FrameKind kind{};
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
  std::uint64_t lend(std::shared_ptr<const void> owner, std::size_t bytes);
  void take_back(const OutFrame& frame);
  Status enqueue(OutFrame& frame, bool bounded);
  Status write_queue(std::vector<OutFrame>& finished, bool& wake) TUTTI_REQUIRES(mu_);
  bool write_frame(OutFrame& frame) TUTTI_REQUIRES(mu_);

  const int socket_;
  const int peer_doorbell_;
  SegmentPool& pool_;
  const std::size_t loan_limit_;

  Mutex mu_;
  RingWriter ring_ TUTTI_GUARDED_BY(mu_);
  std::deque<OutFrame> queue_ TUTTI_GUARDED_BY(mu_);
  std::size_t queued_bytes_ TUTTI_GUARDED_BY(mu_) = 0;
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;

  struct Loan {
    std::shared_ptr<const void> owner;
    std::size_t bytes = 0;
  };
  Mutex loans_mu_;
  std::uint64_t next_loan_ TUTTI_GUARDED_BY(loans_mu_) = 1;
  std::size_t lent_bytes_ TUTTI_GUARDED_BY(loans_mu_) = 0;
  bool no_loans_ TUTTI_GUARDED_BY(loans_mu_) = false;
  std::unordered_map<std::uint64_t, Loan> loans_ TUTTI_GUARDED_BY(loans_mu_);
  // Segments whose descriptor the peer has.
  std::unordered_set<std::uint64_t> announced_ TUTTI_GUARDED_BY(loans_mu_);
};

}  // namespace tutti::shm
