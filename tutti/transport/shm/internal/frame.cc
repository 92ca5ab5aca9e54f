#include "tutti/transport/shm/internal/frame.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tutti::shm {
namespace {

// Larger pieces begin where a tensor may.
constexpr std::size_t kAlignedFrom = 1024;
// What is larger is not kept in the pool.
constexpr std::size_t kMaxPooledBytes = std::size_t{1} << 20;

bool may_have_parts(FrameKind kind) { return kind == FrameKind::kCall || kind == FrameKind::kReply; }

Status check_header(const FrameHeader& header) {
  if (header.kind < static_cast<std::uint32_t>(FrameKind::kCall) ||
      header.kind > static_cast<std::uint32_t>(FrameKind::kForget)) {
    return data_loss("a message of kind ", header.kind);
  }
  const bool has_parts = header.text_bytes != 0 || header.pieces != 0 || header.inline_bytes != 0;
  if (has_parts && !may_have_parts(static_cast<FrameKind>(header.kind))) {
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

void FrameReader::begin() {
  stage_ = Stage::kHeader;
  target_ = std::as_writable_bytes(std::span(&header_, 1));
}

Status FrameReader::read(RingReader& ring, const Take& take, const std::function<void()>& progress) {
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

Status FrameReader::next_stage(const Take& take) {
  switch (stage_) {
    case Stage::kHeader:
      return begin_description();
    case Stage::kDescription:
      TUTTI_RETURN_IF_ERROR(begin_inline());
      break;
    case Stage::kInline:
      break;
  }
  return begin_piece_or_finish(take);
}

Status FrameReader::begin_description() {
  TUTTI_RETURN_IF_ERROR(check_header(header_));
  frame_ = {.kind = static_cast<FrameKind>(header_.kind), .code = header_.code, .id = header_.id};
  description_.resize(header_.pieces * sizeof(PieceHeader) + header_.text_bytes);
  stage_ = Stage::kDescription;
  target_ = description_;
  return {};
}

Status FrameReader::begin_inline() {
  const std::size_t piece_bytes = header_.pieces * sizeof(PieceHeader);
  frame_.pieces.resize(header_.pieces);
  if (piece_bytes > 0) std::memcpy(frame_.pieces.data(), description_.data(), piece_bytes);
  frame_.text.assign(reinterpret_cast<const char*>(description_.data()) + piece_bytes, header_.text_bytes);

  std::uint64_t announced = 0;
  std::uint64_t size = 0;
  for (PieceHeader& piece : frame_.pieces) {
    if (piece.bytes == 0) return data_loss("an empty piece");
    if (piece.segment != 0) continue;
    if (piece.bytes > header_.inline_bytes - announced) return data_loss("a piece of ", piece.bytes, " bytes too many");
    announced += piece.bytes;
    if (piece.bytes >= kAlignedFrom) size = (size + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
    piece.offset = size;
    size += piece.bytes;
  }
  if (announced != header_.inline_bytes) {
    return data_loss("pieces of ", announced, " bytes in a message of ", header_.inline_bytes);
  }
  if (size > 0) {
    frame_.inline_data = (size <= kMaxPooledBytes ? memory_ : heap_allocator()).allocate(size);
    if (!frame_.inline_data) return resource_exhausted("no memory for a message of ", size, " bytes");
  }
  stage_ = Stage::kInline;
  next_piece_ = 0;
  return {};
}

Status FrameReader::begin_piece_or_finish(const Take& take) {
  while (next_piece_ < frame_.pieces.size()) {
    const PieceHeader& piece = frame_.pieces[next_piece_++];
    if (piece.segment != 0) continue;
    target_ = {static_cast<std::byte*>(frame_.inline_data->data()) + piece.offset, piece.bytes};
    return {};
  }
  begin();
  return take(std::exchange(frame_, {}));
}

}  // namespace tutti::shm
