#include "tutti/kernels/cpu/pool3d.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/pool_window.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/volume_window.h"

namespace tutti::cpu {
namespace {

using internal::Span;

// Windows over a batch of volumes.
struct Pool3dShape {
  std::int64_t batch = 0, channels = 0;
  WindowAxis planes, rows, columns;
  bool channels_first = false;

  std::int64_t in_pixels() const { return planes.in * rows.in * columns.in; }
  std::int64_t out_pixels() const { return planes.out * rows.out * columns.out; }
  // Element of channel 0 of a pixel; the next channel is channel_step further.
  std::int64_t element(std::int64_t volume, std::int64_t pixel, std::int64_t pixels) const {
    return channels_first ? volume * channels * pixels + pixel : (volume * pixels + pixel) * channels;
  }
  std::int64_t channel_step(std::int64_t pixels) const { return channels_first ? pixels : 1; }
};

// One place of the window: elements of channel 0 of its result and of each pixel under it.
struct Place {
  std::int64_t out = 0;
  std::vector<std::int64_t> in;
};

// Calls fn(place) for every place of volumes [begin, end).
template <typename Fn>
void for_pool_places(const Pool3dShape& s, std::int64_t begin, std::int64_t end, const Fn& fn) {
  Place place;
  for (std::int64_t volume = begin; volume < end; ++volume) {
    for (std::int64_t o = 0; o < s.out_pixels(); ++o) {
      const Span planes(s.planes, o / (s.rows.out * s.columns.out));
      const Span rows(s.rows, o / s.columns.out % s.rows.out), columns(s.columns, o % s.columns.out);
      place.out = s.element(volume, o, s.out_pixels());
      place.in.clear();
      for (std::int64_t p = planes.begin; p < planes.end; ++p) {
        for (std::int64_t r = rows.begin; r < rows.end; ++r) {
          for (std::int64_t c = columns.begin; c < columns.end; ++c) {
            place.in.push_back(s.element(volume, (p * s.rows.in + r) * s.columns.in + c, s.in_pixels()));
          }
        }
      }
      fn(place);
    }
  }
}

// The functions of one place. `x` are the volumes or their gradient, `y` the pooled side.
template <typename T>
struct Pools {
  const Pool3dShape& s;
  std::int64_t in_step, out_step;
  explicit Pools(const Pool3dShape& shape)
      : s(shape), in_step(shape.channel_step(shape.in_pixels())), out_step(shape.channel_step(shape.out_pixels())) {}

  void average(const Place& place, const T* x, T* y) const {
    for (std::int64_t c = 0; c < s.channels; ++c) y[place.out + c * out_step] = T{};
    for (const std::int64_t in : place.in) {
      for (std::int64_t c = 0; c < s.channels; ++c) y[place.out + c * out_step] += x[in + c * in_step];
    }
    const T count = static_cast<T>(std::max<std::size_t>(1, place.in.size()));
    for (std::int64_t c = 0; c < s.channels; ++c) y[place.out + c * out_step] /= count;
  }
  void spread(const Place& place, const T* y, T* x) const {
    const T count = static_cast<T>(std::max<std::size_t>(1, place.in.size()));
    for (const std::int64_t in : place.in) {
      for (std::int64_t c = 0; c < s.channels; ++c) x[in + c * in_step] += y[place.out + c * out_step] / count;
    }
  }
  void maximum(const Place& place, const T* x, T* y) const {
    for (std::int64_t c = 0; c < s.channels; ++c) y[place.out + c * out_step] = -std::numeric_limits<T>::infinity();
    for (const std::int64_t in : place.in) {
      for (std::int64_t c = 0; c < s.channels; ++c) {
        const T value = x[in + c * in_step];
        T& best = y[place.out + c * out_step];
        if (value > best || std::isnan(value)) best = value;
      }
    }
  }
  void to_maxima(const Place& place, const T* x, const T* y, const T* grad, T* to) const {
    for (const std::int64_t in : place.in) {
      for (std::int64_t c = 0; c < s.channels; ++c) {
        const std::int64_t at = place.out + c * out_step;
        if (x[in + c * in_step] == y[at]) to[in + c * in_step] += grad[at];
      }
    }
  }
  void from_maxima(const Place& place, const T* x, const T* y, const T* grad, T* to) const {
    for (std::int64_t c = 0; c < s.channels; ++c) {
      const std::int64_t at = place.out + c * out_step;
      const auto found =
          std::find_if(place.in.begin(), place.in.end(), [&](std::int64_t in) { return x[in + c * in_step] == y[at]; });
      to[at] = found == place.in.end() ? T{} : grad[*found + c * in_step];
    }
  }
};

class Pool3dKernel : public Kernel {
 public:
  Pool3dKernel(const KernelInit& init, const VolumeAttrs& attrs, const Triple& sizes)
      : name_(init.op), attrs_(attrs), sizes_(sizes) {}

