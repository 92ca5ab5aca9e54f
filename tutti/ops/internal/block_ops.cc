#include "tutti/ops/internal/block_ops.h"

#include <optional>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/blocks.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/ops/builders.h"

namespace tutti::internal {
namespace {

using Dims = std::vector<std::int64_t>;

// --- Shapes. A kernel checks again what is known only then. ---

std::optional<Dims> constant_dims(const ShapeContext& c, int input) {
  const std::optional<Tensor> value = c.constant(input);
  if (!value || !kIndexTypes.contains(value->dtype())) return std::nullopt;
  Dims values;
  for (std::int64_t i = 0; i < value->num_elements(); ++i) {
    values.push_back(cpu::index_at(value->raw(), value->dtype(), i));
  }
  return values;
}

// `dim` times `factor` where both are known.
Result<std::int64_t> times(std::int64_t dim, std::int64_t factor) {
  if (dim == kUnknownDim) return dim;
  if (__builtin_mul_overflow(dim, factor, &dim)) return invalid_argument("block of ", factor, " is too large");
  return dim;
}

Result<std::int64_t> divided(std::int64_t dim, std::int64_t divisor) {
  if (dim == kUnknownDim) return dim;
  if (dim % divisor != 0)
    return invalid_argument("Dimension size must be evenly divisible by ", divisor, " but is ", dim);
  return dim / divisor;
}

// `dim` with `before` and `after` added, or cut off.
Result<std::int64_t> with_sides(std::int64_t dim, std::int64_t before, std::int64_t after, bool add) {
  if (before < 0 || after < 0) return invalid_argument("paddings and crops must be non-negative: ", before, " ", after);
  if (dim == kUnknownDim) return dim;
  std::int64_t both = 0;
  const bool fits = !__builtin_add_overflow(before, after, &both) &&
                    (add ? !__builtin_add_overflow(dim, both, &dim) : !__builtin_sub_overflow(dim, both, &dim));
  if (!fits || dim < 0) return invalid_argument("paddings or crops ", before, " ", after, " do not fit");
  return dim;
}

Result<std::int64_t> blocked_dim(std::int64_t dim, std::int64_t block, std::int64_t before, std::int64_t after,
                                 bool to_batch) {
  if (to_batch) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t padded, with_sides(dim, before, after, true));
    return divided(padded, block);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t whole, times(dim, block));
  return with_sides(whole, before, after, false);
}

Status blocks_shape(ShapeContext& c, const Dims& block, const std::optional<Dims>& sides, bool to_batch) {
  PartialShape shape = c.input(0);
  if (!shape.has_rank()) return {};
  const int count = static_cast<int>(block.size());
  if (shape.rank() <= count) return invalid_argument("input rank should be > ", count, ", got shape ", shape);
  std::int64_t batch = shape.dim(0);
  for (int d = 0; d < count; ++d) {
    const std::int64_t size = block[static_cast<std::size_t>(d)];
    if (size < 1) return invalid_argument("block_shape must be positive, got ", size);
    TUTTI_ASSIGN_OR_RETURN(batch, to_batch ? times(batch, size) : divided(batch, size));
    std::int64_t dim = kUnknownDim;
    if (sides) {
      const std::int64_t before = (*sides)[static_cast<std::size_t>(2 * d)];
      const std::int64_t after = (*sides)[static_cast<std::size_t>(2 * d + 1)];
      TUTTI_ASSIGN_OR_RETURN(dim, blocked_dim(shape.dim(d + 1), size, before, after, to_batch));
    }
    shape.set_dim(d + 1, dim);
  }
  shape.set_dim(0, batch);
  c.set_output(0, std::move(shape));
  return {};
}

Status blocks_nd_shape(ShapeContext& c, bool to_batch) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape block_dims, c.with_rank(1, 1));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape side_dims, c.with_rank(2, 2));
  TUTTI_RETURN_IF_ERROR(side_dims.merge(PartialShape{block_dims.dim(0), 2}).status());
  const std::optional<Dims> block = constant_dims(c, 1);
  if (block) return blocks_shape(c, *block, constant_dims(c, 2), to_batch);
  if (c.input(0).has_rank()) {
    PartialShape shape = c.input(0);
    const int count = block_dims.dim(0) == kUnknownDim ? shape.rank() - 1 : static_cast<int>(block_dims.dim(0));
    if (shape.rank() <= count) return invalid_argument("input rank should be > ", count, ", got shape ", shape);
    for (int d = 0; d <= count; ++d) shape.set_dim(d, kUnknownDim);
    c.set_output(0, std::move(shape));
  }
  return {};
}

