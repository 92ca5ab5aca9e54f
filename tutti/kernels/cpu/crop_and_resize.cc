#include "tutti/kernels/cpu/crop_and_resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/internal/resize_grid.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Images, and crops of them.
struct CropSizes {
  std::int64_t batch = 0, height = 0, width = 0, channels = 0;
  std::int64_t boxes = 0, crop_height = 0, crop_width = 0;

  std::int64_t row() const { return width * channels; }
  std::int64_t image() const { return height * row(); }
  std::int64_t crop_row() const { return crop_width * channels; }
  std::int64_t crop() const { return crop_height * crop_row(); }
};

Status set_image(const Tensor& image, CropSizes* s) {
  if (image.rank() != 4) return invalid_argument("input image must be 4-D, got ", image.shape());
  s->batch = image.dim(0);
  s->height = image.dim(1);
  s->width = image.dim(2);
  s->channels = image.dim(3);
  if (s->height > 0 && s->width > 0) return {};
  return invalid_argument("image dimensions must be positive, got ", image.shape());
}

Status set_grads(const Tensor& grads, CropSizes* s) {
  if (grads.rank() != 4) return invalid_argument("grads image must be 4-D, got ", grads.shape());
  s->crop_height = grads.dim(1);
  s->crop_width = grads.dim(2);
  if (s->crop_height <= 0 || s->crop_width <= 0) {
    return invalid_argument("grads dimensions must be positive, got ", grads.shape());
  }
  if (grads.dim(0) != s->boxes) {
    return invalid_argument("boxes and grads have incompatible shape: ", s->boxes, " boxes, grads ", grads.shape());
  }
  if (grads.dim(3) != s->channels) {
    return invalid_argument("image and grads have incompatible depth: ", s->channels, " and grads ", grads.shape());
  }
  return {};
}

Status set_boxes(const Tensor& boxes, const Tensor& box_ind, CropSizes* s) {
  if (box_ind.rank() != 1) return invalid_argument("box_ind must be rank 1 but is shape ", box_ind.shape());
  if (boxes.num_elements() == 0 && box_ind.num_elements() == 0) return {};
  if (boxes.rank() != 2 || boxes.dim(1) != 4) return invalid_argument("boxes must be [n,4], got ", boxes.shape());
  if (box_ind.dim(0) != boxes.dim(0)) {
    return invalid_argument("box_index has incompatible shape: ", box_ind.shape(), " for boxes ", boxes.shape());
  }
  s->boxes = boxes.dim(0);
  return {};
}

Status check_finite(const Tensor& boxes) {
  const auto values = boxes.flat<float>();
  if (std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) return {};
  return invalid_argument("Boxes contains at least one element that is not finite");
}

Status check_indices(const Tensor& box_ind, const CropSizes& s) {
  for (std::int64_t i = 0; i < s.boxes; ++i) {
    const std::int32_t index = box_ind.data<std::int32_t>()[i];
    if (index < 0 || index >= s.batch) {
      return out_of_range("box_index has values outside [0, batch_size): box_index[", i, "] = ", index, ", batch_size ",
                          s.batch);
    }
  }
  return {};
}

// One side of a box laid over one side of an image.
struct CropAxis {
  float first = 0, step = 0;
  std::int64_t last = 0;  // pixel

  CropAxis(float from, float to, std::int64_t size, std::int64_t crop) : last(size - 1) {
    const auto reach = static_cast<float>(last);
    if (crop > 1) {
      step = (to - from) * reach / static_cast<float>(crop - 1);
      first = from * reach;
    } else {
      first = 0.5f * (from + to) * reach;
    }
  }
  float at(std::int64_t i) const { return first + static_cast<float>(i) * step; }
  bool contains(float at) const { return at >= 0 && at <= static_cast<float>(last); }  // no NaN
};

// A place, rounded, as a pixel. From 2^24 on floats are further apart than pixels: the last one's place may have been
// rounded to beyond it.
std::int64_t pixel_at(float whole, std::int64_t last) { return std::min(static_cast<std::int64_t>(whole), last); }

// The pixels around a place that lies in the image.
struct Around {
  std::int64_t low, high;
  float share;
  Around(float at, std::int64_t last)
      : low(pixel_at(std::floor(at), last)), high(pixel_at(std::ceil(at), last)), share(at - static_cast<float>(low)) {}
};

bool is_nearest(const KernelInit& init) { return init.attr<std::string>("method") == "nearest"; }

class CropAndResize : public Kernel {
 public:
  explicit CropAndResize(const KernelInit& init)
      : nearest_(is_nearest(init)), outside_(init.attr<float>("extrapolation_value")) {}

