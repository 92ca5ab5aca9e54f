// Ragged tensors as dense ones: rows cut or filled up to one length.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/ragged.h"

namespace tutti::cpu {

namespace {

enum class Partition { kFirstSize, kRowIds, kRowSplits };

Result<Partition> partition_of(const std::string& name) {
  if (name == "FIRST_DIM_SIZE") return Partition::kFirstSize;
  if (name == "VALUE_ROWIDS") return Partition::kRowIds;
  if (name == "ROW_SPLITS") return Partition::kRowSplits;
  return invalid_argument("Unknown string for partition info type: ", printable(name));
}

// Where in the output each value goes, in units of one value; -1: nowhere. Those behind `listed` go nowhere either.
struct Places {
  std::vector<std::int64_t> listed;
  std::int64_t count = 0;

  std::int64_t at(std::int64_t i) const {
    return i < static_cast<std::int64_t>(listed.size()) ? listed[static_cast<std::size_t>(i)] : -1;
  }
  void add(std::int64_t place) {
    listed.push_back(place);
    ++count;
  }
};

class RaggedTensorToTensor : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    auto kernel = std::make_unique<RaggedTensorToTensor>();
    for (const std::string& name : init.attr<std::vector<std::string>>("row_partition_types")) {
      TUTTI_ASSIGN_OR_RETURN(const Partition partition, partition_of(name));
      kernel->partitions_.push_back(partition);
    }
    if (kernel->partitions_.empty()) return invalid_argument("No row_partition_types given.");
    kernel->first_ = kernel->partitions_[0] == Partition::kFirstSize ? 1 : 0;
    kernel->depth_ = static_cast<int>(kernel->partitions_.size()) - kernel->first_;
    return std::unique_ptr<Kernel>(std::move(kernel));
  }

