#include "tutti/kernels/cpu/image_color.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

template <typename T>
struct Color {
  T a = 0, b = 0, c = 0;  // red, green, blue; or hue, saturation, value
};

template <typename T>
Color<T> to_hsv(const Color<T>& rgb) {
  const T largest = std::max({rgb.a, rgb.b, rgb.c});
  const T range = largest - std::min({rgb.a, rgb.b, rgb.c});
  Color<T> hsv{0, largest > 0 ? range / largest : T{0}, largest};
  if (!(range > 0)) return hsv;
  const T norm = T{1} / (T{6} * range);
  if (rgb.a == largest) {
    hsv.a = norm * (rgb.b - rgb.c);
  } else if (rgb.b == largest) {
    hsv.a = norm * (rgb.c - rgb.a) + T{2} / T{6};
  } else {
    hsv.a = norm * (rgb.a - rgb.b) + T{4} / T{6};
  }
  if (hsv.a < 0) hsv.a += 1;
  return hsv;
}

// Each colour rises, stays and falls over a third of the circle each: piecewise linear in the hue.
template <typename T>
Color<T> to_rgb(const Color<T>& hsv) {
  const T six = hsv.a * 6;
  const auto unit = [](T x) { return std::clamp(x, T{0}, T{1}); };
  const T red = unit(std::abs(six - 3) - 1), green = unit(2 - std::abs(six - 2)), blue = unit(2 - std::abs(six - 4));
  const auto mix = [&](T share) { return (1 - hsv.b + hsv.b * share) * hsv.c; };
  return {mix(red), mix(green), mix(blue)};
}

template <typename T>
Color<T> load(const T* at) {
  return {at[0], at[1], at[2]};
}
template <typename T>
void store(const Color<T>& color, T* at) {
  at[0] = color.a;
  at[1] = color.b;
  at[2] = color.c;
}

// Calls fn(pixel, out) for every pixel of three channels, in parallel.
template <typename T, typename Fn>
void for_colors(KernelContext& ctx, const Tensor& from, Tensor& to, const Fn& fn) {
  const T* in = from.data<T>();
  T* out = to.data<T>();
  parallel_for(ctx.team(), from.num_elements() / 3, kElementGrain / 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = 3 * begin; i < 3 * end; i += 3) fn(in + i, out + i);
  });
}

// `code` is for images of other than 3 channels: TensorFlow has two.
Status check_colors(const Tensor& images, int min_rank, Code code) {
  if (images.rank() < min_rank) {
    return invalid_argument("input must be at least ", min_rank, "-D, got shape ", images.shape());
  }
  const std::int64_t channels = images.dim(images.rank() - 1);
  if (channels == 3) return {};
  return {code, str_cat("input must have 3 channels but instead has ", channels, " in shape ", images.shape())};
}

Status check_image(const Tensor& images) {
  if (images.rank() >= 3) return {};
  return invalid_argument("input must be at least 3-D, got shape ", images.shape());
}

Result<float> read_factor(const Tensor& factor, std::string_view name) {
  if (factor.rank() != 0) return invalid_argument(name, " must be scalar: ", factor.shape());
  return factor.scalar<float>();
}

// Runs a function of colours in double, or in float for what is smaller.
template <typename Fn>
Status map_colors(KernelContext& ctx, const Fn& fn) {
  const Tensor& images = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, images.shape()));
  const DType wide = images.dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
  TUTTI_ASSIGN_OR_RETURN(const Tensor from, widened(ctx, images, wide));
  TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
  if (wide == DType::kDouble) {
    for_colors<double>(ctx, from, to, [&](const double* in, double* at) { store(fn(load(in)), at); });
  } else {
    for_colors<float>(ctx, from, to, [&](const float* in, float* at) { store(fn(load(in)), at); });
  }
  narrow_into(to, *out);
  return {};
}

// --- The gradient of hue, saturation and value. ---

template <typename T>
T inverse_or_zero(T x) {
  return x == 0 ? T{0} : T{1} / x;
}

// With the largest colour at `max`, the smallest at `min` and the third at `mid`, of which the hue moves by `turn` (1:
// towards `min`'s side of the circle, -1: the other way) as it grows. Of equal colours red comes before green before
// blue as the largest; a colour of zero has no share in the saturation's gradient, and a largest of zero none at all.
template <typename T>
void add_hsv_grad(const T* rgb, const T* grad, T* to) {
  const bool red = rgb[0] >= rgb[2] && rgb[0] >= rgb[1];
  const bool green = !red && rgb[1] > rgb[0] && rgb[1] >= rgb[2];
  const int max = red ? 0 : (green ? 1 : 2);
  const bool red_smallest = rgb[0] < rgb[2] && rgb[0] < rgb[1];
  const bool green_smallest = rgb[1] <= rgb[0] && rgb[1] < rgb[2];
  const int min = red_smallest ? 0 : (green_smallest ? 1 : 2);
  to[0] = to[1] = to[2] = 0;
  to[max] = grad[2];
  if (max == min) return;
  const int mid = 3 - max - min;
  const T top = rgb[max], low = rgb[min], middle = rgb[mid];
  if (top > 0) to[max] += grad[1] * low * inverse_or_zero(top * top);
  if (low > 0) to[min] -= grad[1] * inverse_or_zero(top);
  if (!(top > 0)) return;
  const T range = inverse_or_zero(top - low);
  // The hue is (a constant + turn * (middle - low) / range) / 6.
  const T turn = mid == (max + 1) % 3 ? T{1} : T{-1};
  const T dh = grad[0] * turn / 6;
  to[max] -= dh * (middle - low) * range * range;
  to[mid] += dh * range;
  to[min] += dh * (middle - top) * range * range;
}

}  // namespace

