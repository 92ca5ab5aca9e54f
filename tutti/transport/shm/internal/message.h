// Messages as they lie in a ring: a MessageHeader, its PieceHeaders, its text, and the bytes of the pieces that are not
// references, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tutti/core/allocator.h"
#include "tutti/core/payload.h"
#include "tutti/core/status.h"
#include "tutti/transport/shm/internal/ring.h"

namespace tutti::shm {

enum class MessageKind : std::uint32_t {
  kCall = 1,     // id, text: the method, pieces
  kReply = 2,    // id of the call, code, text: the status' message, pieces
  kCancel = 3,   // id of the call, which need not be there any more
  kRelease = 4,  // id of a loan: the reader no longer looks at it
  kForget = 5,   // id of a segment that will not be used again
};

struct MessageHeader {
  std::uint32_t kind;
  std::uint32_t code;
  std::uint64_t id;
  std::uint32_t text_bytes;
  std::uint32_t pieces;
  std::uint64_t inline_bytes;
};
static_assert(sizeof(MessageHeader) == 32);

// A part of the payload. `segment` 0: its bytes follow in the ring; else they lie there, and are lent until released.
struct PieceHeader {
  std::uint64_t segment;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint64_t loan;
};
static_assert(sizeof(PieceHeader) == 32);

inline constexpr std::uint32_t kMaxTextBytes = 1 << 16;
inline constexpr std::uint32_t kMaxPieces = 1 << 16;
// Of one message through the ring. Keeps sums from overflowing; memory is only taken as far as bytes arrive, since
// untouched pages of a large allocation cost nothing.
inline constexpr std::uint64_t kMaxInlineBytes = std::uint64_t{1} << 36;

// A message that has arrived, its fields copied and checked, except for what `pieces` say about segments.
struct Message {
  MessageKind kind{};
  std::uint32_t code = 0;
  std::uint64_t id = 0;
  std::string text;
  std::vector<PieceHeader> pieces;
  // For each piece, where it lies, at its `offset`; null: it is a reference. Small ones share a buffer.
  std::vector<BufferPtr> buffers;
  // What of it was not taken in: then `pieces` are references only. Larger than is allowed, or than there is memory.
  std::uint64_t refused_bytes = 0;
};

// Takes messages out of a ring, whole or in parts as they come. Used by one thread at a time.
class MessageReader {
 public:
  using Take = std::function<Status(Message)>;
  // `memory` outlives it and is where bytes go. Messages with more than `max_bytes` are refused.
  MessageReader(Allocator& memory, std::uint64_t max_bytes) : memory_(memory), max_bytes_(max_bytes) { begin(); }

  // Reads what is available and gives each finished message to `take`. `progress` runs whenever a quarter of the ring
  // has been read. An error, the sender's or take's: the stream is lost.
  Status read(RingReader& ring, const Take& take, const std::function<void()>& progress);

 private:
  enum class Stage { kHeader, kDescription, kInline, kSkip };

  void begin();
  Status next_stage(const Take& take);
  Status begin_description();
  Status begin_inline();
  Status begin_piece_or_finish(const Take& take);
  BufferPtr allocate(std::size_t bytes);
  void share_buffer(std::size_t bytes);
  void begin_skip();
  Status skip_or_finish(const Take& take);
  Status finish(const Take& take);

  Allocator& memory_;
  const std::uint64_t max_bytes_;
  Stage stage_ = Stage::kHeader;
  std::span<std::byte> target_;  // still to be filled
  std::size_t unpublished_ = 0;
  MessageHeader header_{};
  std::vector<std::byte> description_;  // piece headers and text
  std::size_t next_piece_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t inline_left_ = 0;  // bytes of pieces that were not begun
  Message message_;
};

}  // namespace tutti::shm
