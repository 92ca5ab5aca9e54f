#include "tutti/transport/shm/internal/ring.h"

#include <algorithm>
#include <cstring>

namespace tutti::shm {
namespace {

// Raises the question whether the other side has set its flag, after what the caller has published. Sees the flag, or
// the other side sees the position (see the header).
bool take_flag(std::atomic<std::uint32_t>& flag) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return flag.load(std::memory_order_relaxed) != 0 && flag.exchange(0, std::memory_order_relaxed) != 0;
}

void raise_flag(std::atomic<std::uint32_t>& flag) {
  flag.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace

Ring Ring::at(std::byte* memory, std::size_t capacity, int index) {
  auto* controls = reinterpret_cast<RingControl*>(memory);
  std::byte* data = memory + 2 * sizeof(RingControl);
  return {.control = controls + index, .data = data + index * capacity, .capacity = capacity};
}

bool RingWriter::refresh() {
  // Acquire: the reader's copies out of the room it gives back come before our writes into it.
  const std::uint64_t head = ring_.control->head.load(std::memory_order_acquire);
  if (head - head_ > tail_ - head_) return false;  // not between where it was and where we are
  head_ = head;
  return true;
}

void RingWriter::write(std::span<const std::byte> bytes) {
  const std::size_t at = tail_ & (ring_.capacity - 1);
  const std::size_t first = std::min(bytes.size(), ring_.capacity - at);
  if (first > 0) std::memcpy(ring_.data + at, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(ring_.data, bytes.data() + first, bytes.size() - first);
  tail_ += bytes.size();
}

bool RingWriter::take_reader_sleeps() { return take_flag(ring_.control->reader_sleeps); }

void RingWriter::wait_for_room() { raise_flag(ring_.control->writer_waits); }

bool RingReader::refresh() {
  // Acquire: the bytes before the tail are there.
  const std::uint64_t tail = ring_.control->tail.load(std::memory_order_acquire);
  if (tail - tail_ > ring_.capacity - available()) return false;  // behind where it was, or over us
  tail_ = tail;
  return true;
}

void RingReader::read(std::span<std::byte> out) {
  const std::size_t at = head_ & (ring_.capacity - 1);
  const std::size_t first = std::min(out.size(), ring_.capacity - at);
  if (first > 0) std::memcpy(out.data(), ring_.data + at, first);
  if (first < out.size()) std::memcpy(out.data() + first, ring_.data, out.size() - first);
  head_ += out.size();
}

bool RingReader::take_writer_waits() { return take_flag(ring_.control->writer_waits); }

void RingReader::sleep() { raise_flag(ring_.control->reader_sleeps); }

}  // namespace tutti::shm
