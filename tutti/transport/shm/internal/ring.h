// A ring of bytes in shared memory, with one writer and one reader in different processes.
//
// The other side is not trusted: each keeps its own position in private memory, copies the other's once and checks it
// against the capacity. What it reads may be nonsense, but never lies outside the ring.
//
// Sleeping. Both sides use the same two-sided protocol (Dekker's): one publishes its position and then looks at the
// other's flag, the other sets its flag and then looks at the position again. All four are sequentially consistent, so
// they have one order that both sides agree on, and at least one of the two sees the other: no wake-up is lost.
//   writer: tail = t;          if reader_sleeps was 1, make it 0 and ring
//   reader: reader_sleeps = 1; if tail != head, make it 0 and go on, else sleep
// and likewise for writer_waits when the ring is full. Who rings takes the flag down, so that one sleep is rung once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tutti::shm {

struct RingControl {
  alignas(64) std::atomic<std::uint64_t> tail;           // bytes written so far; by the writer
  std::atomic<std::uint32_t> writer_closed;              // the connection is over; by the writer
  alignas(64) std::atomic<std::uint64_t> head;           // bytes read so far; by the reader
  alignas(64) std::atomic<std::uint32_t> reader_sleeps;  // set by the reader, cleared by either
  alignas(64) std::atomic<std::uint32_t> writer_waits;   // set by the writer, cleared by either
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && sizeof(RingControl) == 256);

// Two rings in one memory file: [0] from the process that connected to the one that listens, [1] back.
inline constexpr std::size_t kMinRingBytes = 4096;
inline constexpr std::size_t kMaxRingBytes = std::size_t{1} << 28;
inline constexpr std::size_t ring_file_bytes(std::size_t ring_bytes) { return 2 * (sizeof(RingControl) + ring_bytes); }

struct Ring {
  RingControl* control = nullptr;
  std::byte* data = nullptr;
  std::size_t capacity = 0;  // a power of two

  // REQUIRES: ring_file_bytes(capacity) bytes at `memory`.
  static Ring at(std::byte* memory, std::size_t capacity, int index);
};

// Used by one thread at a time.
class RingWriter {
 public:
  explicit RingWriter(Ring ring) : ring_(ring) {}

  // Asks how far the reader is. False: it says something impossible.
  bool refresh();
  // As of the last refresh.
  std::size_t room() const { return ring_.capacity - (tail_ - head_); }
  std::size_t capacity() const { return ring_.capacity; }
  std::uint64_t written() const { return tail_; }
  // REQUIRES: bytes.size() <= room(). Not seen by the reader before publish().
  void write(std::span<const std::byte> bytes);
  void publish();
  // After publish(): whether the reader sleeps and has to be woken, now, by the caller.
  bool take_reader_sleeps();
  // Asks to be woken when there is room. Look at refresh() and room() once more afterwards.
  void wait_for_room();
  void stop_waiting() { ring_.control->writer_waits.store(0, std::memory_order_relaxed); }
  // Nothing more will come. Wake the reader afterwards.
  void close() { ring_.control->writer_closed.store(1, std::memory_order_seq_cst); }

 private:
  Ring ring_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;
};

// Used by one thread at a time.
class RingReader {
 public:
  explicit RingReader(Ring ring) : ring_(ring) {}

  // Asks how far the writer is. False: it says something impossible.
  bool refresh();
  // As of the last refresh.
  std::size_t available() const { return tail_ - head_; }
  // REQUIRES: out.size() <= available().
  void read(std::span<std::byte> out);
  // Gives the room of what was read back.
  void publish();
  // After publish(): whether the writer waits for room and has to be woken, now, by the caller.
  bool take_writer_waits();
  // Asks to be woken. Look at refresh() and available() once more afterwards.
  void sleep();
  // Whether there is something that was not read and given back. By any thread.
  bool has_input() const {
    return ring_.control->tail.load(std::memory_order_seq_cst) != ring_.control->head.load(std::memory_order_seq_cst);
  }
  void stop_sleeping() { ring_.control->reader_sleeps.store(0, std::memory_order_relaxed); }
  // Whether the writer has ended the connection.
  bool writer_closed() const { return ring_.control->writer_closed.load(std::memory_order_seq_cst) != 0; }
  std::size_t capacity() const { return ring_.capacity; }

 private:
  Ring ring_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;
};

}  // namespace tutti::shm
