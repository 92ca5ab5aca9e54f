#include "tutti/kernels/cpu/blocks.h"

#include <algorithm>
#include <limits>
#include <string>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti::cpu {
namespace {

// Blocks along the dimensions behind the batch, and what is added to (or cut from) the sides of those.
struct Blocks {
  DimList size;
  DimList before;
  DimList after;

  void add(std::int64_t block, std::int64_t first, std::int64_t last) {
    size.push_back(block);
    before.push_back(first);
    after.push_back(last);
  }
};

// `sides` is paddings or crops, by its name.
Status read_sides(const Tensor& sides, std::string_view name, const DimList& sizes, Blocks* blocks) {
  if (sides.rank() != 2 || sides.dim(0) != sizes.size || sides.dim(1) != 2) {
    return invalid_argument(name, " should have shape [", sizes.size, ", 2] instead of ", sides.shape());
  }
  for (int d = 0; d < sizes.size; ++d) {
    const std::int64_t before = index_at(sides.raw(), sides.dtype(), 2 * d);
    const std::int64_t after = index_at(sides.raw(), sides.dtype(), 2 * d + 1);
    if (before < 0 || after < 0) {
      return invalid_argument(name, " must be non-negative: ", before, " ", after, " of block dimension ", d);
    }
    if (sizes[d] < 1) return invalid_argument("block_shape values must be positive, got ", sizes[d], " at ", d);
    blocks->add(sizes[d], before, after);
  }
  return {};
}

// The product of the block's sizes.
Result<std::int64_t> block_elements(const Blocks& blocks) {
  std::int64_t product = 1;
  for (int d = 0; d < blocks.size.size; ++d) {
    if (__builtin_mul_overflow(product, blocks.size[d], &product)) return invalid_argument("block_shape is too large");
  }
  return product;
}

// Copies between `space` and `batch`, whose batch dimension counts places in a block and behind them space's batch.
// What the sides add to space has no place in it.
class BlockCopy {
 public:
  BlockCopy(const Blocks& blocks, const Shape& space, const Shape& batch)
      : blocks_(blocks), space_(space), batch_(batch) {
    strides_of(space, &space_strides_);
    strides_of(batch, &batch_strides_);
  }

  // `pass(copy, offset in space, offset in batch)` for each place in a block.
  template <typename Pass>
  void each_place(std::int64_t places, bool to_batch, const Pass& pass) const {
    for (std::int64_t place = 0; place < places; ++place) {
      StridedCopy copy;
      std::int64_t in_space = 0, in_batch = place * space_.dim(0) * batch_strides_[0];
      if (plan(place, to_batch, &copy, &in_space, &in_batch)) pass(copy, in_space, in_batch);
    }
  }

 private:
  // False when no element of space lies at this place of any block.
  bool plan(std::int64_t place, bool to_batch, StridedCopy* copy, std::int64_t* in_space,
            std::int64_t* in_batch) const {
    const int count = blocks_.size.size;
    DimList within;  // where in the block, along each dimension
    within.size = count;
    for (int d = count - 1; d >= 0; --d) {
      within[d] = place % blocks_.size[d];
      place /= blocks_.size[d];
    }
    const auto add_loop = [&](std::int64_t size, std::int64_t space_stride, std::int64_t batch_stride) {
      copy->add_loop(size, to_batch ? batch_stride : space_stride, to_batch ? space_stride : batch_stride);
    };
    add_loop(space_.dim(0), space_strides_[0], batch_strides_[0]);
    for (int d = 0; d < count; ++d) {
      const std::int64_t block = blocks_.size[d];
      // Block i has the element i * block + start of space, where that is one.
      const std::int64_t start = within[d] - blocks_.before[d];
      const std::int64_t first = start >= 0 ? 0 : (-start + block - 1) / block;
      const std::int64_t end = start >= space_.dim(d + 1) ? 0 : (space_.dim(d + 1) - start + block - 1) / block;
      const std::int64_t blocks = std::min(end, batch_.dim(d + 1)) - first;
      if (blocks <= 0) return false;
      *in_space += (first * block + start) * space_strides_[d + 1];
      *in_batch += first * batch_strides_[d + 1];
      add_loop(blocks, block * space_strides_[d + 1], batch_strides_[d + 1]);
    }
    for (int d = count + 1; d < space_.rank(); ++d) add_loop(space_.dim(d), space_strides_[d], batch_strides_[d]);
    return true;
  }

