#include "tutti/core/payload.h"

#include <algorithm>

namespace tutti {

void Payload::append(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  append(std::as_bytes(std::span(owner->data(), owner->size())), owner);
}

void Payload::append(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, bool lent) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  pieces_.push_back({bytes, std::move(owner), lent});
}

void Payload::append(const Payload& other) {
  size_ += other.size_;
  pieces_.insert(pieces_.end(), other.pieces_.begin(), other.pieces_.end());
}

Payload Payload::slice(std::size_t begin, std::size_t end) const {
  Payload part;
  std::size_t at = 0;  // where the piece begins
  for (const Piece& piece : pieces_) {
    if (at >= end) break;
    const std::size_t next = at + piece.bytes.size();
    if (next > begin) {
      const std::size_t from = std::max(begin, at) - at;
      part.append(piece.bytes.subspan(from, std::min(end, next) - at - from), piece.owner, piece.lent);
    }
    at = next;
  }
  return part;
}

std::string Payload::flatten() const {
  std::string all;
  all.reserve(size_);
  for (const Piece& piece : pieces_) all += piece.view();
  return all;
}

}  // namespace tutti