  Status compute(KernelContext& ctx) override {
    CropSizes s;
    TUTTI_RETURN_IF_ERROR(set_image(ctx.input(0), &s));
    TUTTI_RETURN_IF_ERROR(set_boxes(ctx.input(1), ctx.input(2), &s));
    TUTTI_RETURN_IF_ERROR(check_finite(ctx.input(1)));
    TUTTI_RETURN_IF_ERROR(internal::read_image_size(ctx.input(3), "crop_size", &s.crop_height, &s.crop_width));
    TUTTI_RETURN_IF_ERROR(check_indices(ctx.input(2), s));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape,
                           Shape::create(std::vector<std::int64_t>{s.boxes, s.crop_height, s.crop_width, s.channels}));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Tensor image, widened(ctx, ctx.input(0), DType::kFloat));
    const float* boxes = ctx.input(1).data<float>();
    const std::int32_t* index = ctx.input(2).data<std::int32_t>();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 4 / s.crop());
    parallel_for(ctx.team(), s.boxes, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        crop(image.data<float>() + index[i] * s.image(), boxes + 4 * i, s, out->data<float>() + i * s.crop());
      }
    });
    return {};
  }

 private:
  void crop(const float* image, const float* box, const CropSizes& s, float* to) const {
    const CropAxis ys(box[0], box[2], s.height, s.crop_height), xs(box[1], box[3], s.width, s.crop_width);
    for (std::int64_t i = 0; i < s.crop_height; ++i) {
      const float y = ys.at(i);
      for (std::int64_t j = 0; j < s.crop_width; ++j, to += s.channels) {
        const float x = xs.at(j);
        if (!ys.contains(y) || !xs.contains(x)) {
          std::fill_n(to, s.channels, outside_);
        } else if (nearest_) {
          const std::int64_t row = pixel_at(std::round(y), ys.last), column = pixel_at(std::round(x), xs.last);
          std::copy_n(image + row * s.row() + column * s.channels, s.channels, to);
        } else {
          blend(image, Around(y, ys.last), Around(x, xs.last), s, to);
        }
      }
    }
  }
  static void blend(const float* image, const Around& y, const Around& x, const CropSizes& s, float* to) {
    const float* tl = image + y.low * s.row() + x.low * s.channels;
    const float* tr = image + y.low * s.row() + x.high * s.channels;
    const float* bl = image + y.high * s.row() + x.low * s.channels;
    const float* br = image + y.high * s.row() + x.high * s.channels;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const float top = tl[c] + (tr[c] - tl[c]) * x.share;
      const float bottom = bl[c] + (br[c] - bl[c]) * x.share;
      to[c] = top + (bottom - top) * y.share;
    }
  }

  const bool nearest_;
  const float outside_;
};

// Calls fn(box, y, x, i, j) for the crop's pixels that lie in their image, y and x being where.
template <typename Fn>
void for_pixels_inside(const float* boxes, const CropSizes& s, const Fn& fn) {
  for (std::int64_t b = 0; b < s.boxes; ++b) {
    const float* box = boxes + 4 * b;
    const CropAxis ys(box[0], box[2], s.height, s.crop_height), xs(box[1], box[3], s.width, s.crop_width);
    for (std::int64_t i = 0; i < s.crop_height; ++i) {
      if (!ys.contains(ys.at(i))) continue;
      for (std::int64_t j = 0; j < s.crop_width; ++j) {
        if (xs.contains(xs.at(j))) fn(b, ys.at(i), xs.at(j), i, j);
      }
    }
  }
}

class CropGradImage : public Kernel {
 public:
  explicit CropGradImage(const KernelInit& init) : nearest_(is_nearest(init)) {}

