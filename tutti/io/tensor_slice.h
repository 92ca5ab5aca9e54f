// Parts of tensors, as checkpoints of partitioned variables name them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"

namespace tutti {

// One range for each dimension of a tensor. A value type.
class TensorSlice {
 public:
  struct Extent {
    static constexpr std::int64_t kWhole = -1;
    std::int64_t start = 0;
    std::int64_t length = kWhole;  // kWhole: all of the dimension, and start is 0
    bool whole() const { return length == kWhole; }
    bool operator==(const Extent&) const = default;
  };

  TensorSlice() = default;  // of a scalar
  explicit TensorSlice(std::vector<Extent> extents) : extents_(std::move(extents)) {}
  // All of a tensor of that rank.
  static TensorSlice whole(int rank) { return TensorSlice(std::vector<Extent>(rank)); }
  // "0,2:-": for each dimension `-` or start and length. kInvalidArgument, in TensorFlow's words.
  static Result<TensorSlice> parse(std::string_view text);

  int rank() const { return static_cast<int>(extents_.size()); }
  const Extent& extent(int dim) const { return extents_[dim]; }
  // Covers a tensor of `shape`, however it is written. REQUIRES: of the same rank.
  bool covers(const Shape& shape) const;
  // The shape of this part of a tensor of `shape`. kInternal, as in TensorFlow, when it is no part of it.
  Result<Shape> shape_in(const Shape& shape) const;

  bool operator==(const TensorSlice&) const = default;
  // As `parse` reads it.
  std::string to_string() const;

 private:
  std::vector<Extent> extents_;
};

// An element of the input shape_and_slices of SaveV2 and RestoreV2: "4 3 0,2:-".
struct ShapeAndSlice {
  Shape full_shape;
  TensorSlice slice;
  Shape slice_shape;
};
Result<ShapeAndSlice> parse_shape_and_slice(std::string_view text);

}  // namespace tutti
