// How a variable is cut into parts, as TensorFlow's partitioners do.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tutti/core/dtype.h"
#include "tutti/core/shape.h"

namespace tutti {

// For each dimension of a variable, into how many parts it is cut: more than one in one dimension at most.
using Partitioner = std::function<std::vector<std::int64_t>(const Shape& shape, DType dtype)>;

// What follows throws Error where a number is not positive; the partitioner does where the shape has no such axis.

// `num_shards` parts, but no more than the axis has entries.
Partitioner fixed_size_partitioner(std::int64_t num_shards, int axis = 0);

struct MinMaxPartitionerOptions {
  std::int64_t max_partitions = 1;
  int axis = 0;
  std::int64_t min_slice_size = 256 << 10;  // bytes
  std::int64_t bytes_per_string_element = 16;
};
// As many parts as leave each at least `min_slice_size`, and no more than `max_partitions`.
Partitioner min_max_variable_partitioner(const MinMaxPartitionerOptions& options);

struct AxisSizePartitionerOptions {
  std::int64_t max_shard_bytes = 0;
  int axis = 0;
  std::int64_t bytes_per_string_element = 16;
  std::int64_t max_shards = 0;  // 0: any number. Stronger than max_shard_bytes
};
// As few parts as keep each within `max_shard_bytes`; single entries of the axis where that cannot be.
Partitioner variable_axis_size_partitioner(const AxisSizePartitionerOptions& options);

}  // namespace tutti
