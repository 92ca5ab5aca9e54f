#include "tutti/kernels/cpu/patches.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/patch_window.h"

namespace tutti::cpu {
namespace {

// Calls fn(place of the pixel in the images or -1, place of the patch's part), in pixels.
template <typename Fn>
void for_pixels(const PatchWindow& w, std::int64_t batch, std::int64_t out_row, const Fn& fn) {
  const std::int64_t per_patch = w.rows.kernel * w.columns.kernel;
  for (std::int64_t out_column = 0; out_column < w.columns.out; ++out_column) {
    const std::int64_t patch = ((batch * w.rows.out + out_row) * w.columns.out + out_column) * per_patch;
    for (std::int64_t i = 0; i < w.rows.kernel; ++i) {
      const std::int64_t y = w.rows.start(out_row) + i * w.rows.dilation;
      for (std::int64_t j = 0; j < w.columns.kernel; ++j) {
        const std::int64_t x = w.columns.start(out_column) + j * w.columns.dilation;
        const bool inside = y >= 0 && y < w.rows.in && x >= 0 && x < w.columns.in;
        const std::int64_t pixel = inside ? (batch * w.rows.in + y) * w.columns.in + x : -1;
        fn(pixel, patch + i * w.columns.kernel + j);
      }
    }
  }
}

class PatchKernel : public Kernel {
 public:
  PatchKernel(const WindowAttrs& attrs, const std::array<std::int64_t, 2>& sizes) : attrs_(attrs), sizes_(sizes) {}

 protected:
  Result<PatchWindow> window_over(const Shape& images) const { return patch_window(attrs_, sizes_, images); }

 private:
  const WindowAttrs attrs_;
  const std::array<std::int64_t, 2> sizes_;
};

class ExtractImagePatches : public PatchKernel {
 public:
  using PatchKernel::PatchKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& images = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const PatchWindow w, window_over(images.shape()));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, w.patches_shape());
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (shape.num_elements() == 0) return {};
    const std::int64_t depth = w.depth;
    const std::int64_t per_row = shape.num_elements() / (w.batch * w.rows.out);
    with_element(images.dtype(), [&]<typename E>(const E&) {
      const E* from = static_cast<const E*>(images.raw());
      E* to = static_cast<E*>(out->raw());
      parallel_for(ctx.team(), w.batch * w.rows.out, std::max<std::int64_t>(1, kElementGrain / per_row),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) {
                       for_pixels(w, row / w.rows.out, row % w.rows.out, [&](std::int64_t pixel, std::int64_t part) {
                         if (pixel < 0) {
                           std::fill_n(to + part * depth, depth, E());
                         } else {
                           std::copy_n(from + pixel * depth, depth, to + part * depth);
                         }
                       });
                     }
                   });
    });
    return {};
  }
};

class ExtractImagePatchesGrad : public PatchKernel {
 public:
  using PatchKernel::PatchKernel;

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape images, read_shape(ctx.input(0), "input_sizes"));
    const Tensor& grad = ctx.input(1);
    TUTTI_ASSIGN_OR_RETURN(const PatchWindow w, window_over(images));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, w.patches_shape());
    if (grad.shape() != shape) return invalid_argument("the gradient is of shape ", grad.shape(), ", not ", shape);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, images));
    zero_elements(out->dtype(), out->raw(), out->num_elements());
    if (shape.num_elements() == 0 || images.num_elements() == 0) return {};
    return with_number(
        grad.dtype(),
        [&]<typename T>(T) -> Status {
          const T* from = grad.data<T>();
          T* to = out->data<T>();
          // Images share nothing.
          parallel_for(ctx.team(), w.batch, 1, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t row = begin * w.rows.out; row < end * w.rows.out; ++row) {
              for_pixels(w, row / w.rows.out, row % w.rows.out, [&](std::int64_t pixel, std::int64_t part) {
                for (std::int64_t c = 0; pixel >= 0 && c < w.depth; ++c) {
                  T& sum = to[pixel * w.depth + c];
                  sum = add_wrapping(sum, from[part * w.depth + c]);
                }
              });
            }
          });
          return {};
        },
        [&]() -> Status { return unimplemented("no sums of ", dtype_name(grad.dtype())); });
  }
};

template <typename K>
KernelFactory patch_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    WindowAttrs attrs;
    TUTTI_ASSIGN_OR_RETURN(const auto sizes, read_patch_attrs(init.attrs, &attrs));
    return std::unique_ptr<Kernel>(std::make_unique<K>(attrs, sizes));
  };
}

}  // namespace

KernelFactory extract_image_patches_kernel() { return patch_kernel<ExtractImagePatches>(); }
KernelFactory extract_image_patches_grad_kernel() { return patch_kernel<ExtractImagePatchesGrad>(); }

}  // namespace tutti::cpu