  Status compute(KernelContext& ctx) override {
    CropSizes s;
    const Tensor& size = ctx.input(3);
    if (size.rank() != 1 || size.dim(0) != 4) {
      return invalid_argument("image_size must be 1-D with 4 elements, got shape ", size.shape());
    }
    const std::int32_t* dims = size.data<std::int32_t>();
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(std::vector<std::int64_t>(dims, dims + 4)));
    s = {.batch = dims[0], .height = dims[1], .width = dims[2], .channels = dims[3]};
    if (s.height <= 0 || s.width <= 0) return invalid_argument("image dimensions must be positive, got ", shape);
    TUTTI_RETURN_IF_ERROR(set_boxes(ctx.input(1), ctx.input(2), &s));
    TUTTI_RETURN_IF_ERROR(set_grads(ctx.input(0), &s));
    TUTTI_RETURN_IF_ERROR(check_indices(ctx.input(2), s));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const DType wide = out->dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
    std::memset(to.raw(), 0, to.bytes());
    if (wide == DType::kDouble) {
      spread(ctx, s, to.data<double>());
    } else {
      spread(ctx, s, to.data<float>());
    }
    narrow_into(to, *out);
    return {};
  }

 private:
  template <typename T>
  void spread(KernelContext& ctx, const CropSizes& s, T* to) const {
    if (ctx.input(0).num_elements() == 0) return;  // sides without channels may be of any length
    const float* grads = ctx.input(0).data<float>();
    const std::int32_t* index = ctx.input(2).data<std::int32_t>();
    for_pixels_inside(ctx.input(1).data<float>(), s,
                      [&](std::int64_t b, float y, float x, std::int64_t i, std::int64_t j) {
                        const float* grad = grads + b * s.crop() + i * s.crop_row() + j * s.channels;
                        spread_pixel(grad, y, x, s, to + index[b] * s.image());
                      });
  }
  template <typename T>
  void spread_pixel(const float* grad, float at_y, float at_x, const CropSizes& s, T* image) const {
    // In this order, and in float whatever T is: as TensorFlow rounds.
    const auto add = [&](std::int64_t row, std::int64_t column, float wy, float wx) {
      T* pixel = image + row * s.row() + column * s.channels;
      for (std::int64_t c = 0; c < s.channels; ++c) pixel[c] += static_cast<T>(wx * (wy * grad[c]));
    };
    if (nearest_) {
      return add(pixel_at(std::round(at_y), s.height - 1), pixel_at(std::round(at_x), s.width - 1), 1, 1);
    }
    const Around y(at_y, s.height - 1), x(at_x, s.width - 1);
    add(y.low, x.low, 1 - y.share, 1 - x.share);
    add(y.low, x.high, 1 - y.share, x.share);
    add(y.high, x.low, y.share, 1 - x.share);
    add(y.high, x.high, y.share, x.share);
  }

  const bool nearest_;
};

Status crop_grad_boxes(KernelContext& ctx) {
  CropSizes s;
  TUTTI_RETURN_IF_ERROR(set_image(ctx.input(1), &s));
  TUTTI_RETURN_IF_ERROR(set_boxes(ctx.input(2), ctx.input(3), &s));
  TUTTI_RETURN_IF_ERROR(set_grads(ctx.input(0), &s));
  TUTTI_RETURN_IF_ERROR(check_indices(ctx.input(3), s));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{s.boxes, 4}));
  float* to = out->data<float>();
  std::fill_n(to, out->num_elements(), 0.0f);
  if (ctx.input(0).num_elements() == 0) return {};  // sides without channels may be of any length
  TUTTI_ASSIGN_OR_RETURN(const Tensor image, widened(ctx, ctx.input(1), DType::kFloat));
  const float* grads = ctx.input(0).data<float>();
  const std::int32_t* index = ctx.input(3).data<std::int32_t>();
  // How a place moves with the ends of its box: with the first by what is left of the way, with the second by the rest.
  const auto move = [](float grad, std::int64_t i, std::int64_t crop, std::int64_t size, float* first, float* second) {
    const auto reach = static_cast<float>(size - 1);
    const float way = crop > 1 ? static_cast<float>(i) * reach / static_cast<float>(crop - 1) : 0.5f * reach;
    *first += grad * (reach - way);
    *second += grad * way;
  };
  for_pixels_inside(ctx.input(2).data<float>(), s,
                    [&](std::int64_t b, float at_y, float at_x, std::int64_t i, std::int64_t j) {
                      const Around y(at_y, s.height - 1), x(at_x, s.width - 1);
                      const float* base = image.data<float>() + index[b] * s.image();
                      const float* grad = grads + b * s.crop() + i * s.crop_row() + j * s.channels;
                      float dy = 0, dx = 0;
                      for (std::int64_t c = 0; c < s.channels; ++c) {
                        const auto pixel = [&](std::int64_t row, std::int64_t column) {
                          return base[row * s.row() + column * s.channels + c];
                        };
                        const float tl = pixel(y.low, x.low), tr = pixel(y.low, x.high);
                        const float bl = pixel(y.high, x.low), br = pixel(y.high, x.high);
                        dy += grad[c] * ((1 - x.share) * (bl - tl) + x.share * (br - tr));
                        dx += grad[c] * ((1 - y.share) * (tr - tl) + y.share * (br - bl));
                      }
                      move(dy, i, s.crop_height, s.height, to + 4 * b, to + 4 * b + 2);
                      move(dx, j, s.crop_width, s.width, to + 4 * b + 1, to + 4 * b + 3);
                    });
  return {};
}

}  // namespace

KernelFactory crop_and_resize_kernel() { return kernel_of<CropAndResize>(); }
KernelFactory crop_and_resize_grad_image_kernel() { return kernel_of<CropGradImage>(); }
KernelFactory crop_and_resize_grad_boxes_kernel() { return kernel_from(crop_grad_boxes); }

}  // namespace tutti::cpu
