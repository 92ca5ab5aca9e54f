#include "tutti/transport/shm/internal/ring.h"

#include <algorithm>
#include <cstring>

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tutti::shm {
namespace {

// The thread sanitizer knows memory by its address. In tests both ends of a ring may be in one process, where its
// positions have two addresses, so that what they put in order looks like a race. This tells it, for all rings
// together.
#if defined(__SANITIZE_THREAD__)
char all_rings;
void tell_published() { __tsan_release(&all_rings); }
void tell_seen() { __tsan_acquire(&all_rings); }
#else
void tell_published() {}
void tell_seen() {}
#endif

// Whether the other side has raised its flag; takes it down. Sequentially consistent: see the header.
bool take_flag(std::atomic<std::uint32_t>& flag) {
  return flag.load(std::memory_order_seq_cst) != 0 && flag.exchange(0, std::memory_order_seq_cst) != 0;
}

}  // namespace

Ring Ring::at(std::byte* memory, std::size_t capacity, int index) {
  auto* controls = reinterpret_cast<RingControl*>(memory);
  std::byte* data = memory + 2 * sizeof(RingControl);
  return {.control = controls + index, .data = data + index * capacity, .capacity = capacity};
}

bool RingWriter::refresh() {
  // Also acquires: the reader's copies out of the room it gives back come before our writes into it.
  const std::uint64_t head = ring_.control->head.load(std::memory_order_seq_cst);
  tell_seen();
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

void RingWriter::publish() {
  tell_published();
  ring_.control->tail.store(tail_, std::memory_order_seq_cst);
}

bool RingWriter::take_reader_sleeps() { return take_flag(ring_.control->reader_sleeps); }

void RingWriter::wait_for_room() { ring_.control->writer_waits.store(1, std::memory_order_seq_cst); }

bool RingReader::refresh() {
  // Also acquires: the bytes before the tail are there.
  const std::uint64_t tail = ring_.control->tail.load(std::memory_order_seq_cst);
  tell_seen();
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

void RingReader::publish() {
  tell_published();
  ring_.control->head.store(head_, std::memory_order_seq_cst);
}

bool RingReader::take_writer_waits() { return take_flag(ring_.control->writer_waits); }

void RingReader::sleep() { ring_.control->reader_sleeps.store(1, std::memory_order_seq_cst); }

}  // namespace tutti::shm
