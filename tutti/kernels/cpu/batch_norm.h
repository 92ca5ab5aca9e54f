// Batch normalisation over all dimensions but the channels, and its gradient.
#pragma once

#include <cstdint>

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// FusedBatchNorm, V2, V3. Inputs x, scale, offset, mean, variance.
KernelFactory batch_norm_kernel();
// FusedBatchNormGrad, V2, V3. Inputs y_backprop, x, scale, and mean and variance in the reserves.
KernelFactory batch_norm_grad_kernel();

namespace internal {
// Sums over elements of one channel, as numbers that can be put together: of values, and of squares of differences from
// their mean.
struct ChannelMoments {
  double count = 0;
  double mean = 0;
  double squares = 0;
  void add(const ChannelMoments& other);
};
// Of the gradients, and of gradients times (x - mean).
struct ChannelGradSums {
  double grad = 0;
  double product = 0;
};

// Loops on float. "rows" have all channels side by side, "planes" are `n` elements of one channel.
struct BatchNormLoops {
  // REQUIRES: `to` is new.
  void (*row_moments)(const float* x, std::int64_t rows, std::int64_t channels, float* room, ChannelMoments* to);
  // y = (x - mean) * factor + offset
  void (*normalise_rows)(const float* x, std::int64_t rows, std::int64_t channels, const float* mean,
                         const float* factor, const float* offset, float* y);
  void (*row_grad_sums)(const float* dy, const float* x, std::int64_t rows, std::int64_t channels, const float* mean,
                        float* room, ChannelGradSums* to);
  // dx = factor * (dy - shift - (x - mean) * slope)
  void (*grad_rows)(const float* dy, const float* x, std::int64_t rows, std::int64_t channels, const float* mean,
                    const float* factor, const float* shift, const float* slope, float* dx);
  ChannelMoments (*plane_moments)(const float* x, std::int64_t n);
  void (*normalise_plane)(const float* x, std::int64_t n, float mean, float factor, float offset, float* y);
  ChannelGradSums (*plane_grad_sums)(const float* dy, const float* x, std::int64_t n, float mean);
  void (*grad_plane)(const float* dy, const float* x, std::int64_t n, float mean, float factor, float shift,
                     float slope, float* dx);
};
// Floats that row_moments and row_grad_sums want in `room` for each channel.
inline constexpr std::int64_t kRoomPerChannel = 2;
BatchNormLoops find_batch_norm_loops();
}  // namespace internal

}  // namespace tutti::cpu
