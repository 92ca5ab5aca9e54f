#include "tutti/transport/shm/internal/message_sender.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "tutti/transport/shm/internal/doorbell.h"
#include "tutti/transport/shm/internal/handshake.h"

namespace tutti::shm {
namespace {

// From here on a copy into a segment and a reference to it cost less than two copies through the ring.
constexpr std::size_t kCopyToSegmentFrom = std::size_t{32} << 10;

// From here on a value that finds the segments full gets one for itself alone.
constexpr std::size_t kOwnSegmentFrom = std::size_t{1} << 20;
// The owner of as much wants it back: without it, its next value may need new memory.
constexpr std::uint64_t kReleasedAtOnceFrom = std::uint64_t{1} << 20;
// Quiet messages that wait for a louder one.
constexpr int kMostUnrung = 64;
// What is written with the lock held, in capacities of the ring.
constexpr std::uint64_t kRingsAtATime = 4;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

template <typename T>
void append_raw(std::string& out, const T* values, std::size_t count) {
  out.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

}  // namespace

// Sorts the pieces of one payload into references and bytes.
class MessageSender::Packer {
 public:
  Packer(MessageSender& sender, OutMessage& message) : sender_(sender), message_(message) {}

  void add(const Payload::Piece& piece) {
    const std::size_t bytes = piece.bytes.size();
    message_.bytes += bytes;
    const bool room = pieces_.size() + 1 < kMaxPieces;
    if (bytes >= kMinSharedBytes && room) {
      if (refer(piece.bytes.data(), bytes, piece.owner)) return;
      if (bytes >= kCopyToSegmentFrom && copy_and_refer(piece)) return;
    }
    add_to_ring(piece, room);
  }

  void finish(MessageKind kind, std::uint64_t id, const Status& status, std::string_view text) {
    text = text.substr(0, kMaxTextBytes);
    const MessageHeader header{.kind = static_cast<std::uint32_t>(kind),
                               .code = static_cast<std::uint32_t>(status.code()),
                               .id = id,
                               .text_bytes = static_cast<std::uint32_t>(text.size()),
                               .pieces = static_cast<std::uint32_t>(pieces_.size()),
                               .inline_bytes = ring_bytes_};
    message_.kind = kind;
    message_.id = id;
    message_.head.reserve(sizeof header + pieces_.size() * sizeof(PieceHeader) + text.size());
    append_raw(message_.head, &header, 1);
    append_raw(message_.head, pieces_.data(), pieces_.size());
    message_.head += text;
  }

 private:
  bool refer(const std::byte* data, std::size_t bytes, const std::shared_ptr<const void>& owner) {
    const auto place = sender_.pool_.find(data, bytes);
    if (!place || !sender_.announce(*place->segment)) return false;
    const std::uint64_t loan = sender_.loans_.lend(owner);
    if (loan == 0) return false;
    message_.loans.push_back(loan);
    pieces_.push_back({.segment = place->segment->id, .offset = place->offset, .bytes = bytes, .loan = loan});
    return true;
  }

  bool copy_and_refer(const Payload::Piece& piece) {
    BufferPtr copy = sender_.pool_.allocate_shared(piece.bytes.size());
    if (!copy && piece.bytes.size() >= kOwnSegmentFrom) copy = sender_.pool_.allocate_once(piece.bytes.size());
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
    message_.in_ring.push_back(piece);
  }

