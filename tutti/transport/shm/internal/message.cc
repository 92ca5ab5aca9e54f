#include "tutti/transport/shm/internal/message.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::shm {
namespace {

// Larger pieces begin where a tensor may.
constexpr std::size_t kAlignedFrom = 1024;
// What is larger is not kept in the pool.
constexpr std::size_t kMaxPooledBytes = std::size_t{1} << 20;
// From here on a piece has a buffer of its own, so that who keeps it keeps nothing else.
constexpr std::size_t kOwnBufferFrom = 4096;
// Read at a time of what nobody wants.
constexpr std::size_t kSkipBytes = std::size_t{64} << 10;

bool may_have_parts(MessageKind kind) { return kind == MessageKind::kCall || kind == MessageKind::kReply; }

Status check_header(const MessageHeader& header) {
  if (header.kind < static_cast<std::uint32_t>(MessageKind::kCall) ||
      header.kind > static_cast<std::uint32_t>(MessageKind::kForget)) {
    return data_loss("a message of kind ", header.kind);
  }
  const bool has_parts = header.text_bytes != 0 || header.pieces != 0 || header.inline_bytes != 0;
  if (has_parts && !may_have_parts(static_cast<MessageKind>(header.kind))) {
    return data_loss("a message of kind ", header.kind, " with parts");
  }
  if (header.text_bytes > kMaxTextBytes || header.pieces > kMaxPieces || header.inline_bytes > kMaxInlineBytes) {
    return data_loss("a message with ", header.text_bytes, " bytes of text, ", header.pieces, " pieces and ",
                     header.inline_bytes, " bytes");
  }
  if (header.code > static_cast<std::uint32_t>(Code::kUnauthenticated)) return data_loss("status code ", header.code);
  return {};
}

}  // namespace

void MessageReader::begin() {
  stage_ = Stage::kHeader;
  target_ = std::as_writable_bytes(std::span(&header_, 1));
}

Status MessageReader::read(RingReader& ring, const Take& take, const std::function<void()>& progress) {
  while (true) {
    while (!target_.empty()) {
      const std::size_t bytes = std::min({target_.size(), ring.available(), ring.capacity() / 4});
      if (bytes == 0) return {};
      ring.read(target_.first(bytes));
      target_ = target_.subspan(bytes);
      unpublished_ += bytes;
      if (unpublished_ >= ring.capacity() / 4) {
        unpublished_ = 0;
        progress();
      }
    }
    TUTTI_RETURN_IF_ERROR(next_stage(take));
  }
}

Status MessageReader::next_stage(const Take& take) {
  switch (stage_) {
    case Stage::kHeader:
      return begin_description();
    case Stage::kDescription:
      TUTTI_RETURN_IF_ERROR(begin_inline());
      break;
    case Stage::kInline:
      break;
    case Stage::kSkip:
      return skip_or_finish(take);
  }
  if (stage_ == Stage::kSkip) return skip_or_finish(take);
  return begin_piece_or_finish(take);
}

Status MessageReader::begin_description() {
  TUTTI_RETURN_IF_ERROR(check_header(header_));
  message_ = {.kind = static_cast<MessageKind>(header_.kind), .code = header_.code, .id = header_.id};
  description_.resize(header_.pieces * sizeof(PieceHeader) + header_.text_bytes);
  stage_ = Stage::kDescription;
  target_ = description_;
  return {};
}

Status MessageReader::begin_inline() {
  const std::size_t piece_bytes = header_.pieces * sizeof(PieceHeader);
  message_.pieces.resize(header_.pieces);
  if (piece_bytes > 0) std::memcpy(message_.pieces.data(), description_.data(), piece_bytes);
  message_.text.assign(reinterpret_cast<const char*>(description_.data()) + piece_bytes, header_.text_bytes);

  std::uint64_t announced = 0;
  std::uint64_t shared = 0;
  payload_bytes_ = 0;
  for (PieceHeader& piece : message_.pieces) {
    if (piece.bytes == 0) return data_loss("an empty piece");
    payload_bytes_ = piece.bytes > ~payload_bytes_ ? ~std::uint64_t{0} : payload_bytes_ + piece.bytes;
    if (piece.segment != 0) continue;
    if (piece.bytes > header_.inline_bytes - announced) return data_loss("a piece of ", piece.bytes, " bytes too many");
    announced += piece.bytes;
    piece.offset = 0;
    if (piece.bytes >= kOwnBufferFrom) continue;
    if (piece.bytes >= kAlignedFrom) shared = (shared + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    piece.offset = shared;
    shared += piece.bytes;
  }
  if (announced != header_.inline_bytes) {
    return data_loss("pieces of ", announced, " bytes in a message of ", header_.inline_bytes);
  }
  stage_ = Stage::kInline;
  next_piece_ = 0;
  inline_left_ = announced;
  message_.buffers.resize(message_.pieces.size());
  if (payload_bytes_ > max_bytes_) {
    begin_skip();
  } else if (shared > 0) {
    share_buffer(shared);
  }
  return {};
}

// One for all pieces that are small.
void MessageReader::share_buffer(std::size_t bytes) {
  const BufferPtr buffer = allocate(bytes);
  if (!buffer) return begin_skip();
  for (std::size_t i = 0; i < message_.pieces.size(); ++i) {
    const PieceHeader& piece = message_.pieces[i];
    if (piece.segment == 0 && piece.bytes < kOwnBufferFrom) message_.buffers[i] = buffer;
  }
}

BufferPtr MessageReader::allocate(std::size_t bytes) {
  return (bytes <= kMaxPooledBytes ? memory_ : heap_allocator()).allocate(bytes);
}

// What was not read yet is passed over, what was is dropped. The references are given back by who takes the message.
void MessageReader::begin_skip() {
  stage_ = Stage::kSkip;
  message_.refused_bytes = payload_bytes_;
  std::erase_if(message_.pieces, [](const PieceHeader& piece) { return piece.segment == 0; });
  message_.buffers.assign(message_.pieces.size(), nullptr);
}

Status MessageReader::skip_or_finish(const Take& take) {
  if (inline_left_ == 0) return finish(take);
  description_.resize(kSkipBytes);
  target_ = std::span(description_).first(std::min<std::uint64_t>(inline_left_, kSkipBytes));
  inline_left_ -= target_.size();
  return {};
}

Status MessageReader::finish(const Take& take) {
  begin();
  return take(std::exchange(message_, {}));
}

Status MessageReader::begin_piece_or_finish(const Take& take) {
  while (next_piece_ < message_.pieces.size()) {
    const std::size_t i = next_piece_++;
    const PieceHeader& piece = message_.pieces[i];
    if (piece.segment != 0) continue;
    // Memory is taken when the piece comes, not when it is announced.
    if (!message_.buffers[i]) message_.buffers[i] = allocate(piece.bytes);
    if (!message_.buffers[i]) {
      begin_skip();
      return skip_or_finish(take);
    }
    target_ = {static_cast<std::byte*>(message_.buffers[i]->data()) + piece.offset, piece.bytes};
    inline_left_ -= piece.bytes;
    return {};
  }
  return finish(take);
}

}  // namespace tutti::shm