Status rgb_to_hsv(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_colors(ctx.input(0), 1, Code::kFailedPrecondition));
  return map_colors(ctx, [](const auto& color) { return to_hsv(color); });
}

Status hsv_to_rgb(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_colors(ctx.input(0), 1, Code::kFailedPrecondition));
  return map_colors(ctx, [](const auto& color) { return to_rgb(color); });
}

Status rgb_to_hsv_grad(KernelContext& ctx) {
  const Tensor& grads = ctx.input(0);
  const Tensor& images = ctx.input(1);
  TUTTI_RETURN_IF_ERROR(check_colors(images, 1, Code::kFailedPrecondition));
  if (grads.shape() != images.shape()) {
    return invalid_argument("grads ", grads.shape(), " and images ", images.shape(), " must have one shape");
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, images.shape()));
  const DType wide = images.dtype() == DType::kDouble ? DType::kDouble : DType::kFloat;
  TUTTI_ASSIGN_OR_RETURN(const Tensor from, widened(ctx, images, wide));
  TUTTI_ASSIGN_OR_RETURN(const Tensor grad, widened(ctx, grads, wide));
  TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, wide));
  const auto run = [&]<typename T>(T) {
    const T* base = from.data<T>();
    for_colors<T>(ctx, from, to, [&](const T* rgb, T* at) { add_hsv_grad(rgb, grad.data<T>() + (rgb - base), at); });
  };
  wide == DType::kDouble ? run(double{}) : run(float{});
  narrow_into(to, *out);
  return {};
}

Status adjust_contrast(KernelContext& ctx) {
  const Tensor& images = ctx.input(0);
  TUTTI_RETURN_IF_ERROR(check_image(images));
  TUTTI_ASSIGN_OR_RETURN(const float factor, read_factor(ctx.input(1), "contrast_factor"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, images.shape()));
  if (out->num_elements() == 0) return {};
  TUTTI_ASSIGN_OR_RETURN(const Tensor from, widened(ctx, images, DType::kFloat));
  TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, DType::kFloat));
  const int rank = images.rank();
  const std::int64_t channels = images.dim(rank - 1);
  const std::int64_t size = images.dim(rank - 2) * images.dim(rank - 3) * channels;
  parallel_for(ctx.team(), images.num_elements() / size, std::max<std::int64_t>(1, kElementGrain / size),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> mean(static_cast<std::size_t>(channels));
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float* in = from.data<float>() + i * size;
                   float* at = to.data<float>() + i * size;
                   std::fill(mean.begin(), mean.end(), 0.0);
                   for (std::int64_t k = 0; k < size; k += channels) {
                     for (std::int64_t c = 0; c < channels; ++c) {
                       mean[static_cast<std::size_t>(c)] += static_cast<double>(in[k + c]);
                     }
                   }
                   for (double& m : mean) m /= static_cast<double>(size / channels);
                   for (std::int64_t k = 0; k < size; k += channels) {
                     for (std::int64_t c = 0; c < channels; ++c) {
                       const auto m = static_cast<float>(mean[static_cast<std::size_t>(c)]);
                       at[k + c] = (in[k + c] - m) * factor + m;
                     }
                   }
                 }
               });
  narrow_into(to, *out);
  return {};
}

Status adjust_hue(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_image(ctx.input(0)));
  TUTTI_ASSIGN_OR_RETURN(const float delta, read_factor(ctx.input(1), "delta"));
  TUTTI_RETURN_IF_ERROR(check_colors(ctx.input(0), 3, Code::kInvalidArgument));
  return map_colors(ctx, [delta](auto rgb) {
    // By the range instead of the saturation: colours beyond [0, 1] keep theirs.
    using T = decltype(rgb.a);
    const T low = std::min({rgb.a, rgb.b, rgb.c});
    const T range = std::max({rgb.a, rgb.b, rgb.c}) - low;
    T hue = to_hsv(rgb).a + static_cast<T>(delta);
    hue -= std::floor(hue);
    const auto pure = to_rgb(decltype(rgb){hue, T{1}, T{1}});
    return decltype(rgb){low + range * pure.a, low + range * pure.b, low + range * pure.c};
  });
}

Status adjust_saturation(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_image(ctx.input(0)));
  TUTTI_ASSIGN_OR_RETURN(const float scale, read_factor(ctx.input(1), "scale"));
  TUTTI_RETURN_IF_ERROR(check_colors(ctx.input(0), 3, Code::kInvalidArgument));
  return map_colors(ctx, [scale](auto rgb) {
    using T = decltype(rgb.a);
    auto hsv = to_hsv(rgb);
    hsv.b = std::clamp(hsv.b * static_cast<T>(scale), T{0}, T{1});
    return to_rgb(hsv);
  });
}

}  // namespace tutti::cpu