 protected:
  Result<Pool3dShape> pool_shape(const Shape& volumes) const {
    if (volumes.rank() != 5) return invalid_argument(name_, ": tensor_in must be 5-dimensional, got ", volumes);
    Pool3dShape shape{.batch = volumes.dim(0),
                      .channels = volumes.dim(attrs_.channel_dim()),
                      .channels_first = attrs_.channels_first};
    WindowAxis* axes[] = {&shape.planes, &shape.rows, &shape.columns};
    for (int i = 0; i < 3; ++i) {
      Result<WindowAxis> axis =
          volume_axis(attrs_, i, volumes.dim(attrs_.spatial_dim(i)), sizes_[static_cast<std::size_t>(i)]);
      if (!axis.ok()) return axis.status().with_context(name_);
      *axes[i] = *axis;
    }
    return shape;
  }
  Result<Shape> pooled_shape(const Pool3dShape& s) const {
    return attrs_.volume_shape(s.batch, {s.planes.out, s.rows.out, s.columns.out}, s.channels);
  }
  Status check(const Tensor& tensor, const Shape& expected, std::string_view what) const {
    if (tensor.shape() == expected) return {};
    return invalid_argument(name_, ": Expected ", what, " shape to be ", expected, ", but got ", tensor.shape());
  }
  // Volumes share nothing.
  template <typename Fn>
  static void for_volumes(KernelContext& ctx, const Pool3dShape& s, const Fn& fn) {
    parallel_for(ctx.team(), s.batch, 1,
                 [&](std::int64_t begin, std::int64_t end) { for_pool_places(s, begin, end, fn); });
  }

  const std::string name_;

 private:
  const VolumeAttrs attrs_;
  const Triple sizes_;
};

template <bool kMaximum>
class Pool3d : public Pool3dKernel {
 public:
  using Pool3dKernel::Pool3dKernel;

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Pool3dShape s, pool_shape(ctx.input(0).shape()));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, pooled_shape(s));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    if (shape.num_elements() == 0) return {};
    const DType wide = compute_dtype(out->dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor x, widened(ctx, ctx.input(0), wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor y, wide_output(ctx, *out, wide));
    const auto run = [&]<typename T>(T) {
      const Pools<T> pools(s);
      for_volumes(ctx, s, [&](const Place& place) {
        if constexpr (kMaximum) {
          pools.maximum(place, x.data<T>(), y.data<T>());
        } else {
          pools.average(place, x.data<T>(), y.data<T>());
        }
      });
    };
    if (wide == DType::kDouble) {
      run(double{});
    } else {
      run(float{});
    }
    narrow_into(y, *out);
    return {};
  }
};

class AvgPool3dGrad : public Pool3dKernel {
 public:
  using Pool3dKernel::Pool3dKernel;

