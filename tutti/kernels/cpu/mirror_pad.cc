#include "tutti/kernels/cpu/mirror_pad.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// One dimension: place i of the padded side shows place source[i] of the other.
struct MirroredDim {
  std::int64_t size = 0;  // without padding
  std::int64_t before = 0, after = 0;
  std::vector<std::int64_t> source;

  std::int64_t padded() const { return before + size + after; }
};

class MirrorKernel : public Kernel {
 public:
  explicit MirrorKernel(const KernelInit& init) : skip_(init.attr<std::string>("mode") == "REFLECT" ? 1 : 0) {}

 protected:
  // The dimensions of input 0, without sources; `padded`: it is the padded side.
  Result<std::vector<MirroredDim>> read(KernelContext& ctx, bool padded) const {
    const Tensor& input = ctx.input(0);
    const Tensor& paddings = ctx.input(1);
    if (paddings.rank() != 2 || paddings.dim(1) != 2 || paddings.dim(0) != input.rank()) {
      return invalid_argument("paddings must be a matrix [", input.rank(), ",2], not ", paddings.shape());
    }
    std::vector<MirroredDim> dims;
    for (int d = 0; d < input.rank(); ++d) {
      const std::int64_t before = index_at(paddings.raw(), paddings.dtype(), 2 * d);
      const std::int64_t after = index_at(paddings.raw(), paddings.dtype(), 2 * d + 1);
      if (before < 0 || after < 0) {
        return invalid_argument("paddings must be non-negative: ", before, " ", after, " for dimension ", d);
      }
      std::int64_t size = input.dim(d);
      // Paddings over the size are refused below; here the sum must not overflow.
      if (padded) size = before > size || after > size ? -1 : size - before - after;
      if (size < 0 || before > size - skip_ || after > size - skip_) {
        if (!(before == 0 && after == 0 && size == 0)) {
          return invalid_argument("paddings must be no greater than the dimension size", skip_ == 1 ? " less one" : "",
                                  ": ", before, ", ", after, " for dimension ", d, " of ", input.shape());
        }
      }
      std::int64_t whole = 0;
      if (__builtin_add_overflow(size, before, &whole) || __builtin_add_overflow(whole, after, &whole)) {
        return invalid_argument("paddings ", before, " and ", after, " are too large for dimension ", d, " of ",
                                input.shape());
      }
      dims.push_back({.size = size, .before = before, .after = after, .source = {}});
    }
    return dims;
  }

  // As long as the sides are: not for a tensor of no elements, whose sides may be of any length.
  void set_sources(std::vector<MirroredDim>& dims) const {
    for (MirroredDim& dim : dims) {
      dim.source.reserve(static_cast<std::size_t>(dim.padded()));
      for (std::int64_t i = 0; i < dim.before; ++i) dim.source.push_back(dim.before - i - 1 + skip_);
      for (std::int64_t i = 0; i < dim.size; ++i) dim.source.push_back(i);
      for (std::int64_t i = 0; i < dim.after; ++i) dim.source.push_back(dim.size - 1 - skip_ - i);
    }
  }

  static Result<Shape> shape_of(const std::vector<MirroredDim>& dims, bool padded) {
    DimList sizes;
    for (const MirroredDim& dim : dims) {
      sizes.push_back(padded ? dim.padded() : dim.size);
    }
    return Shape::create(sizes.span());
  }

  // The row without padding that padded row `row` shows.
  static std::int64_t source_row(const std::vector<MirroredDim>& dims, std::int64_t row) {
    std::int64_t at = 0, stride = 1;
    for (int d = static_cast<int>(dims.size()) - 2; d >= 0; --d) {
      const MirroredDim& dim = dims[static_cast<std::size_t>(d)];
      const auto size = static_cast<std::int64_t>(dim.source.size());
      at += dim.source[static_cast<std::size_t>(row % size)] * stride;
      row /= size;
      stride *= dim.size;
    }
    return at;
  }

 private:
  const std::int64_t skip_;
};

class MirrorPad : public MirrorKernel {
 public:
  using MirrorKernel::MirrorKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(std::vector<MirroredDim> dims, read(ctx, false));
    if (dims.empty()) {
      ctx.set_output(0, input);
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, shape_of(dims, true));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (shape.num_elements() == 0) return {};
    set_sources(dims);
    const std::vector<std::int64_t>& columns = dims.back().source;
    const auto width = static_cast<std::int64_t>(columns.size());
    with_element(input.dtype(), [&]<typename E>(const E&) {
      parallel_for(ctx.team(), shape.num_elements() / width, std::max<std::int64_t>(1, kElementGrain / width),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       const E* from = static_cast<const E*>(input.raw()) + source_row(dims, row) * dims.back().size;
                       E* to = static_cast<E*>(out->raw()) + row * width;
                       for (std::int64_t i = 0; i < width; ++i) to[i] = from[columns[static_cast<std::size_t>(i)]];
                     }
                   });
    });
    return {};
  }
};

class MirrorPadGrad : public MirrorKernel {
 public:
  using MirrorKernel::MirrorKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(std::vector<MirroredDim> dims, read(ctx, true));
    if (dims.empty()) {
      ctx.set_output(0, input);
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, shape_of(dims, false));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    zero_elements(out->dtype(), out->raw(), out->num_elements());
    if (input.num_elements() == 0) return {};
    set_sources(dims);
    const std::vector<std::int64_t>& columns = dims.back().source;
    const auto width = static_cast<std::int64_t>(columns.size());
    return with_number(
        input.dtype(),
        [&]<typename T>(T) -> Status {
          for (std::int64_t row = 0; row < input.num_elements() / width; ++row) {
            const T* from = input.data<T>() + row * width;
            T* to = out->data<T>() + source_row(dims, row) * dims.back().size;
            for (std::int64_t i = 0; i < width; ++i) {
              T& sum = to[columns[static_cast<std::size_t>(i)]];
              sum = add_wrapping(sum, from[i]);
            }
          }
          return {};
        },
        [&]() -> Status { return unimplemented("no sums of ", dtype_name(input.dtype())); });
  }
};

}  // namespace

KernelFactory mirror_pad_kernel() { return kernel_of<MirrorPad>(); }
KernelFactory mirror_pad_grad_kernel() { return kernel_of<MirrorPadGrad>(); }

}  // namespace tutti::cpu
