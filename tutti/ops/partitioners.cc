#include "tutti/ops/partitioners.h"

#include <algorithm>

#include "tutti/core/status.h"
#include "tutti/core/strings.h"

namespace tutti {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

void check_positive(const char* partitioner, const char* what, std::int64_t value) {
  if (value < 1) throw_error(invalid_argument(partitioner, ": ", what, " must be positive, got ", value));
}

void check_axis(const char* partitioner, const Shape& shape, int axis) {
  if (axis >= 0 && axis < shape.rank()) return;
  throw_error(invalid_argument(partitioner, ": cannot cut a variable of shape ", shape, " along axis ", axis));
}

std::int64_t element_bytes(DType dtype, std::int64_t bytes_per_string) {
  return dtype == DType::kString ? bytes_per_string : static_cast<std::int64_t>(dtype_size(dtype));
}

// The product, or the largest number where it does not fit.
std::int64_t capped_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

std::vector<std::int64_t> cut(const Shape& shape, int axis, std::int64_t parts) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(shape.rank()), 1);
  counts[static_cast<std::size_t>(axis)] = std::max<std::int64_t>(parts, 1);
  return counts;
}

}  // namespace

Partitioner fixed_size_partitioner(std::int64_t num_shards, int axis) {
  constexpr const char* kName = "fixed_size_partitioner";
  check_positive(kName, "num_shards", num_shards);
  return [=](const Shape& shape, DType) {
    check_axis(kName, shape, axis);
    return cut(shape, axis, std::min(num_shards, shape.dim(axis)));
  };
}

Partitioner min_max_variable_partitioner(const MinMaxPartitionerOptions& options) {
  constexpr const char* kName = "min_max_variable_partitioner";
  check_positive(kName, "max_partitions", options.max_partitions);
  check_positive(kName, "min_slice_size", options.min_slice_size);
  check_positive(kName, "bytes_per_string_element", options.bytes_per_string_element);
  return [options](const Shape& shape, DType dtype) {
    check_axis(kName, shape, options.axis);
    const std::int64_t bytes =
        capped_product(shape.num_elements(), element_bytes(dtype, options.bytes_per_string_element));
    const std::int64_t wanted = ceil_div(bytes, options.min_slice_size);
    return cut(shape, options.axis, std::min({shape.dim(options.axis), options.max_partitions, wanted}));
  };
}

Partitioner variable_axis_size_partitioner(const AxisSizePartitionerOptions& options) {
  constexpr const char* kName = "variable_axis_size_partitioner";
  check_positive(kName, "max_shard_bytes", options.max_shard_bytes);
  check_positive(kName, "bytes_per_string_element", options.bytes_per_string_element);
  if (options.max_shards != 0) check_positive(kName, "max_shards", options.max_shards);
  return [options](const Shape& shape, DType dtype) {
    check_axis(kName, shape, options.axis);
    const std::int64_t entries = shape.dim(options.axis);
    if (shape.num_elements() == 0) return cut(shape, options.axis, 1);
    const std::int64_t bytes_per_slice =
        capped_product(shape.num_elements() / entries, element_bytes(dtype, options.bytes_per_string_element));
    const std::int64_t slices_per_shard = std::max<std::int64_t>(1, options.max_shard_bytes / bytes_per_slice);
    const std::int64_t shards = ceil_div(entries, slices_per_shard);
    return cut(shape, options.axis, options.max_shards > 0 ? std::min(options.max_shards, shards) : shards);
  };
}

}  // namespace tutti
