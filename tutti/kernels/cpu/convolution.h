// Convolutions of plain arrays, and their derivatives.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tutti/core/allocator.h"
#include "tutti/core/dtype.h"
#include "tutti/core/status.h"
#include "tutti/core/team.h"
#include "tutti/kernels/cpu/window.h"

namespace tutti::cpu {

// Cross-correlation of images [batch, rows, columns, in_channels] (channels second where channels_first) with a filter
// [rows, columns, in_channels / groups, out_channels]. Channels fall into `groups`: output channels of one group see
// the input channels of that group only. A depthwise convolution has as many groups as input channels. Volumes have a
// further dimension before the rows: [batch, planes, rows, columns, in_channels], and so has their filter.
struct ConvShape {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t groups = 1;
  WindowAxis rows;
  WindowAxis columns;
  bool channels_first = false;
  bool volumes = false;
  WindowAxis planes{.in = 1, .out = 1};  // as it is here, of images
  bool operator==(const ConvShape&) const = default;

  std::int64_t input_elements() const {
    return count_elements(count_elements(batch, planes.in, rows.in), columns.in, in_channels);
  }
  std::int64_t output_elements() const {
    return count_elements(count_elements(batch, planes.out, rows.out), columns.out, out_channels);
  }
  std::int64_t filter_elements() const { return count_elements(window_elements(), group_inputs(), out_channels); }
  std::int64_t window_elements() const { return count_elements(planes.kernel, rows.kernel, columns.kernel); }
  std::int64_t places() const { return count_elements(planes.out, rows.out, columns.out); }
  std::int64_t group_inputs() const { return in_channels / groups; }
  std::int64_t group_outputs() const { return out_channels / groups; }
  std::string to_string() const;
};

// What is computed from the other two.
enum class ConvResult { kOutput, kInput, kFilter };

struct ConvArrays {
  void* input = nullptr;
  void* filter = nullptr;
  void* output = nullptr;
  const void* bias = nullptr;  // of a biased convolution: added to each output channel
};

// Convolutions of one dtype (kFloats or int32) and one direction, keeping oneDNN's primitives by shape. Thread-safe.
class Convolution {
 public:
  // REQUIRES: of the biased, only outputs in float, channels last.
  Convolution(DType dtype, ConvResult result, bool biased = false);
  ~Convolution();

  // Writes the array of `result`, whatever it held. Dimensions may be 0. REQUIRES: element counts fit.
  Status run(const ConvShape& shape, const ConvArrays& arrays, Team& team, Allocator& allocator) const;

 private:
  Status run_widened(const ConvShape& shape, const ConvArrays& arrays, Team& team, Allocator& allocator) const;
  struct FloatCache;
  const DType dtype_;
  const ConvResult result_;
  const bool biased_;
  std::unique_ptr<FloatCache> cache_;
};

namespace internal {
// Float convolutions on oneDNN. Thread-safe. REQUIRES: no dimension of 0.
class OneDnnConvolutions {
 public:
  OneDnnConvolutions(ConvResult result, bool biased);
  ~OneDnnConvolutions();
  Status run(const ConvShape& shape, const ConvArrays& arrays, Team& team, Allocator& allocator);
  // Name of oneDNN's implementation, for tests: nothing with "ref" belongs on a hot path.
  static std::string implementation(ConvResult result, bool biased, const ConvShape& shape);

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

// Float convolutions of images of few windows with a large filter, by products of the windows of the whole batch.
bool has_few_places(const ConvShape& shape);
// REQUIRES: has_few_places(shape), no dimension of 0.
Status few_places_convolution(ConvResult result, const ConvShape& shape, const ConvArrays& arrays, Team& team,
                              Allocator& allocator);

// The windows of places [begin, end) of the batch, one every `stride` floats, each row by row with all channels; zeros
// where there is padding. REQUIRES: images with channels last, in one group.
void unfold_windows(const ConvShape& shape, const float* input, std::int64_t begin, std::int64_t end, float* windows,
                    std::int64_t stride);

// Whether this machine computes that result faster in bands.
bool prefers_bands(ConvResult result, const ConvShape& shape);
// Outputs (biased where there is a bias) and filters of float images, on the calling thread. REQUIRES: channels last,
// one group, no dimension of 0.
Status banded_convolution(ConvResult result, const ConvShape& shape, const ConvArrays& arrays, Allocator& allocator);

// By products of unfolded windows, for T of double and int32. REQUIRES: no dimension of 0.
template <typename T>
Status unfolded_convolution(ConvResult result, const ConvShape& shape, const T* input, const T* filter, const T* output,
                            T* to, Team& team, Allocator& allocator);
}  // namespace internal

}  // namespace tutti::cpu
