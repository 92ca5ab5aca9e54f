#include "tutti/transport/shm/internal/peer_memory.h"

#include <utility>

namespace tutti::shm {
namespace {

// A peer with more is out of its mind or means harm.
constexpr std::size_t kMaxSegments = 4096;
// A peer that never stops sending does not keep a thread, nor the lock.
constexpr std::size_t kMaxPacketsAtATime = 64;
// More than a socket holds.
constexpr std::size_t kMaxPacketsQueued = 4096;
constexpr std::size_t kMaxSegmentBytes = std::size_t{1} << 37;
constexpr std::size_t kMaxMappedBytes = std::size_t{1} << 40;

Result<std::shared_ptr<Mapping>> map_segment(const Received& received) {
  const std::uint64_t bytes = received.packet.bytes;
  if (received.packet.kind != Packet::kSegment || received.fds.size() != 1 || bytes == 0 || bytes > kMaxSegmentBytes) {
    return data_loss("packet ", received.packet.kind, " with ", received.fds.size(), " descriptors and ", bytes,
                     " bytes where a segment was due");
  }
  TUTTI_RETURN_IF_ERROR(check_memory_file(received.fds[0].get(), bytes));
  return Mapping::map(received.fds[0].get(), bytes, Mapping::Access::kRead);
}

}  // namespace

Status PeerMemory::receive(bool& more) {
  MutexLock lock(mu_);
  more = receive_locked(kMaxPacketsAtATime);
  return closed_;
}

bool PeerMemory::receive_locked(std::size_t max_packets) {
  for (std::size_t taken = 0; taken < max_packets; taken += kPacketsAtOnce) {
    if (!closed_.ok()) return false;
    const Batch batch = receive_packets(socket_);
    for (const Received& received : batch.packets) closed_.update(add(received));
    closed_.update(batch.end);
    if (!batch.more) return false;
  }
  return closed_.ok();
}

Status PeerMemory::add(const Received& received) {
  TUTTI_ASSIGN_OR_RETURN(auto mapping, map_segment(received));
  if (segments_.size() >= kMaxSegments) return data_loss("more than ", kMaxSegments, " segments");
  mapped_bytes_ += mapping->bytes();
  if (mapped_bytes_ > kMaxMappedBytes) return data_loss("segments with more than ", kMaxMappedBytes, " bytes");
  if (!segments_.emplace(received.packet.id, std::move(mapping)).second) {
    return data_loss("segment ", received.packet.id, " shared twice");
  }
  return {};
}

Result<PeerMemory::Place> PeerMemory::find(const PieceHeader& piece) {
  MutexLock lock(mu_);
  auto found = segments_.find(piece.segment);
  if (found == segments_.end()) {
    // Its packet was sent before the reference, but may not have been looked at yet.
    receive_locked(kMaxPacketsQueued);
    found = segments_.find(piece.segment);
  }
  if (found == segments_.end()) return data_loss("a reference to segment ", piece.segment, ", which was not shared");
  const std::shared_ptr<Mapping>& mapping = found->second;
  if (piece.offset > mapping->bytes() || piece.bytes > mapping->bytes() - piece.offset) {
    return data_loss("a reference to ", piece.bytes, " bytes at ", piece.offset, " of segment ", piece.segment, " of ",
                     mapping->bytes(), " bytes");
  }
  return Place{.mapping = mapping, .bytes = {mapping->data() + piece.offset, piece.bytes}};
}

Status PeerMemory::forget(std::uint64_t segment) {
  std::shared_ptr<Mapping> last;  // unmapped without the lock
  MutexLock lock(mu_);
  receive_locked(kMaxPacketsQueued);
  const auto found = segments_.find(segment);
  if (found == segments_.end()) return data_loss("segment ", segment, " taken away that was not shared");
  last = std::move(found->second);
  mapped_bytes_ -= last->bytes();
  segments_.erase(found);
  return {};
}

}  // namespace tutti::shm
