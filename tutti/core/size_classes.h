// The sizes of the blocks that pools of memory lend and keep.
#pragma once

#include <bit>
#include <cstddef>

namespace tutti::size_classes {

// No tensor is larger. Keeps the sums below from overflowing.
inline constexpr std::size_t kMaxBytes = std::size_t{1} << 40;

// Size classes: multiples of 64 bytes up to 1 KB, then 8 to each doubling, so that at most 1/8 is wasted.
inline constexpr std::size_t kFineStep = 64;
inline constexpr std::size_t kFineLimit = 1024;
inline constexpr int kFineClasses = kFineLimit / kFineStep;
inline constexpr int kStepsPerDoubling = 8;
inline constexpr int kCount =
    kFineClasses + kStepsPerDoubling * (std::bit_width(kMaxBytes) - std::bit_width(kFineLimit));

// REQUIRES: bytes <= kMaxBytes.
constexpr int class_of(std::size_t bytes) {
  if (bytes <= kFineLimit) return bytes == 0 ? 0 : static_cast<int>((bytes - 1) / kFineStep);
  const std::size_t last = bytes - 1;
  const int doubling = std::bit_width(last) - std::bit_width(kFineLimit);
  const auto eighth = static_cast<int>(last >> (std::bit_width(last) - 4)) - kStepsPerDoubling;
  return kFineClasses + doubling * kStepsPerDoubling + eighth;
}

// Bytes of data in a block of the class.
constexpr std::size_t bytes_of(int size_class) {
  if (size_class < kFineClasses) return (size_class + 1) * kFineStep;
  const int doubling = (size_class - kFineClasses) / kStepsPerDoubling;
  const int eighth = (size_class - kFineClasses) % kStepsPerDoubling;
  return static_cast<std::size_t>(kStepsPerDoubling + 1 + eighth) * ((kFineLimit / kStepsPerDoubling) << doubling);
}

}  // namespace tutti::size_classes
