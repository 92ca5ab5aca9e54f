#include "tutti/transport/shm/internal/frame_sender.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/transport/shm/internal/event_loop.h"
#include "tutti/transport/shm/internal/handshake.h"

namespace tutti::shm {
namespace {

// From here on a copy into a segment and a reference to it cost less than two copies through the ring.
constexpr std::size_t kCopyToSegmentFrom = std::size_t{32} << 10;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename T>
void append_raw(std::string& out, const T* values, std::size_t count) {
  out.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

}  // namespace

// Sorts the pieces of one payload into references and bytes.
class FrameSender::Packer {
 public:
  Packer(FrameSender& sender, OutFrame& frame) : sender_(sender), frame_(frame) {}

  void add(const Payload::Piece& piece) {
    const std::size_t bytes = piece.bytes.size();
    frame_.bytes += bytes;
    const bool room = pieces_.size() + 1 < kMaxPieces;
    if (bytes >= kMinSharedBytes && room) {
      if (refer(piece.bytes.data(), bytes, piece.owner)) return;
      if (bytes >= kCopyToSegmentFrom && copy_and_refer(piece)) return;
    }
    add_to_ring(piece, room);
  }

  void finish(FrameKind kind, std::uint64_t id, const Status& status, std::string_view text) {
    text = text.substr(0, kMaxTextBytes);
    const FrameHeader header{.kind = static_cast<std::uint32_t>(kind),
                             .code = static_cast<std::uint32_t>(status.code()),
                             .id = id,
                             .text_bytes = static_cast<std::uint32_t>(text.size()),
                             .pieces = static_cast<std::uint32_t>(pieces_.size()),
                             .inline_bytes = ring_bytes_};
    frame_.kind = kind;
    frame_.id = id;
    frame_.head.reserve(sizeof header + pieces_.size() * sizeof(PieceHeader) + text.size());
    append_raw(frame_.head, &header, 1);
    append_raw(frame_.head, pieces_.data(), pieces_.size());
    frame_.head += text;
  }

 private:
  bool refer(const std::byte* data, std::size_t bytes, const std::shared_ptr<const void>& owner) {
    const auto place = sender_.pool_.find(data, bytes);
    if (!place || !sender_.announce(*place->segment)) return false;
    const std::uint64_t loan = sender_.lend(owner, bytes);
    if (loan == 0) return false;
    frame_.loans.push_back(loan);
    pieces_.push_back({.segment = place->segment->id, .offset = place->offset, .bytes = bytes, .loan = loan});
    return true;
  }

  bool copy_and_refer(const Payload::Piece& piece) {
    const BufferPtr copy = sender_.pool_.allocate_shared(piece.bytes.size());
    if (!copy) return false;
    std::memcpy(copy->data(), piece.bytes.data(), piece.bytes.size());
    return refer(static_cast<const std::byte*>(copy->data()), piece.bytes.size(), copy);
  }

  void add_to_ring(const Payload::Piece& piece, bool room) {
    // Neighbours that are small arrive as one piece, as does what is left when there are too many.
    const bool small = piece.bytes.size() < kMinSharedBytes;
    if (!pieces_.empty() && pieces_.back().segment == 0 && ((small && last_is_small_) || !room)) {
      pieces_.back().bytes += piece.bytes.size();
    } else {
      pieces_.push_back({.segment = 0, .offset = 0, .bytes = piece.bytes.size(), .loan = 0});
    }
    last_is_small_ = small;
    ring_bytes_ += piece.bytes.size();
    frame_.in_ring.push_back(piece);
  }

  FrameSender& sender_;
  OutFrame& frame_;
  std::vector<PieceHeader> pieces_;
  std::uint64_t ring_bytes_ = 0;
  bool last_is_small_ = false;
};

FrameSender::FrameSender(RingWriter ring, int socket, int peer_doorbell, SegmentPool& pool, std::size_t loan_limit)
    : socket_(socket), peer_doorbell_(peer_doorbell), pool_(pool), loan_limit_(loan_limit), ring_(ring) {}

Status FrameSender::send(FrameKind kind, std::uint64_t id, const Status& status, std::string_view text,
                         const Payload& payload) {
  OutFrame frame;
  Packer packer(*this, frame);
  for (const Payload::Piece& piece : payload.pieces()) packer.add(piece);
  packer.finish(kind, id, status, text);
  return enqueue(frame, /*bounded=*/kind == FrameKind::kCall || kind == FrameKind::kReply);
}

// Small messages about what the peer already has are let in up to twice the number: each is owed for a call or a loan.
Status FrameSender::enqueue(OutFrame& frame, bool bounded) {
  std::vector<OutFrame> finished;  // dropped without the lock
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    if (closed_) return unavailable("the connection is closed");
    const std::size_t max_frames = bounded ? kMaxQueuedFrames : 2 * kMaxQueuedFrames;
    if (queue_.size() >= max_frames || (!queue_.empty() && queued_bytes_ + frame.bytes > kMaxQueuedBytes)) {
      status = resource_exhausted(queue_.size(), " messages with ", queued_bytes_,
                                  " bytes wait to be sent already; this one of ", frame.bytes, " bytes was not sent");
    } else {
      queued_bytes_ += frame.bytes;
      queue_.push_back(std::move(frame));
      status = write_queue(finished, wake);
    }
  }
  if (wake) ring_doorbell(peer_doorbell_);
  if (status.code() == Code::kResourceExhausted) take_back(frame);
  return status;
}

Status FrameSender::flush() {
  std::vector<OutFrame> finished;
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    if (queue_.empty() || closed_) return {};
    status = write_queue(finished, wake);
  }
  if (wake) ring_doorbell(peer_doorbell_);
  return status;
}

