// The part of a window that lies on the image.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/kernels/cpu/window.h"

namespace tutti::cpu::internal {

// Positions [begin, end) of one dimension.
struct Span {
  Span(const WindowAxis& axis, std::int64_t place)
      : begin(std::max<std::int64_t>(0, axis.start(place))), end(std::min(axis.in, axis.start(place) + axis.kernel)) {}
  std::int64_t size() const { return std::max<std::int64_t>(0, end - begin); }
  std::int64_t begin;
  std::int64_t end;
};

// Every element of the dimension lies in exactly one window.
inline bool tiles(const WindowAxis& axis) {
  return axis.kernel == axis.stride && axis.out * axis.stride - axis.pad_before >= axis.in;
}

}  // namespace tutti::cpu::internal
