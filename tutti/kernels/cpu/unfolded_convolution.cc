// Convolutions as matrix products: the windows of an image are unfolded into a matrix, one window a row. For the types
// that oneDNN does not have.
#include <algorithm>
#include <type_traits>

#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/cpu/gemm.h"

namespace tutti::cpu::internal {
namespace {

// Integers add as unsigned, which wraps instead of being undefined.
template <typename T>
void add_to(T& to, T value) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    to = static_cast<T>(static_cast<U>(to) + static_cast<U>(value));
  } else {
    to += value;
  }
}

// One image and one group at a time, all arrays dense.
template <typename T>
class Unfolded {
 public:
  Unfolded(const ConvShape& shape, Team& team, Allocator& allocator)
      : s_(shape),
        team_(team),
        allocator_(allocator),
        places_(shape.places()),
        window_(shape.window_elements() * shape.group_inputs()) {}

  Status run(ConvResult result, const T* input, const T* filter, const T* output, T* to) {
    TUTTI_ASSIGN_OR_RETURN(windows_, room(places_ * window_));
    TUTTI_ASSIGN_OR_RETURN(filter_, room(window_ * s_.group_outputs()));
    TUTTI_ASSIGN_OR_RETURN(output_, room(places_ * s_.group_outputs()));
    if (result == ConvResult::kInput) std::fill_n(to, s_.input_elements(), T{});
    if (result == ConvResult::kFilter) std::fill_n(to, s_.filter_elements(), T{});
    for (std::int64_t image = 0; image < s_.batch; ++image) {
      for (std::int64_t group = 0; group < s_.groups; ++group) {
        if (result == ConvResult::kOutput) TUTTI_RETURN_IF_ERROR(make_output(image, group, input, filter, to));
        if (result == ConvResult::kInput) TUTTI_RETURN_IF_ERROR(make_input(image, group, filter, output, to));
        if (result == ConvResult::kFilter) TUTTI_RETURN_IF_ERROR(make_filter(image, group, input, output, to));
      }
    }
    return {};
  }

