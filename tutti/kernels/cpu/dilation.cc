#include "tutti/kernels/cpu/dilation.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/patch_window.h"

namespace tutti::cpu {
namespace {

enum class DilationResult { kOutput, kInput, kFilter };

// Where the largest sum under one window was found.
struct Winner {
  std::int64_t pixel = 0;  // of the image
  std::int64_t cell = 0;   // of the filter
};

// The lowest number of images of `dtype`, which are computed in T.
template <typename T>
T lowest(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return T{0};
    default:
      return std::numeric_limits<T>::lowest();
  }
}

// The window at (row, column) of image `b`, for one channel. Where no sum is over *largest, the lowest number: the
// filter's first cell, though it may lie beside the image, and the image's first pixel.
template <typename T>
Winner find_winner(const PatchWindow& w, const T* images, const T* filter, std::int64_t b, std::int64_t row,
                   std::int64_t column, std::int64_t channel, T* largest) {
  const std::int64_t top = std::max<std::int64_t>(w.rows.start(row), 0);
  const std::int64_t left = std::max<std::int64_t>(w.columns.start(column), 0);
  Winner winner{((b * w.rows.in + top) * w.columns.in + left) * w.depth + channel, channel};
  for (std::int64_t i = 0; i < w.rows.kernel; ++i) {
    const std::int64_t y = w.rows.start(row) + i * w.rows.dilation;
    if (y < 0 || y >= w.rows.in) continue;
    for (std::int64_t j = 0; j < w.columns.kernel; ++j) {
      const std::int64_t x = w.columns.start(column) + j * w.columns.dilation;
      if (x < 0 || x >= w.columns.in) continue;
      const std::int64_t pixel = ((b * w.rows.in + y) * w.columns.in + x) * w.depth + channel;
      const std::int64_t cell = (i * w.columns.kernel + j) * w.depth + channel;
      const T sum = add_wrapping(images[pixel], filter[cell]);
      if (sum > *largest) {
        *largest = sum;
        winner = {pixel, cell};
      }
    }
  }
  return winner;
}

class DilationKernel : public Kernel {
 public:
  DilationKernel(const KernelInit& init, const WindowAttrs& attrs, DilationResult result)
      : name_(init.op), attrs_(attrs), result_(result) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& images = ctx.input(0);
    const Tensor& filter = ctx.input(1);
    if (filter.rank() != 3) return invalid_argument(name_, ": filter must be 3-dimensional: ", filter.shape());
    if (images.rank() != 4) return invalid_argument(name_, ": input must be 4-dimensional: ", images.shape());
    if (images.dim(3) != filter.dim(2)) {
      return invalid_argument(name_, ": input and filter must have the same depth: ", images.dim(3), " vs ",
                              filter.dim(2));
    }
    Result<PatchWindow> w = patch_window(attrs_, {filter.dim(0), filter.dim(1)}, images.shape());
    if (!w.ok()) return w.status().with_context(name_);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                           Shape::create(std::array{w->batch, w->rows.out, w->columns.out, w->depth}));
    if (result_ != DilationResult::kOutput && ctx.input(2).shape() != shape) {
      return invalid_argument(name_, ": out_backprop is of shape ", ctx.input(2).shape(), ", not ", shape);
    }
    const Shape& made = result_ == DilationResult::kOutput  ? shape
                        : result_ == DilationResult::kInput ? images.shape()
                                                            : filter.shape();
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, made));
    const DType wide = compute_dtype(images.dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor x, widened(ctx, images, wide));
    TUTTI_ASSIGN_OR_RETURN(const Tensor f, widened(ctx, filter, wide));
    Tensor grad;
    if (result_ != DilationResult::kOutput) {
      TUTTI_ASSIGN_OR_RETURN(grad, widened(ctx, ctx.input(2), wide));
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
    zero_elements(wide, to.raw(), to.num_elements());
    if (shape.num_elements() > 0) run_as(ctx, *w, x, f, grad, to);
    narrow_into(to, *out);
    return {};
  }

 private:
  void run_as(KernelContext& ctx, const PatchWindow& w, const Tensor& x, const Tensor& f, const Tensor& grad,
              Tensor& to) const {
    switch (x.dtype()) {
      case DType::kFloat:
        return run<float>(ctx, w, x, f, grad, to);
      case DType::kDouble:
        return run<double>(ctx, w, x, f, grad, to);
      case DType::kInt32:
        return run<std::int32_t>(ctx, w, x, f, grad, to);
      case DType::kUint64:
        return run<std::uint64_t>(ctx, w, x, f, grad, to);
      default:
        return run<std::int64_t>(ctx, w, x, f, grad, to);
    }
  }

  template <typename T>
  void run(KernelContext& ctx, const PatchWindow& w, const Tensor& x, const Tensor& f, const Tensor& grad,
           Tensor& to) const {
    T* target = to.data<T>();
    const T* dy = grad.has_value() ? grad.data<T>() : nullptr;
    const auto one_image = [&](std::int64_t b) {
      const std::int64_t places = w.rows.out * w.columns.out * w.depth;
      for (std::int64_t place = 0; place < places; ++place) {
        const std::int64_t pixel = place / w.depth, at = b * places + place;
        T largest = lowest<T>(ctx.input(0).dtype());
        const Winner winner = find_winner(w, x.data<T>(), f.data<T>(), b, pixel / w.columns.out, pixel % w.columns.out,
                                          place % w.depth, &largest);
        if (result_ == DilationResult::kOutput) {
          target[at] = largest;
        } else {
          T& sum = target[result_ == DilationResult::kInput ? winner.pixel : winner.cell];
          sum = add_wrapping(sum, dy[at]);
        }
      }
    };
    // Images share the filter, whose gradient is summed on one thread.
    Team& team = result_ == DilationResult::kFilter ? Team::alone() : ctx.team();
    parallel_for(team, w.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) one_image(b);
    });
  }

  const std::string name_;
  const WindowAttrs attrs_;
  const DilationResult result_;
};

KernelFactory dilation_factory(DilationResult result) {
  return [result](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    WindowAttrs attrs;
    TUTTI_RETURN_IF_ERROR(read_patch_attrs(init.attrs, &attrs).status());
    return std::unique_ptr<Kernel>(std::make_unique<DilationKernel>(init, attrs, result));
  };
}

}  // namespace

KernelFactory dilation_kernel() { return dilation_factory(DilationResult::kOutput); }
KernelFactory dilation_backprop_input_kernel() { return dilation_factory(DilationResult::kInput); }
KernelFactory dilation_backprop_filter_kernel() { return dilation_factory(DilationResult::kFilter); }

}  // namespace tutti::cpu