  const Blocks& blocks_;
  const Shape& space_;
  const Shape& batch_;
  DimList space_strides_;
  DimList batch_strides_;
};

Status check_rank(const Tensor& input, const Blocks& blocks) {
  if (input.rank() > blocks.size.size) return {};
  return invalid_argument("input rank should be >= ", blocks.size.size + 1, " instead of ", input.rank());
}

Status space_to_batch(KernelContext& ctx, const Blocks& blocks) {
  const Tensor& input = ctx.input(0);
  TUTTI_RETURN_IF_ERROR(check_rank(input, blocks));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t places, block_elements(blocks));
  DimList dims;
  for (const std::int64_t dim : input.shape().dims()) dims.push_back(dim);
  if (__builtin_mul_overflow(dims[0], places, &dims[0])) return invalid_argument("block_shape is too large");
  for (int d = 0; d < blocks.size.size; ++d) {
    std::int64_t padded = dims[d + 1];
    if (__builtin_add_overflow(padded, blocks.before[d], &padded) ||
        __builtin_add_overflow(padded, blocks.after[d], &padded)) {
      return invalid_argument("paddings ", blocks.before[d], " ", blocks.after[d], " are too large");
    }
    if (padded % blocks.size[d] != 0) {
      return invalid_argument("padded_shape[", d, "]=", padded, " is not divisible by block_shape[", d,
                              "]=", blocks.size[d]);
    }
    dims[d + 1] = padded / blocks.size[d];
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  const DType dtype = out->dtype();
  zero_elements(dtype, out->raw(), out->num_elements());
  if (input.num_elements() == 0 || out->num_elements() == 0) return {};
  BlockCopy(blocks, input.shape(), shape)
      .each_place(places, true, [&](StridedCopy& copy, std::int64_t from, std::int64_t to) {
        copy.run(dtype, at_element(dtype, out->raw(), to), at_element(dtype, input.raw(), from), ctx.team());
      });
  return {};
}

Status batch_to_space(KernelContext& ctx, const Blocks& blocks) {
  const Tensor& input = ctx.input(0);
  TUTTI_RETURN_IF_ERROR(check_rank(input, blocks));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t places, block_elements(blocks));
  DimList dims;
  for (const std::int64_t dim : input.shape().dims()) dims.push_back(dim);
  if (dims[0] % places != 0) {
    return invalid_argument("Input batch dimension (", dims[0], ") is not divisible by product of block sizes (",
                            places, ")");
  }
  dims[0] /= places;
  for (int d = 0; d < blocks.size.size; ++d) {
    std::int64_t size = 0;
    if (__builtin_mul_overflow(dims[d + 1], blocks.size[d], &size)) return invalid_argument("block_shape is too large");
    // Neither side is negative: what is left after the first is no more than `size`, and may be far below 0.
    std::int64_t kept = size - blocks.before[d];
    if (__builtin_sub_overflow(kept, blocks.after[d], &kept)) kept = std::numeric_limits<std::int64_t>::min();
    if (kept < 0) return invalid_argument("cropped_shape[", d, "]=", kept, " must be non-negative");
    dims[d + 1] = kept;
  }
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};
  const DType dtype = out->dtype();
  BlockCopy(blocks, shape, input.shape())
      .each_place(places, false, [&](StridedCopy& copy, std::int64_t to, std::int64_t from) {
        copy.run(dtype, at_element(dtype, out->raw(), to), at_element(dtype, input.raw(), from), ctx.team());
      });
  return {};
}

Status read_blocks(KernelContext& ctx, std::string_view sides, Blocks* blocks) {
  if (ctx.input(1).rank() != 1) {
    return invalid_argument("block_shape rank should be 1 instead of ", ctx.input(1).rank());
  }
  DimList sizes;
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(1), "block_shape", &sizes));
  return read_sides(ctx.input(2), sides, sizes, blocks);
}

// The forms with one size for height and width.
class SquareBlocks : public Kernel {
 public:
  SquareBlocks(const KernelInit& init, bool to_batch)
      : block_(init.attr<std::int64_t>("block_size")), to_batch_(to_batch) {}