 private:
  Result<Tensor> room(std::int64_t count) const {
    TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::create(std::array{count}));
    return Tensor::create(dtype_of<T>(), shape, allocator_);
  }

  Status make_output(std::int64_t image, std::int64_t group, const T* input, const T* filter, T* to) {
    T* windows = windows_.data<T>();
    for_windows(image, group,
                [&](std::int64_t cell, std::int64_t at, bool inside) { windows[cell] = inside ? input[at] : T{}; });
    copy_filter(filter, group);
    TUTTI_RETURN_IF_ERROR(gemm<T>({places_, s_.group_outputs(), window_}, windows, filter_.data<T>(), output_.data<T>(),
                                  team_, allocator_));
    const T* product = output_.data<T>();
    for_outputs(image, group, [&](std::int64_t cell, std::int64_t at) { to[at] = product[cell]; });
    return {};
  }

  Status make_input(std::int64_t image, std::int64_t group, const T* filter, const T* output, T* to) {
    T* grad = output_.data<T>();
    for_outputs(image, group, [&](std::int64_t cell, std::int64_t at) { grad[cell] = output[at]; });
    copy_filter(filter, group);
    const GemmShape product{.m = places_, .n = window_, .k = s_.group_outputs(), .transpose_b = true};
    TUTTI_RETURN_IF_ERROR(gemm<T>(product, grad, filter_.data<T>(), windows_.data<T>(), team_, allocator_));
    const T* windows = windows_.data<T>();
    for_windows(image, group, [&](std::int64_t cell, std::int64_t at, bool inside) {
      if (inside) add_to(to[at], windows[cell]);
    });
    return {};
  }

  Status make_filter(std::int64_t image, std::int64_t group, const T* input, const T* output, T* to) {
    T* windows = windows_.data<T>();
    for_windows(image, group,
                [&](std::int64_t cell, std::int64_t at, bool inside) { windows[cell] = inside ? input[at] : T{}; });
    T* grad = output_.data<T>();
    for_outputs(image, group, [&](std::int64_t cell, std::int64_t at) { grad[cell] = output[at]; });
    const GemmShape product{.m = window_, .n = s_.group_outputs(), .k = places_, .transpose_a = true};
    TUTTI_RETURN_IF_ERROR(gemm<T>(product, windows, grad, filter_.data<T>(), team_, allocator_));
    const T* sum = filter_.data<T>();
    const std::int64_t n = s_.group_outputs();
    for (std::int64_t i = 0; i < window_; ++i) {
      for (std::int64_t o = 0; o < n; ++o) add_to(to[i * s_.out_channels + group * n + o], sum[i * n + o]);
    }
    return {};
  }

  void copy_filter(const T* filter, std::int64_t group) {
    const std::int64_t n = s_.group_outputs();
    T* to = filter_.data<T>();
    for (std::int64_t i = 0; i < window_; ++i) {
      std::copy_n(filter + i * s_.out_channels + group * n, n, to + i * n);
    }
  }

  // Position of channel 0 of a pixel, and the step from channel to channel.
  std::int64_t pixel(std::int64_t image, std::int64_t position, std::int64_t pixels, std::int64_t channels) const {
    return s_.channels_first ? image * channels * pixels + position : (image * pixels + position) * channels;
  }

  // fn(element of the unfolded matrix, element of the input, whether that is no padding)
  template <typename Fn>
  void for_windows(std::int64_t image, std::int64_t group, const Fn& fn) const {
    const std::int64_t pixels = s_.planes.in * s_.rows.in * s_.columns.in;
    const std::int64_t step = s_.channels_first ? pixels : 1;
    std::int64_t cell = 0;
    for_window_pixels([&](std::int64_t position) {
      const bool inside = position >= 0;
      const std::int64_t first = inside ? pixel(image, position, pixels, s_.in_channels) : 0;
      for (std::int64_t i = 0; i < s_.group_inputs(); ++i) {
        fn(cell++, first + (group * s_.group_inputs() + i) * step, inside);
      }
    });
  }

  // fn(position in the input, or -1 in the padding), window by window
  template <typename Fn>
  void for_window_pixels(const Fn& fn) const {
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::int64_t front = s_.planes.start(place / (s_.rows.out * s_.columns.out));
      const std::int64_t top = s_.rows.start(place / s_.columns.out % s_.rows.out);
      const std::int64_t left = s_.columns.start(place % s_.columns.out);
      for (std::int64_t kp = 0; kp < s_.planes.kernel; ++kp) {
        const std::int64_t p = front + kp * s_.planes.dilation;
        for (std::int64_t kr = 0; kr < s_.rows.kernel; ++kr) {
          const std::int64_t r = top + kr * s_.rows.dilation;
          const bool row_inside = p >= 0 && p < s_.planes.in && r >= 0 && r < s_.rows.in;
          for (std::int64_t kc = 0; kc < s_.columns.kernel; ++kc) {
            const std::int64_t c = left + kc * s_.columns.dilation;
            const bool inside = row_inside && c >= 0 && c < s_.columns.in;
            fn(inside ? (p * s_.rows.in + r) * s_.columns.in + c : -1);
          }
        }
      }
    }
  }

  // fn(element of the group's output matrix, element of the output)
  template <typename Fn>
  void for_outputs(std::int64_t image, std::int64_t group, const Fn& fn) const {
    const std::int64_t n = s_.group_outputs();
    const std::int64_t step = s_.channels_first ? places_ : 1;
    for (std::int64_t place = 0; place < places_; ++place) {
      const std::int64_t first = pixel(image, place, places_, s_.out_channels) + group * n * step;
      for (std::int64_t o = 0; o < n; ++o) fn(place * n + o, first + o * step);
    }
  }

  const ConvShape& s_;
  Team& team_;
  Allocator& allocator_;
  const std::int64_t places_;
  const std::int64_t window_;  // elements of one window
  Tensor windows_;             // [places, window]
  Tensor filter_;              // [window, outputs of a group]
  Tensor output_;              // [places, outputs of a group]
};

}  // namespace

template <typename T>
Status unfolded_convolution(ConvResult result, const ConvShape& shape, const T* input, const T* filter, const T* output,
                            T* to, Team& team, Allocator& allocator) {
  std::int64_t unfolded = 0;
  if (__builtin_mul_overflow(shape.places(), shape.filter_elements() / shape.out_channels, &unfolded)) {
    return resource_exhausted("convolution ", shape, ": its windows have too many elements");
  }
  return Unfolded<T>(shape, team, allocator).run(result, input, filter, output, to);
}

template Status unfolded_convolution(ConvResult, const ConvShape&, const double*, const double*, const double*, double*,
                                     Team&, Allocator&);
template Status unfolded_convolution(ConvResult, const ConvShape&, const std::int32_t*, const std::int32_t*,
                                     const std::int32_t*, std::int32_t*, Team&, Allocator&);

}  // namespace tutti::cpu::internal
