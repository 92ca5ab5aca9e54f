#include <cstring>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/resize.h"

namespace tutti::cpu {
namespace {

using internal::ResizeMode;
using internal::ResizeSizes;

std::vector<std::int64_t> nearest_list(const ResizeMode& mode, std::int64_t in, std::int64_t out) {
  const float scale = mode.scale(in, out);
  std::vector<std::int64_t> list(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) list[static_cast<std::size_t>(i)] = mode.nearest(i, scale, in);
  return list;
}

class ResizeNearest : public Kernel {
 public:
  explicit ResizeNearest(const ResizeMode& mode) : mode_(mode) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeNearest>(mode));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& images = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const ResizeSizes s, internal::resize_sizes(images, ctx.input(1)));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, internal::allocate_resized(ctx, s));
    if (out->num_elements() == 0) return {};
    const std::vector<std::int64_t> ys = nearest_list(mode_, s.in_height, s.out_height);
    const std::vector<std::int64_t> xs = nearest_list(mode_, s.in_width, s.out_width);
    const auto element = static_cast<std::int64_t>(dtype_size(images.dtype()));
    const std::int64_t pixel = s.channels * element;
    const char* from = static_cast<const char*>(images.raw());
    char* to = static_cast<char*>(out->raw());
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / s.out_row());
    parallel_for(ctx.team(), s.batch * s.out_height, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i / s.out_height * s.in_height + ys[static_cast<std::size_t>(i % s.out_height)];
        copy_pixels(from + row * s.in_row() * element, xs, pixel, to + i * s.out_row() * element);
      }
    });
    return {};
  }

 private:
  // Copies of a few bytes of a size that the compiler knows: most images have 1, 3 or 4 channels.
  template <std::int64_t kBytes>
  static void copy_small(const char* row, const std::vector<std::int64_t>& xs, char* to) {
    for (const std::int64_t x : xs) {
      std::memcpy(to, row + x * kBytes, kBytes);
      to += kBytes;
    }
  }
  static void copy_pixels(const char* row, const std::vector<std::int64_t>& xs, std::int64_t pixel, char* to) {
    switch (pixel) {
      case 1:
        return copy_small<1>(row, xs, to);
      case 3:
        return copy_small<3>(row, xs, to);
      case 4:
        return copy_small<4>(row, xs, to);
      case 12:
        return copy_small<12>(row, xs, to);
      default:
        for (const std::int64_t x : xs) {
          std::memcpy(to, row + x * pixel, static_cast<std::size_t>(pixel));
          to += pixel;
        }
    }
  }

  const ResizeMode mode_;
};

class ResizeNearestGrad : public Kernel {
 public:
  explicit ResizeNearestGrad(const ResizeMode& mode) : mode_(mode) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(const ResizeMode mode, ResizeMode::of(init));
    return std::unique_ptr<Kernel>(std::make_unique<ResizeNearestGrad>(mode));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& grads = ctx.input(0);
    if (grads.rank() != 4) return invalid_argument("grads must be 4-dimensional, got ", grads.shape());
    ResizeSizes s;
    TUTTI_RETURN_IF_ERROR(internal::read_image_size(ctx.input(1), "size", &s.in_height, &s.in_width));
    s.batch = grads.dim(0);
    s.out_height = grads.dim(1);
    s.out_width = grads.dim(2);
    s.channels = grads.dim(3);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                           Shape::create(std::vector<std::int64_t>{s.batch, s.in_height, s.in_width, s.channels}));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    const DType wide = compute_dtype(grads.dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor from, widened(ctx, grads, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
    std::memset(to.raw(), 0, to.bytes());
    if (grads.num_elements() > 0) {
      const std::vector<std::int64_t> ys = nearest_list(mode_, s.in_height, s.out_height);
      const std::vector<std::int64_t> xs = nearest_list(mode_, s.in_width, s.out_width);
      switch (wide) {
        case DType::kFloat:
          add_all<float>(from, s, ys, xs, to);
          break;
        case DType::kDouble:
          add_all<double>(from, s, ys, xs, to);
          break;
        case DType::kInt32:
          add_all<std::int32_t>(from, s, ys, xs, to);
          break;
        case DType::kInt64:
          add_all<std::int64_t>(from, s, ys, xs, to);
          break;
        default:
          return unimplemented("gradients of images of ", dtype_name(grads.dtype()));
      }
    }
    narrow_into(to, *out);
    return {};
  }

 private:
  template <typename T>
  static void add_all(const Tensor& grads, const ResizeSizes& s, const std::vector<std::int64_t>& ys,
                      const std::vector<std::int64_t>& xs, Tensor& to) {
    const T* from = grads.data<T>();
    for (std::int64_t b = 0; b < s.batch; ++b) {
      T* image = to.data<T>() + b * s.in_height * s.in_row();
      for (const std::int64_t y : ys) {
        for (const std::int64_t x : xs) {
          T* pixel = image + y * s.in_row() + x * s.channels;
          for (std::int64_t c = 0; c < s.channels; ++c) pixel[c] = add_wrapping<T>(pixel[c], *from++);
        }
      }
    }
  }

  const ResizeMode mode_;
};

}  // namespace

KernelFactory resize_nearest_kernel() { return kernel_of<ResizeNearest>(); }
KernelFactory resize_nearest_grad_kernel() { return kernel_of<ResizeNearestGrad>(); }

}  // namespace tutti::cpu