  MessageSender& sender_;
  OutMessage& message_;
  std::vector<PieceHeader> pieces_;
  std::uint64_t ring_bytes_ = 0;
  bool last_is_small_ = false;
};

MessageSender::MessageSender(RingWriter ring, int socket, int bell, SegmentPool& pool, Loans& loans)
    : socket_(socket), bell_(bell), pool_(pool), loans_(loans), ring_(ring) {}

Status MessageSender::send(MessageKind kind, std::uint64_t id, const Status& status, std::string_view text,
                           const Payload& payload) {
  OutMessage message;
  Packer packer(*this, message);
  for (const Payload::Piece& piece : payload.pieces()) packer.add(piece);
  packer.finish(kind, id, status, text);
  return enqueue(message, kind == MessageKind::kCall || kind == MessageKind::kReply ? Kind::kBounded : Kind::kOwed);
}

Status MessageSender::release(std::uint64_t loan, std::uint64_t bytes) {
  OutMessage message;
  Packer(*this, message).finish(MessageKind::kRelease, loan, {}, {});
  return enqueue(message, bytes < kReleasedAtOnceFrom ? Kind::kQuiet : Kind::kOwed);
}

bool MessageSender::copies(const Payload& payload, std::size_t at_least) const {
  if (payload.size() < at_least) return false;
  std::size_t bytes = 0;
  for (const Payload::Piece& piece : payload.pieces()) {
    if (!pool_.find(piece.bytes.data(), piece.bytes.size())) bytes += piece.bytes.size();
    if (bytes >= at_least) return true;
  }
  return false;
}

bool MessageSender::has_unrung() {
  MutexLock lock(mu_);
  return unrung_ > 0;
}

void MessageSender::ring() {
  {
    MutexLock lock(mu_);
    if (closed_ || std::exchange(unrung_, 0) == 0 || !ring_.take_reader_sleeps()) return;
  }
  ring_doorbell(bell_);
}

// Small messages about what the peer already has are let in up to twice the number: each is owed for a call or a loan.
Status MessageSender::enqueue(OutMessage& message, Kind kind) {
  std::vector<OutMessage> finished;  // dropped without the lock
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    const std::size_t max_messages = kind == Kind::kBounded ? kMaxQueuedMessages : 2 * kMaxQueuedMessages;
    if (closed_) {
      status = unavailable("the connection is closed");
    } else if (queue_.size() >= max_messages ||
               (!queue_.empty() && waiting_bytes() + message.bytes > kMaxQueuedBytes)) {
      status = resource_exhausted(queue_.size(), " messages with ", queued_bytes_,
                                  " bytes wait to be sent already; this one of ", message.bytes, " bytes was not sent");
    } else {
      // A quiet one may write what waits before it, which is not quiet.
      unrung_ = kind == Kind::kQuiet && queue_.empty() ? unrung_ + 1 : kMostUnrung;
      queued_bytes_ += message.bytes;
      queue_.push_back(std::move(message));
      status = write_queue(finished, wake);
    }
  }
  if (wake) ring_doorbell(bell_);
  take_back(message);  // unless it is in the queue now
  return status;
}

// Behind the first, which is on its way: one that is larger than all the queue may hold does not keep out the rest.
std::size_t MessageSender::waiting_bytes() const { return queue_.empty() ? 0 : queued_bytes_ - queue_.front().bytes; }

Status MessageSender::flush() {
  std::vector<OutMessage> finished;
  bool wake = false;
  Status status;
  {
    MutexLock lock(mu_);
    if (queue_.empty() || closed_) return {};
    unrung_ = kMostUnrung;
    status = write_queue(finished, wake);
  }
  if (wake) ring_doorbell(bell_);
  return status;
}

Status MessageSender::write_queue(std::vector<OutMessage>& finished, bool& wake) {
  if (!ring_.refresh()) return data_loss("a ring whose reader is ahead of its writer");
  const std::uint64_t enough = ring_.written() + kRingsAtATime * ring_.capacity();
  while (!queue_.empty()) {
    if (write_message(queue_.front())) {
      queued_bytes_ -= queue_.front().bytes;
      finished.push_back(std::move(queue_.front()));
      queue_.pop_front();
      continue;
    }
    ring_.publish();
    ring_.wait_for_room();
    if (!ring_.refresh()) return data_loss("a ring whose reader is ahead of its writer");
    if (ring_.room() == 0) break;
    // Others who want to send have waited for the lock long enough. The reader still has something to read, so it will
    // see that we wait.
    if (ring_.written() >= enough && ring_.room() < ring_.capacity()) break;
    ring_.stop_waiting();
  }
  ring_.publish();
  // What is left in the queue waits for room, so the peer has to look.
  if (unrung_ < kMostUnrung && queue_.empty()) return {};
  unrung_ = 0;
  wake = ring_.take_reader_sleeps();
  return {};
}

// True: all of it is in the ring. False: the ring is full.
bool MessageSender::write_message(OutMessage& message) {
  while (message.part <= message.in_ring.size()) {
    const auto part = message.part == 0 ? bytes_of(message.head) : message.in_ring[message.part - 1].bytes;
    const std::size_t bytes = std::min(part.size() - message.offset, ring_.room());
    ring_.write(part.subspan(message.offset, bytes));
    message.offset += bytes;
    if (message.offset < part.size()) return false;
    ++message.part;
    message.offset = 0;
  }
  return true;
}

Status MessageSender::cancel_call(std::uint64_t id) {
  OutMessage taken;
  {
    MutexLock lock(mu_);
    const auto unsent = [id](const OutMessage& message) {
      return message.kind == MessageKind::kCall && message.id == id && message.part == 0 && message.offset == 0;
    };
    const auto found = std::find_if(queue_.begin(), queue_.end(), unsent);
    if (found != queue_.end()) {
      queued_bytes_ -= found->bytes;
      taken = std::move(*found);
      queue_.erase(found);
    }
  }
  if (taken.head.empty()) return send(MessageKind::kCancel, id);
  take_back(taken);
  return {};
}

bool MessageSender::announce(const Segment& segment) {
  MutexLock lock(announced_mu_);
  if (announced_.contains(segment.id)) return true;
  Packet packet = Packet::make(Packet::kSegment);
  packet.id = segment.id;
  packet.bytes = segment.mapping->bytes();
  // Before any reference to it is in the ring, so the peer finds it. When the socket is full, bytes are copied.
  if (!send_packet(socket_, packet, std::array{segment.fd.get()}).ok()) return false;
  announced_.insert(segment.id);
  return true;
}

Status MessageSender::forget_segment(std::uint64_t id) {
  {
    MutexLock lock(announced_mu_);
    if (announced_.erase(id) == 0) return {};
  }
  return send(MessageKind::kForget, id);
}

void MessageSender::take_back(const OutMessage& message) {
  for (const std::uint64_t loan : message.loans) (void)loans_.release(loan);
}

void MessageSender::close() {
  std::deque<OutMessage> queue;
  {
    MutexLock lock(mu_);
    closed_ = true;
    queue.swap(queue_);
    queued_bytes_ = 0;
    ring_.close();
  }
  ring_doorbell(bell_);
  for (const OutMessage& message : queue) {
    if (message.part == 0 && message.offset == 0) take_back(message);
  }
}

}  // namespace tutti::shm
