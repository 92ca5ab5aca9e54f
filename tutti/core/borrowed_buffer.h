// Tensor memory that belongs to somebody else: a received message, a mapped segment.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "tutti/core/allocator.h"

namespace tutti {

// For reading only: others may see the memory however few hold the buffer, so that a tensor over it is never unique().
// `owner` keeps the bytes valid and is let go with the last holder.
class BorrowedBuffer final : public Buffer {
 public:
  BorrowedBuffer(std::span<const std::byte> bytes, std::shared_ptr<const void> owner)
      : Buffer(const_cast<std::byte*>(bytes.data()), bytes.size()), owner_(std::move(owner)) {}

 private:
  const std::shared_ptr<const void> owner_;
};

}  // namespace tutti
