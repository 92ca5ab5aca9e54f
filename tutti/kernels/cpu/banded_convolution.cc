// Float convolutions by products of unfolded windows, so many places at a time that the windows stay in the cache.
// Where oneDNN has only vectors of 8 floats, its direct kernels for NHWC reach half of what the core can multiply, its
// plain product nine tenths. Measured on AVX2 over 8 images, ms of oneDNN and in bands: the filter's gradient of 3x3
// over 56x56x64 42 and 22, over 7x7x512 33 and 22, of 1x1 over 14x14x256->1024 19 and 13; the output of 3x3 over
// 28x28x128 37 and 21. The input's gradient has nothing to gain, nor have outputs of few channels or of 1x1.
#include <algorithm>

#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/cpu/internal/onednn.h"

namespace tutti::cpu::internal {
namespace {

// Of a band: enough that packing the filter for its product does not show, and memory for its windows.
constexpr std::int64_t kMostBandPlaces = 512;
constexpr std::int64_t kLeastBandPlaces = 64;
constexpr std::int64_t kBandFloats = std::int64_t{1} << 21;

// Rows as long as a multiple of this fall on the same few places of the cache when they are packed for the product.
constexpr std::int64_t kClashingFloats = 128;
constexpr std::int64_t kApartFloats = 16;
// The same of filters, which are long and packed once a band: shorter rows do not show.
constexpr std::int64_t kClashingFilterFloats = 512;

// From so many on, outputs are faster in bands.
constexpr std::int64_t kManyChannels = 64;
// Shorter windows are copied for longer than they are multiplied.
constexpr std::int64_t kLongWindow = 64;

std::int64_t window_floats(const ConvShape& s) { return s.window_elements() * s.in_channels; }

std::int64_t band_places(const ConvShape& s) {
  const std::int64_t fitting = std::clamp(kBandFloats / window_floats(s), kLeastBandPlaces, kMostBandPlaces);
  return std::min(fitting, s.batch * s.places());
}

// One row of a window: its pixels inside of the image, zeros around them.
void unfold_row(const ConvShape& s, const float* row, std::int64_t left, float* to) {
  const WindowAxis& columns = s.columns;
  const auto floats = [&](std::int64_t pixels) { return static_cast<std::size_t>(pixels * s.in_channels); };
  if (row == nullptr) {
    std::fill_n(to, floats(columns.kernel), 0.0f);
    return;
  }
  if (columns.dilation == 1) {
    const std::int64_t first = std::clamp<std::int64_t>(-left, 0, columns.kernel);
    const std::int64_t last = std::clamp<std::int64_t>(columns.in - left, first, columns.kernel);
    std::fill_n(to, floats(first), 0.0f);
    if (last > first) std::copy_n(row + (left + first) * s.in_channels, floats(last - first), to + floats(first));
    std::fill_n(to + floats(last), floats(columns.kernel - last), 0.0f);
    return;
  }
  for (std::int64_t k = 0; k < columns.kernel; ++k, to += s.in_channels) {
    const std::int64_t c = left + k * columns.dilation;
    const bool inside = c >= 0 && c < columns.in;
    if (inside) std::copy_n(row + c * s.in_channels, floats(1), to);
    if (!inside) std::fill_n(to, floats(1), 0.0f);
  }
}

// A matrix of the product, its rows `stride` floats apart.
struct Rows {
  const float* data;
  std::int64_t stride;
};

std::int64_t stride_of(std::int64_t floats, std::int64_t clashing) {
  return floats % clashing == 0 ? floats + kApartFloats : floats;
}

// `rows` as they lie, or a copy in `room`, if they would clash.
Rows apart(const float* data, std::int64_t rows, std::int64_t floats, std::int64_t clashing, float* room) {
  const std::int64_t stride = stride_of(floats, clashing);
  if (stride == floats) return {data, floats};
  for (std::int64_t i = 0; i < rows; ++i) std::copy_n(data + i * floats, floats, room + i * stride);
  return {room, stride};
}

// c = op(a) b, or added to c, with the rows of c beside each other.
Status multiply_band(bool transpose, std::int64_t m, std::int64_t n, std::int64_t k, Rows a, Rows b, bool adds,
                     float* c) {
  const dnnl_status_t status = dnnl_sgemm(transpose ? 'T' : 'N', 'N', m, n, k, 1.0f, a.data, a.stride, b.data, b.stride,
                                          adds ? 1.0f : 0.0f, c, n);
  if (status == dnnl_success) return {};
  return internal_error("oneDNN failed with status ", static_cast<int>(status), " on the product of ", m, "x", k,
                        " and ", k, "x", n);
}

}  // namespace

void unfold_windows(const ConvShape& s, const float* input, std::int64_t begin, std::int64_t end, float* windows,
                    std::int64_t stride) {
  for (std::int64_t place = begin; place < end; ++place, windows += stride) {
    const float* image = input + place / s.places() * s.rows.in * s.columns.in * s.in_channels;
    const std::int64_t top = s.rows.start(place / s.columns.out % s.rows.out);
    const std::int64_t left = s.columns.start(place % s.columns.out);
    for (std::int64_t k = 0; k < s.rows.kernel; ++k) {
      const std::int64_t r = top + k * s.rows.dilation;
      const bool inside = r >= 0 && r < s.rows.in;
      unfold_row(s, inside ? image + r * s.columns.in * s.in_channels : nullptr, left,
                 windows + k * s.columns.kernel * s.in_channels);
    }
  }
}

bool prefers_bands(ConvResult result, const ConvShape& s) {
  if (s.volumes || s.channels_first || s.groups != 1) return false;
  const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
  if (isa != dnnl::cpu_isa::avx2 && isa != dnnl::cpu_isa::avx2_vnni) return false;
  if (result == ConvResult::kOutput) return s.in_channels >= kManyChannels && s.window_elements() > 1;
  return result == ConvResult::kFilter && window_floats(s) >= kLongWindow;
}

Status banded_convolution(ConvResult result, const ConvShape& s, const ConvArrays& arrays, Allocator& allocator) {
  const float* const input = static_cast<const float*>(arrays.input);
  float* const filter = static_cast<float*>(arrays.filter);
  const float* const bias = static_cast<const float*>(arrays.bias);
  const bool makes_filter = result == ConvResult::kFilter;
  const std::int64_t places = s.batch * s.places(), window = window_floats(s), outputs = s.out_channels;
  const std::int64_t band = band_places(s);
  const std::int64_t window_stride = stride_of(window, kClashingFloats);
  // Of the other operand, where it is copied: a band of the output's gradient, or the filter.
  const std::int64_t other_room =
      makes_filter ? band * stride_of(outputs, kClashingFloats) : window * stride_of(outputs, kClashingFilterFloats);
  const std::size_t bytes = static_cast<std::size_t>(band * window_stride + other_room) * sizeof(float);
  const BufferPtr room = allocator.allocate(bytes);
  if (!room) return resource_exhausted("convolution: no memory for ", bytes, " bytes of windows");
  float* const windows = static_cast<float*>(room->data());
  float* const other = windows + band * window_stride;
  const onednn::StayOnThisThread alone;
  Rows filters{filter, outputs};
  if (!makes_filter) filters = apart(filter, window, outputs, kClashingFilterFloats, other);
  for (std::int64_t begin = 0; begin < places; begin += band) {
    const std::int64_t count = std::min(band, places - begin);
    unfold_windows(s, input, begin, begin + count, windows, window_stride);
    float* const output = static_cast<float*>(arrays.output) + begin * outputs;
    if (makes_filter) {
      const Rows grads = apart(output, count, outputs, kClashingFloats, other);
      TUTTI_RETURN_IF_ERROR(
          multiply_band(true, window, outputs, count, {windows, window_stride}, grads, begin > 0, filter));
      continue;
    }
    for (std::int64_t i = 0; bias != nullptr && i < count; ++i) std::copy_n(bias, outputs, output + i * outputs);
    TUTTI_RETURN_IF_ERROR(
        multiply_band(false, count, outputs, window, {windows, window_stride}, filters, bias != nullptr, output));
  }
  return {};
}

}  // namespace tutti::cpu::internal