  Status compute(KernelContext& ctx) override {
    if (ctx.num_inputs() - 3 != static_cast<int>(partitions_.size())) {
      return invalid_argument("there are ", ctx.num_inputs() - 3, " row partitions and ", partitions_.size(),
                              " types of them");
    }
    TUTTI_RETURN_IF_ERROR(check_partitions(ctx));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t rows, first_size(ctx));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, output_shape(ctx, rows));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Places places, places_of_values(ctx, rows, shape));
    return fill(ctx, places, *out);
  }

 private:
  // The partition of dimension d into rows of dimension d + 1.
  const Tensor& partition(KernelContext& ctx, int d) const { return ctx.input(3 + first_ + d); }
  Partition kind(int d) const { return partitions_[static_cast<std::size_t>(first_ + d)]; }

  Status check_partitions(KernelContext& ctx) const {
    for (int d = 0; d < depth_; ++d) {
      if (kind(d) == Partition::kFirstSize) return invalid_argument("FIRST_DIM_SIZE must come first");
      if (partition(ctx, d).rank() != 1) {
        return invalid_argument("row partitions must be vectors, got shape ", partition(ctx, d).shape());
      }
    }
    return {};
  }

  Result<std::int64_t> first_size(KernelContext& ctx) const {
    const Tensor& first = ctx.input(3);
    if (first.num_elements() == 0) {
      return invalid_argument("Invalid first partition input. Tensor requires at least one element.");
    }
    if (partitions_[0] == Partition::kRowIds) return invalid_argument("Cannot handle VALUE_ROWIDS in first dimension.");
    if (partitions_[0] == Partition::kRowSplits) return first.dim(0) - 1;
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t rows, read_scalar_integer(first, "the first dimension's size"));
    if (rows < 0) return invalid_argument("the first dimension's size ", rows, " is negative");
    return rows;
  }

  static std::int64_t at(const Tensor& tensor, std::int64_t i) { return index_at(tensor.raw(), tensor.dtype(), i); }

  // The longest row of dimension d + 1.
  std::int64_t longest_row(KernelContext& ctx, int d) const {
    const Tensor& rows = partition(ctx, d);
    const std::int64_t count = rows.dim(0);
    std::int64_t longest = 0, length = 0;
    if (kind(d) == Partition::kRowSplits) {
      for (std::int64_t i = 1; i < count; ++i) longest = std::max(longest, at(rows, i) - at(rows, i - 1));
      return longest;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      length = i > 0 && at(rows, i) == at(rows, i - 1) ? length + 1 : 1;
      longest = std::max(longest, length);
    }
    return longest;
  }

  // Input 0 where it says something, else what the values and partitions need.
  Result<Shape> output_shape(KernelContext& ctx, std::int64_t rows) const {
    const Tensor &given = ctx.input(0), &values = ctx.input(1), &fill = ctx.input(2);
    if (values.rank() < 1) return invalid_argument("values must have dimensions, got a scalar");
    TUTTI_RETURN_IF_ERROR(check_default(fill.shape(), values.shape()));
    const int rank = depth_ + values.rank();
    if (rank > kMaxRank) return invalid_argument("the result has too many dimensions: ", rank);
    DimList dims;
    if (given.rank() == 0) {
      if (at(given, 0) != -1) return invalid_argument("a scalar shape must be -1, meaning unknown");
      for (int d = 0; d < rank; ++d) dims.push_back(-1);
    } else {
      TUTTI_RETURN_IF_ERROR(read_dims(given, "shape", &dims));
      if (dims.size != rank) {
        return invalid_argument("the shape has ", dims.size, " dimensions, values and partitions make ", rank);
      }
    }
    for (int d = 0; d < rank; ++d) {
      if (dims[d] < -1) return invalid_argument("dimension ", d, " is ", dims[d]);
      if (d > depth_) {
        const std::int64_t inner = values.dim(d - depth_);
        if (dims[d] == -1) dims[d] = inner;
        if (dims[d] != inner) {
          return invalid_argument("dimension ", d, " is ", dims[d], " in shape and ", inner, " in values");
        }
      } else if (dims[d] == -1) {
        dims[d] = d == 0 ? rows : std::max<std::int64_t>(0, longest_row(ctx, d - 1));
      }
    }
    return Shape::create(dims.span());
  }

  static Status check_default(const Shape& fill, const Shape& values) {
    bool fits = fill.rank() < values.rank();
    // Its last dimensions are those of a value; that its first ones must fit a value's first ones, too, is
    // TensorFlow's.
    for (int d = 0; fits && d < fill.rank(); ++d) {
      const std::int64_t first = fill.dim(d), last = fill.dim(fill.rank() - 1 - d);
      fits = (last == 1 || last == values.dim(values.rank() - 1 - d)) && (first == 1 || first == values.dim(d + 1));
    }
    if (fits) return {};
    return invalid_argument("default_value ", fill, " cannot be broadcast to the rows of values ", values);
  }

  Result<Places> places_of_values(KernelContext& ctx, std::int64_t rows, const Shape& shape) const {
    // How far apart the rows of each dimension are.
    DimList steps;
    steps.size = depth_ + 1;
    std::int64_t step = 1;
    for (int d = depth_; d >= 0; step *= shape.dim(d), --d) steps[d] = step;
    Places places;
    for (std::int64_t i = 0; i < std::min(rows, shape.dim(0)); ++i) places.add(i * steps[0]);
    places.count = rows;
    for (int d = 0; d < depth_; ++d) {
      const std::int64_t limit = shape.dim(d + 1);
      // No partition has use for more rows than the next one, or the values, have.
      const std::int64_t most = d + 1 < depth_ ? partition(ctx, d + 1).dim(0) : ctx.input(1).dim(0);
      TUTTI_ASSIGN_OR_RETURN(places, kind(d) == Partition::kRowSplits
                                         ? places_by_splits(partition(ctx, d), places, steps[d + 1], limit, most)
                                         : places_by_ids(partition(ctx, d), places, steps[d + 1], limit));
    }
    if (places.count > ctx.input(1).dim(0)) {
      return invalid_argument("the partitions have ", places.count, " values, there are ", ctx.input(1).dim(0));
    }
    return places;
  }

  static Result<Places> places_by_splits(const Tensor& splits, const Places& parents, std::int64_t step,
                                         std::int64_t limit, std::int64_t most) {
    if (splits.dim(0) - 1 > parents.count) {
      return invalid_argument("Row partition size is greater than output size: ", splits.dim(0) - 1, " > ",
                              parents.count);
    }
    Places places;
    const std::int64_t total = splits.dim(0) > 0 ? at(splits, splits.dim(0) - 1) : 0;
    if (total > most) return invalid_argument("row splits end with ", total, ", but only ", most, " rows follow");
    for (std::int64_t i = 0; i + 1 < splits.dim(0); ++i) {
      const std::int64_t length = at(splits, i + 1) - at(splits, i);
      if (length < 0 || length > total - places.count) {
        return invalid_argument("Invalid row split size.");
      }
      const std::int64_t start = parents.at(i);
      for (std::int64_t j = 0; j < length; ++j) {
        places.add(start >= 0 && j < limit ? start + j * step : -1);
      }
    }
    if (places.count != total) return invalid_argument("Invalid row split size.");
    return places;
  }

  static Result<Places> places_by_ids(const Tensor& ids, const Places& parents, std::int64_t step, std::int64_t limit) {
    Places places;
    std::int64_t column = 0;
    for (std::int64_t i = 0; i < ids.dim(0); ++i) {
      const std::int64_t row = at(ids, i);
      if (row < 0 || row >= parents.count) {
        return invalid_argument("Got value_rowid=", row, " which is not in [0, ", parents.count, ")");
      }
      column = i > 0 && row == at(ids, i - 1) ? column + 1 : 0;
      const std::int64_t start = parents.at(row);
      places.add(start >= 0 && column < limit ? start + column * step : -1);
    }
    return places;
  }

  Status fill(KernelContext& ctx, const Places& places, Tensor& out) const {
    const Tensor& values = ctx.input(1);
    const DType dtype = values.dtype();
    const std::int64_t row = elements_from(values.shape(), 1);
    TUTTI_ASSIGN_OR_RETURN(const Tensor gap, broadcast_default(ctx, row));
    std::vector<bool> taken(static_cast<std::size_t>(out.num_elements() / row), false);
    for (std::int64_t i = 0; i < places.count; ++i) {
      const std::int64_t place = places.at(i);
      if (place < 0) continue;
      taken[static_cast<std::size_t>(place)] = true;
      copy_elements(dtype, at_element(dtype, out.raw(), place * row), at_element(dtype, values.raw(), i * row), row);
    }
    for (std::size_t p = 0; p < taken.size(); ++p) {
      if (taken[p]) continue;
      copy_elements(dtype, at_element(dtype, out.raw(), static_cast<std::int64_t>(p) * row), gap.raw(), row);
    }
    return {};
  }

  // The default as wide as a row of the values.
  static Result<Tensor> broadcast_default(KernelContext& ctx, std::int64_t row) {
    const Tensor &values = ctx.input(1), &fill = ctx.input(2);
    const DType dtype = fill.dtype();
    TUTTI_ASSIGN_OR_RETURN(Tensor wide, ctx.allocate_temp(dtype, Shape{row}));
    for (std::int64_t i = 0; i < row; ++i) {
      std::int64_t rest = i, from = 0, stride = 1;
      for (int d = 0; d < fill.rank(); ++d) {
        const std::int64_t size = values.dim(values.rank() - 1 - d), own = fill.dim(fill.rank() - 1 - d);
        from += own == 1 ? 0 : rest % size * stride;
        rest /= size;
        stride *= own;
      }
      copy_elements(dtype, at_element(dtype, wide.raw(), i), at_element(dtype, fill.raw(), from), 1);
    }
    return wide;
  }

  std::vector<Partition> partitions_;
  int first_ = 0;  // 1 when the first partition is a size
  int depth_ = 0;  // ragged dimensions
};

}  // namespace

KernelFactory ragged_tensor_to_tensor_kernel() { return kernel_of<RaggedTensorToTensor>(); }

}  // namespace tutti::cpu
