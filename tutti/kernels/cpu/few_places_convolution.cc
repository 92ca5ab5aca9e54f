// Float convolutions with few places: the last layers of a deep network, whose images are small and whose filters are
// large. oneDNN reorders the filter for every call, which then costs more than the arithmetic. As products of the
// windows of the whole batch the filter is used as it lies: measured on AVX-512 with 64 places, 1x1 of 512 to 2048
// channels takes a third of the time, in all three directions. How far up it pays depends on the processor: up to 256
// places on an AMD Zen 4, further on Zen 5, which multiplies twice as much while it reorders. There ResNet-50's steps
// are 2 to 9 % faster with these limits than with 128 places (64x64 and 224x224, one and two threads).
#include <algorithm>
#include <array>

#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/cpu/gemm.h"

namespace tutti::cpu::internal {
namespace {

constexpr std::int64_t kFewPlaces = 400;
constexpr std::int64_t kFewPixels = 1600;       // where windows are pixels, which need not be copied
constexpr std::int64_t kLargeFilter = 1 << 16;  // elements; what a smaller one costs to reorder does not matter

std::int64_t places_of(const ConvShape& s) { return s.batch * s.rows.out * s.columns.out; }
std::int64_t window_of(const ConvShape& s) { return s.rows.kernel * s.columns.kernel * s.in_channels; }

// Every window is a pixel, and every pixel a window.
bool is_pointwise(const ConvShape& s) {
  const auto plain = [](const WindowAxis& a) {
    return a.kernel == 1 && a.stride == 1 && a.in == a.out && a.start(0) == 0;
  };
  return plain(s.rows) && plain(s.columns);
}

Result<Tensor> room_for_windows(const ConvShape& s, Allocator& allocator) {
  const std::array<std::int64_t, 2> dims{places_of(s), window_of(s)};
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  return Tensor::create(DType::kFloat, shape, allocator);
}

void fold(const ConvShape& s, const float* windows, float* input) {
  std::fill_n(input, s.input_elements(), 0.0f);
  for (std::int64_t place = 0; place < places_of(s); ++place) {
    float* const image = input + place / s.places() * s.rows.in * s.columns.in * s.in_channels;
    const std::int64_t top = s.rows.start(place / s.columns.out % s.rows.out);
    const std::int64_t left = s.columns.start(place % s.columns.out);
    for (std::int64_t kr = 0; kr < s.rows.kernel; ++kr) {
      const std::int64_t r = top + kr * s.rows.dilation;
      for (std::int64_t kc = 0; kc < s.columns.kernel; ++kc, windows += s.in_channels) {
        const std::int64_t c = left + kc * s.columns.dilation;
        if (r < 0 || r >= s.rows.in || c < 0 || c >= s.columns.in) continue;
        float* const pixel = image + (r * s.columns.in + c) * s.in_channels;
        for (std::int64_t i = 0; i < s.in_channels; ++i) pixel[i] += windows[i];
      }
    }
  }
}

}  // namespace

bool has_few_places(const ConvShape& s) {
  const bool images = !s.volumes && !s.channels_first && s.groups == 1;
  return images && places_of(s) <= (is_pointwise(s) ? kFewPixels : kFewPlaces) && s.filter_elements() >= kLargeFilter;
}

Status few_places_convolution(ConvResult result, const ConvShape& s, const ConvArrays& arrays, Team& team,
                              Allocator& allocator) {
  float* const input = static_cast<float*>(arrays.input);
  float* const filter = static_cast<float*>(arrays.filter);
  float* const output = static_cast<float*>(arrays.output);
  Tensor room;
  float* windows = input;
  if (!is_pointwise(s)) {
    TUTTI_ASSIGN_OR_RETURN(room, room_for_windows(s, allocator));
    windows = room.data<float>();
    if (result != ConvResult::kInput) unfold_windows(s, input, 0, places_of(s), windows, window_of(s));
  }
  const std::int64_t places = places_of(s), window = window_of(s);
  if (result == ConvResult::kOutput) {
    return gemm<float>({.m = places, .n = s.out_channels, .k = window}, windows, filter, output, team, allocator);
  }
  if (result == ConvResult::kFilter) {
    return gemm<float>({.m = window, .n = s.out_channels, .k = places, .transpose_a = true}, windows, output, filter,
                       team, allocator);
  }
  TUTTI_RETURN_IF_ERROR(gemm<float>({.m = places, .n = window, .k = s.out_channels, .transpose_b = true}, output,
                                    filter, windows, team, allocator));
  if (windows != input) fold(s, windows, input);
  return {};
}

}  // namespace tutti::cpu::internal