Status FrameSender::write_queue(std::vector<OutFrame>& finished, bool& wake) {
  if (!ring_.refresh()) return data_loss("a ring whose reader is ahead of its writer");
  while (!queue_.empty()) {
    if (write_frame(queue_.front())) {
      queued_bytes_ -= queue_.front().bytes;
      finished.push_back(std::move(queue_.front()));
      queue_.pop_front();
      continue;
    }
    ring_.publish();
    ring_.wait_for_room();
    if (!ring_.refresh()) return data_loss("a ring whose reader is ahead of its writer");
    if (ring_.room() == 0) break;
    ring_.stop_waiting();
  }
  ring_.publish();
  wake = ring_.take_reader_sleeps();
  return {};
}

// True: all of it is in the ring. False: the ring is full.
bool FrameSender::write_frame(OutFrame& frame) {
  while (frame.part <= frame.in_ring.size()) {
    const auto part = frame.part == 0 ? bytes_of(frame.head) : frame.in_ring[frame.part - 1].bytes;
    const std::size_t bytes = std::min(part.size() - frame.offset, ring_.room());
    ring_.write(part.subspan(frame.offset, bytes));
    frame.offset += bytes;
    if (frame.offset < part.size()) return false;
    ++frame.part;
    frame.offset = 0;
  }
  return true;
}

Status FrameSender::cancel_call(std::uint64_t id) {
  OutFrame taken;
  {
    MutexLock lock(mu_);
    const auto unsent = [id](const OutFrame& frame) {
      return frame.kind == FrameKind::kCall && frame.id == id && frame.part == 0 && frame.offset == 0;
    };
    const auto found = std::find_if(queue_.begin(), queue_.end(), unsent);
    if (found != queue_.end()) {
      queued_bytes_ -= found->bytes;
      taken = std::move(*found);
      queue_.erase(found);
    }
  }
  if (taken.head.empty()) return send(FrameKind::kCancel, id);
  take_back(taken);
  return {};
}

bool FrameSender::announce(const Segment& segment) {
  MutexLock lock(loans_mu_);
  if (announced_.contains(segment.id)) return true;
  Packet packet = Packet::make(Packet::kSegment);
  packet.id = segment.id;
  packet.bytes = segment.mapping->bytes();
  // Before any reference to it is in the ring, so the peer finds it. When the socket is full, bytes are copied.
  if (!send_packet(socket_, packet, {segment.fd.get()}).ok()) return false;
  announced_.insert(segment.id);
  return true;
}

Status FrameSender::forget_segment(std::uint64_t id) {
  {
    MutexLock lock(loans_mu_);
    if (announced_.erase(id) == 0) return {};
  }
  return send(FrameKind::kForget, id);
}

// 0: not lent.
std::uint64_t FrameSender::lend(std::shared_ptr<const void> owner, std::size_t bytes) {
  MutexLock lock(loans_mu_);
  if (no_loans_ || lent_bytes_ + bytes > loan_limit_) return 0;
  lent_bytes_ += bytes;
  const std::uint64_t loan = next_loan_++;
  loans_.emplace(loan, Loan{std::move(owner), bytes});
  return loan;
}

Status FrameSender::release(std::uint64_t loan) {
  Loan returned;  // dropped without the lock
  MutexLock lock(loans_mu_);
  const auto found = loans_.find(loan);
  if (found == loans_.end()) {
    if (no_loans_) return {};
    return data_loss("loan ", loan, " given back that was not made");
  }
  lent_bytes_ -= found->second.bytes;
  returned = std::move(found->second);
  loans_.erase(found);
  return {};
}

void FrameSender::take_back(const OutFrame& frame) {
  for (const std::uint64_t loan : frame.loans) (void)release(loan);
}

void FrameSender::close() {
  std::deque<OutFrame> queue;
  std::unordered_map<std::uint64_t, Loan> loans;
  {
    MutexLock lock(mu_);
    closed_ = true;
    queue.swap(queue_);
    queued_bytes_ = 0;
  }
  MutexLock lock(loans_mu_);
  no_loans_ = true;
  lent_bytes_ = 0;
  loans.swap(loans_);
}

}  // namespace tutti::shm
