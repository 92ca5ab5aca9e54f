#include "tutti/kernels/cpu/internal/resize_grid.h"

#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu::internal {

namespace {

constexpr std::int64_t kMaxSide = std::int64_t{1} << 31;

bool is_too_large(std::int64_t height, std::int64_t width) { return height >= kMaxSide || width >= kMaxSide; }

}  // namespace

Result<ResizeMode> ResizeMode::of(const KernelInit& init) {
  ResizeMode mode;
  mode.align_corners = init.attr<bool>("align_corners");
  if (init.attrs.find("half_pixel_centers") != init.attrs.end()) {
    mode.half_pixel_centers = init.attr<bool>("half_pixel_centers");
  }
  if (mode.align_corners && mode.half_pixel_centers) {
    return invalid_argument(init.op, ": If half_pixel_centers is True, align_corners must be False.");
  }
  return mode;
}

Status read_image_size(const Tensor& size, std::string_view name, std::int64_t* height, std::int64_t* width) {
  if (size.rank() != 1 || size.dim(0) != 2) {
    return invalid_argument(name, " must be a vector of height and width, got shape ", size.shape());
  }
  *height = size.data<std::int32_t>()[0];
  *width = size.data<std::int32_t>()[1];
  if (*height <= 0 || *width <= 0) {
    return invalid_argument("output dimensions must be positive, got ", name, " [", *height, ",", *width, "]");
  }
  return {};
}

Result<ResizeSizes> resize_sizes(const Tensor& images, const Tensor& size) {
  ResizeSizes s;
  if (images.rank() != 4) return invalid_argument("input must be 4-dimensional, got ", images.shape());
  TUTTI_RETURN_IF_ERROR(read_image_size(size, "size", &s.out_height, &s.out_width));
  s.batch = images.dim(0);
  s.in_height = images.dim(1);
  s.in_width = images.dim(2);
  s.channels = images.dim(3);
  if (s.in_height == 0 || s.in_width == 0) {
    return invalid_argument("input image must be of non-zero size, got ", images.shape());
  }
  if (is_too_large(s.in_height, s.in_width)) {
    return invalid_argument("input sizes must be between 0 and max int32, got ", images.shape());
  }
  return s;
}

Status check_row_work(const ResizeSizes& s, std::int64_t rows) {
  constexpr double kFew = 1 << 12, kQuick = 1ll << 36;
  const double images = static_cast<double>(s.batch);
  const double work = images * static_cast<double>(rows) * static_cast<double>(s.in_row());
  const double pixels = images * (static_cast<double>(s.in_height) * static_cast<double>(s.in_row()) +
                                  static_cast<double>(s.out_height) * static_cast<double>(s.out_row()));
  if (work <= kQuick || work <= kFew * pixels) return {};
  return resource_exhausted("resizing ", s.in_height, " by ", s.in_width, " pixels to ", s.out_height, " by ",
                            s.out_width, " would take ", work, " steps");
}

Result<Tensor*> allocate_resized(KernelContext& ctx, const ResizeSizes& s) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                         Shape::create(std::vector<std::int64_t>{s.batch, s.out_height, s.out_width, s.channels}));
  return ctx.allocate_output(0, shape);
}

Result<ResizeSizes> resize_grad_sizes(const Tensor& grads, const Tensor& original) {
  if (grads.rank() != 4) return invalid_argument("input_grad must be 4-dimensional, got ", grads.shape());
  if (original.rank() != 4) return invalid_argument("original_image must be 4-dimensional, got ", original.shape());
  const ResizeSizes s{.batch = grads.dim(0),
                      .in_height = original.dim(1),
                      .in_width = original.dim(2),
                      .out_height = grads.dim(1),
                      .out_width = grads.dim(2),
                      .channels = grads.dim(3)};
  if (original.dim(0) != s.batch || original.dim(3) != s.channels) {
    return invalid_argument("grads ", grads.shape(), " and original_image ", original.shape(),
                            " differ in their batches or channels");
  }
  if (is_too_large(s.in_height, s.in_width) || is_too_large(s.out_height, s.out_width)) {
    return invalid_argument("sizes must be between 0 and max int32, got ", grads.shape(), " and ", original.shape());
  }
  if (grads.num_elements() > 0 && original.num_elements() == 0) {
    return invalid_argument("original_image must be of non-zero size, got ", original.shape());
  }
  return s;
}

std::vector<LinearTap> linear_taps(const ResizeMode& mode, std::int64_t in, std::int64_t out) {
  const float scale = mode.scale(in, out);
  std::vector<LinearTap> taps(static_cast<std::size_t>(out));
  for (std::int64_t i = 0; i < out; ++i) {
    const float at = mode.source(i, scale);
    const float below = std::floor(at);
    taps[static_cast<std::size_t>(i)] = {
        .lower = std::clamp<std::int64_t>(static_cast<std::int64_t>(below), 0, in - 1),
        .upper = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::ceil(at)), 0, in - 1),
        .share = at - below};
  }
  return taps;
}

}  // namespace tutti::cpu::internal