  Status compute(KernelContext& ctx) override {
    const Tensor& sizes = ctx.input(0);
    if (sizes.rank() != 1 || sizes.dim(0) != 5) {
      return invalid_argument(name_, ": orig_input_shape must be 1-dimensional and have 5 elements, got ",
                              sizes.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(sizes, "orig_input_shape"));
    TUTTI_ASSIGN_OR_RETURN(const Pool3dShape s, pool_shape(shape));
    TUTTI_ASSIGN_OR_RETURN(const Shape pooled, pooled_shape(s));
    TUTTI_RETURN_IF_ERROR(check(ctx.input(1), pooled, "grad"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const DType wide = compute_dtype(out->dtype());
    TUTTI_ASSIGN_OR_RETURN(const Tensor y, widened(ctx, ctx.input(1), wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor x, wide_output(ctx, *out, wide));
    zero_elements(wide, x.raw(), x.num_elements());
    const auto run = [&]<typename T>(T) {
      const Pools<T> pools(s);
      for_volumes(ctx, s, [&](const Place& place) { pools.spread(place, y.data<T>(), x.data<T>()); });
    };
    if (x.num_elements() == 0 || y.num_elements() == 0) {
      // Nothing to spread.
    } else if (wide == DType::kDouble) {
      run(double{});
    } else {
      run(float{});
    }
    narrow_into(x, *out);
    return {};
  }
};

// `kBack`: from maxima to the volumes; else the other way.
template <bool kBack>
class MaxPool3dGrad : public Pool3dKernel {
 public:
  using Pool3dKernel::Pool3dKernel;

  Status compute(KernelContext& ctx) override {
    const Shape& volumes = ctx.input(0).shape();
    TUTTI_ASSIGN_OR_RETURN(const Pool3dShape s, pool_shape(volumes));
    TUTTI_ASSIGN_OR_RETURN(const Shape pooled, pooled_shape(s));
    TUTTI_RETURN_IF_ERROR(check(ctx.input(1), pooled, "orig_output"));
    TUTTI_RETURN_IF_ERROR(check(ctx.input(2), kBack ? pooled : volumes, "grad"));
    if (!kBack && volumes.num_elements() == 0) {
      return invalid_argument(name_, ": received an empty orig_input of shape ", volumes);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, kBack ? volumes : pooled));
    TUTTI_ASSIGN_OR_RETURN(const Tensor x, widened(ctx, ctx.input(0), DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(const Tensor y, widened(ctx, ctx.input(1), DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(const Tensor grad, widened(ctx, ctx.input(2), DType::kFloat));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(ctx, *out, DType::kFloat));
    zero_elements(DType::kFloat, to.raw(), to.num_elements());
    if (x.num_elements() > 0 && y.num_elements() > 0) {
      const Pools<float> pools(s);
      for_volumes(ctx, s, [&](const Place& place) {
        if constexpr (kBack) {
          pools.to_maxima(place, x.data<float>(), y.data<float>(), grad.data<float>(), to.data<float>());
        } else {
          pools.from_maxima(place, x.data<float>(), y.data<float>(), grad.data<float>(), to.data<float>());
        }
      });
    }
    narrow_into(to, *out);
    return {};
  }
};

template <typename K>
KernelFactory pool3d_factory() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(const VolumeAttrs attrs, read_volume_attrs(init.attrs));
    TUTTI_ASSIGN_OR_RETURN(const Triple sizes,
                           spatial_triple(attrs, init.attr<std::vector<std::int64_t>>("ksize"), "ksize"));
    return std::unique_ptr<Kernel>(std::make_unique<K>(init, attrs, sizes));
  };
}

}  // namespace

KernelFactory avg_pool3d_kernel() { return pool3d_factory<Pool3d<false>>(); }
KernelFactory avg_pool3d_grad_kernel() { return pool3d_factory<AvgPool3dGrad>(); }
KernelFactory max_pool3d_kernel() { return pool3d_factory<Pool3d<true>>(); }
KernelFactory max_pool3d_grad_kernel() { return pool3d_factory<MaxPool3dGrad<true>>(); }
KernelFactory max_pool3d_grad_grad_kernel() { return pool3d_factory<MaxPool3dGrad<false>>(); }

}  // namespace tutti::cpu