Status square_blocks_shape(ShapeContext& c, bool to_batch) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 4).status());
  TUTTI_ASSIGN_OR_RETURN(const PartialShape side_dims, c.with_rank(1, 2));
  TUTTI_RETURN_IF_ERROR(side_dims.merge(PartialShape{2, 2}).status());
  const std::int64_t size = c.attr<std::int64_t>("block_size");
  if (!c.input(0).has_rank()) {
    c.set_output(0, PartialShape::unknown_of_rank(4));
    return {};
  }
  return blocks_shape(c, {size, size}, constant_dims(c, 1), to_batch);
}

Status depth_shape(ShapeContext& c, bool to_depth) {
  // Other layouts have no kernel.
  if (c.attr<std::string>("data_format") != "NHWC") return {};
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.with_rank(0, 4));
  const std::int64_t block = c.attr<std::int64_t>("block_size");
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t square, times(block, block));
  for (int d : {1, 2}) {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t dim,
                           to_depth ? divided(shape.dim(d), block) : times(shape.dim(d), block));
    shape.set_dim(d, dim);
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t depth,
                         to_depth ? times(shape.dim(3), square) : divided(shape.dim(3), square));
  shape.set_dim(3, depth);
  c.set_output(0, std::move(shape));
  return {};
}

// --- Gradients: the way back, with the same arguments. ---

GradFn back_by(std::string op) {
  return [op = std::move(op)](GradContext& g) {
    std::vector<Output> inputs{g.grad()};
    for (int i = 1; i < g.num_inputs(); ++i) inputs.push_back(g.input(i));
    AttrMap attrs;
    for (const char* name : {"block_size", "data_format"}) {
      if (const AttrValue* value = g.node().find_attr(name)) attrs[name] = *value;
    }
    g.set(0, op1(op, inputs, attrs));
  };
}

}  // namespace

void add_block_ops(OpTable& ops) {
  ops.add({.name = "SpaceToBatchND",
           .signature = "input: T, block_shape: Tblock_shape, paddings: Tpaddings -> output: T",
           .attrs = "T: type; Tblock_shape: {int32, int64} = int32; Tpaddings: {int32, int64} = int32",
           .shape = [](ShapeContext& c) { return blocks_nd_shape(c, true); },
           .grad = back_by("BatchToSpaceND"),
           .kernels = {TUTTI_CPU(kernel_from(cpu::space_to_batch_nd))}});
  ops.add({.name = "BatchToSpaceND",
           .signature = "input: T, block_shape: Tblock_shape, crops: Tcrops -> output: T",
           .attrs = "T: type; Tblock_shape: {int32, int64} = int32; Tcrops: {int32, int64} = int32",
           .shape = [](ShapeContext& c) { return blocks_nd_shape(c, false); },
           .grad = back_by("SpaceToBatchND"),
           .kernels = {TUTTI_CPU(kernel_from(cpu::batch_to_space_nd))}});
  ops.add({.name = "SpaceToBatch",
           .signature = "input: T, paddings: Tpaddings -> output: T",
           .attrs = "T: type; Tpaddings: {int32, int64} = int32; block_size: int >= 2",
           .shape = [](ShapeContext& c) { return square_blocks_shape(c, true); },
           .grad = back_by("BatchToSpace"),
           .kernels = {TUTTI_CPU(cpu::space_to_batch_kernel())}});
  ops.add({.name = "BatchToSpace",
           .signature = "input: T, crops: Tidx -> output: T",
           .attrs = "T: type; block_size: int >= 2; Tidx: {int32, int64} = int32",
           .shape = [](ShapeContext& c) { return square_blocks_shape(c, false); },
           .grad = back_by("SpaceToBatch"),
           .kernels = {TUTTI_CPU(cpu::batch_to_space_kernel())}});
  const std::string attrs = "T: type; block_size: int >= 2; data_format: {'NHWC', 'NCHW', 'NCHW_VECT_C'} = 'NHWC'";
  ops.add({.name = "SpaceToDepth",
           .signature = "input: T -> output: T",
           .attrs = attrs,
           .shape = [](ShapeContext& c) { return depth_shape(c, true); },
           .grad = back_by("DepthToSpace"),
           .kernels = {TUTTI_CPU(cpu::space_to_depth_kernel())}});
  ops.add({.name = "DepthToSpace",
           .signature = "input: T -> output: T",
           .attrs = attrs,
           .shape = [](ShapeContext& c) { return depth_shape(c, false); },
           .grad = back_by("SpaceToDepth"),
           .kernels = {TUTTI_CPU(cpu::depth_to_space_kernel())}});
}

}  // namespace tutti::internal
