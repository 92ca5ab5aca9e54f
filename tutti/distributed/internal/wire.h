// Protobuf's wire format over bytes in pieces: varints, tags and lengths. Sizes are 64-bit throughout; protobuf's own
// parser and serializer end at 2 GiB.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tutti/core/payload.h"
#include "tutti/core/varints.h"

namespace tutti {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

inline std::size_t varint_size(std::uint64_t value) {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Builds a payload: what is small goes into one string; what is large and shared lies between two stretches of it as
// a piece of its own.
class WireWriter {
 public:
  void reserve(std::size_t bytes) { text_.reserve(bytes); }

  void varint(std::uint64_t value) { append_varint(value, &text_); }
  void tag(std::uint32_t field, WireType type) { varint(field << 3 | static_cast<std::uint32_t>(type)); }
  void fixed64(std::uint64_t value);
  void bytes(std::string_view value) { text_.append(value); }
  // By reference; `owner` keeps it.
  void shared(std::span<const std::byte> value, std::shared_ptr<const void> owner) {
    if (!value.empty()) cuts_.push_back({text_.size(), value, std::move(owner)});
  }

  Payload finish() &&;

 private:
  struct Cut {
    std::size_t offset;  // in text_
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };

  std::string text_;
  std::vector<Cut> cuts_;
};

// Reads a stretch of a payload, which must outlive it. A copy is another cursor. Functions that return bool are false,
// and leave the cursor anywhere, when the bytes end or are malformed.
class WireReader {
 public:
  WireReader() = default;
  explicit WireReader(const Payload& payload) : left_(payload.size()) {
    if (left_ > 0) enter(payload.pieces().data());
  }

  std::uint64_t left() const { return left_; }

  bool varint(std::uint64_t* value) {
    if (left_ > 0 && *pos_ < 0x80) [[likely]] {
      *value = *pos_;
      advance(1);
      return true;
    }
    return long_varint(value);
  }
  bool fixed64(std::uint64_t* value);
  bool skip(std::uint64_t bytes);
  // That many bytes, as a cursor of its own.
  bool take(std::uint64_t length, WireReader* bytes);
  // A length, then that many bytes.
  bool delimited(WireReader* bytes);

  // All that is left, when it lies in one piece.
  bool contiguous() const { return left_ <= in_piece_; }
  // REQUIRES: contiguous().
  std::string_view view() const { return {reinterpret_cast<const char*>(pos_), left_}; }
  // The piece under the cursor. REQUIRES: left() > 0.
  const Payload::Piece& piece() const { return *piece_; }
  // Everything that is left. REQUIRES: room for left() bytes.
  void copy_to(void* out) const;
  void append_to(std::string* out) const;

 private:
  bool long_varint(std::uint64_t* value);
  void enter(const Payload::Piece* piece) {
    piece_ = piece;
    pos_ = reinterpret_cast<const std::uint8_t*>(piece->bytes.data());
    in_piece_ = piece->bytes.size();
  }
  // REQUIRES: bytes <= left(). Keeps the invariant that there are bytes in the piece while there are bytes left.
  void advance(std::uint64_t bytes) {
    left_ -= bytes;
    while (bytes >= in_piece_ && left_ > 0) {
      bytes -= in_piece_;
      enter(piece_ + 1);
    }
    bytes = std::min<std::uint64_t>(bytes, in_piece_);
    pos_ += bytes;
    in_piece_ -= bytes;
  }
  // Calls take(view) for each stretch of what is left, in order.
  template <typename Take>
  void each_stretch(Take take) const {
    WireReader rest = *this;
    while (rest.left_ > 0) {
      const auto bytes = std::min<std::uint64_t>(rest.left_, rest.in_piece_);
      take(std::string_view(reinterpret_cast<const char*>(rest.pos_), bytes));
      rest.advance(bytes);
    }
  }

  const Payload::Piece* piece_ = nullptr;
  const std::uint8_t* pos_ = nullptr;
  std::size_t in_piece_ = 0;  // from pos_ to the piece's end, which may be past this stretch's
  std::uint64_t left_ = 0;
};

}  // namespace tutti
