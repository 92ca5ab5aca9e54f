// Working out what a strided slice selects: NumPy's basic indexing, packed into bit masks over its index list.
// Used by the kernels and, with open dimensions, by shape inference.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"
#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {

// Bit i concerns entry i of begin, end and strides.
struct StridedSliceMasks {
  std::int64_t begin = 0;        // start at the edge
  std::int64_t end = 0;          // stop at the edge
  std::int64_t ellipsis = 0;     // stands for as many whole dimensions as are left; at most one bit
  std::int64_t new_axis = 0;     // a new dimension of size 1
  std::int64_t shrink_axis = 0;  // one index: the dimension goes
};

struct StridedSlicePlan {
  struct Dim {
    std::int64_t begin;
    std::int64_t stride;
    std::int64_t size;  // kUnknownDim where the input's dimension is open
  };
  std::array<Dim, kMaxRank> dims;  // one per dimension of the input
  int rank = 0;
  DimList output;  // the result's dimensions

  // Every dimension is taken whole and forwards, `except_first` or all of them.
  bool whole(std::span<const std::int64_t> input, bool except_first) const;
};

// kInvalidArgument: more indices than dimensions, a zero stride, two ellipses, a single index out of range,
// lists of different lengths.
Status plan_strided_slice(const StridedSliceMasks& masks, const DimList& begin, const DimList& end,
                          const DimList& strides, std::span<const std::int64_t> input, StridedSlicePlan* plan);

}  // namespace tutti::cpu