  Status compute(KernelContext& ctx) override {
    if (ctx.input(0).rank() != 4) return invalid_argument("input rank should be 4 instead of ", ctx.input(0).rank());
    DimList sizes;
    sizes.push_back(block_);
    sizes.push_back(block_);
    Blocks blocks;
    TUTTI_RETURN_IF_ERROR(read_sides(ctx.input(1), to_batch_ ? "paddings" : "crops", sizes, &blocks));
    return to_batch_ ? space_to_batch(ctx, blocks) : batch_to_space(ctx, blocks);
  }

 private:
  const std::int64_t block_;
  const bool to_batch_;
};

// A block's rows lie behind each other in the channels of its place.
class DepthBlocks : public Kernel {
 public:
  DepthBlocks(const KernelInit& init, bool to_depth)
      : block_(init.attr<std::int64_t>("block_size")), to_depth_(to_depth) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, output_shape(input));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    const Shape& space = to_depth_ ? input.shape() : shape;
    const Shape& depth = to_depth_ ? shape : input.shape();
    DimList s, t;
    strides_of(space, &s);
    strides_of(depth, &t);
    const std::int64_t row = block_ * space.dim(3);  // of a block: neighbours in both
    StridedCopy copy;
    const auto add_loop = [&](std::int64_t size, std::int64_t in_space, std::int64_t in_depth) {
      copy.add_loop(size, to_depth_ ? in_depth : in_space, to_depth_ ? in_space : in_depth);
    };
    add_loop(depth.dim(0), s[0], t[0]);
    add_loop(depth.dim(1), block_ * s[1], t[1]);
    add_loop(block_, s[1], row);
    add_loop(depth.dim(2), block_ * s[2], t[2]);
    add_loop(row, 1, 1);
    copy.run(out->dtype(), out->raw(), input.raw(), ctx.team());
    return {};
  }

 private:
  Result<Shape> output_shape(const Tensor& input) const {
    if (input.rank() != 4) return invalid_argument("Input rank should be: 4 instead of: ", input.rank());
    std::int64_t square = 0;
    DimList dims;
    for (const std::int64_t dim : input.shape().dims()) dims.push_back(dim);
    bool fits = !__builtin_mul_overflow(block_, block_, &square);
    if (to_depth_) {
      if (dims[1] % block_ != 0 || dims[2] % block_ != 0) {
        return invalid_argument("Image width ", dims[2], " and height ", dims[1],
                                " should be divisible by block_size: ", block_);
      }
      dims[1] /= block_;
      dims[2] /= block_;
      fits = fits && !__builtin_mul_overflow(dims[3], square, &dims[3]);
    } else {
      if (!fits || dims[3] % square != 0) {
        return invalid_argument("Input depth dimension ", dims[3],
                                " should be divisible by the square of block_size: ", block_);
      }
      dims[3] /= square;
      fits = !__builtin_mul_overflow(dims[1], block_, &dims[1]) && !__builtin_mul_overflow(dims[2], block_, &dims[2]);
    }
    if (!fits) return invalid_argument("block_size ", block_, " is too large for input of shape ", input.shape());
    return Shape::create(dims.span());
  }

  const std::int64_t block_;
  const bool to_depth_;
};

KernelFactory square_kernel(bool to_batch) {
  return [to_batch](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<SquareBlocks>(init, to_batch));
  };
}

KernelFactory depth_kernel(bool to_depth) {
  return [to_depth](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const std::string& format = init.attr<std::string>("data_format");
    if (format != "NHWC") return invalid_argument("Only NHWC data_format supported on CPU. Got ", format);
    return std::unique_ptr<Kernel>(std::make_unique<DepthBlocks>(init, to_depth));
  };
}

}  // namespace

Status space_to_batch_nd(KernelContext& ctx) {
  Blocks blocks;
  TUTTI_RETURN_IF_ERROR(read_blocks(ctx, "paddings", &blocks));
  return space_to_batch(ctx, blocks);
}

Status batch_to_space_nd(KernelContext& ctx) {
  Blocks blocks;
  TUTTI_RETURN_IF_ERROR(read_blocks(ctx, "crops", &blocks));
  return batch_to_space(ctx, blocks);
}

KernelFactory space_to_batch_kernel() { return square_kernel(true); }
KernelFactory batch_to_space_kernel() { return square_kernel(false); }
KernelFactory space_to_depth_kernel() { return depth_kernel(true); }
KernelFactory depth_to_space_kernel() { return depth_kernel(false); }

}  // namespace tutti::cpu
