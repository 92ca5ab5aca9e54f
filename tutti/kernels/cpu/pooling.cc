#include "tutti/kernels/cpu/pooling.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/internal/pool_window.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

using internal::PoolLoops;

PoolLoops loops_for(DType dtype) {
  const DType wide = compute_dtype(dtype);
  return is_integer(wide) ? internal::find_integer_pool_loops(wide) : internal::find_pool_loops(wide);
}

// How one execution pools: the windows, and the shape of what comes out.
struct PoolPlan {
  PoolShape shape;
  Shape out;
};

// Window sizes and strides of a node: attributes, or the inputs that follow the tensors of a V2 op.
class PoolWindow {
 public:
  static Result<PoolWindow> create(const KernelInit& init) {
    PoolWindow window;
    window.name_ = init.op;
    AttrMap attrs = init.attrs;
    // Strides may count over channels here; they are read with the window's size.
    attrs.erase("strides");
    TUTTI_ASSIGN_OR_RETURN(window.attrs_, read_window_attrs(attrs));
    if (init.attrs.contains("ksize")) {
      window.ksize_ = init.attr<std::vector<std::int64_t>>("ksize");
      window.strides_ = init.attr<std::vector<std::int64_t>>("strides");
    } else {
      window.from_input_ = static_cast<int>(init.input_types.size()) - 2;
    }
    return window;
  }

  // `forward`: maxima over channels are allowed, as in TensorFlow's MaxPool only.
  Result<PoolPlan> plan(KernelContext& context, const Shape& input, bool forward) const {
    Result<PoolPlan> plan = make_plan(context, input, forward);
    if (!plan.ok()) return plan.status().with_context(name_);
    return plan;
  }

  const std::string& name() const { return name_; }

 private:
  // TensorFlow counts their elements, whatever their shape.
  static Tensor flat(const Tensor& values) { return values.reshaped(Shape{values.num_elements()}); }

  Result<PoolPlan> make_plan(KernelContext& context, const Shape& input, bool forward) const {
    if (from_input_ < 0) return make_plan(ksize_, strides_, input, forward);
    DimList ksize, strides;
    TUTTI_RETURN_IF_ERROR(read_dims(flat(context.input(from_input_)), "ksize", &ksize));
    TUTTI_RETURN_IF_ERROR(read_dims(flat(context.input(from_input_ + 1)), "strides", &strides));
    return make_plan(ksize.span(), strides.span(), input, forward);
  }

  Result<PoolPlan> make_plan(std::span<const std::int64_t> ksize, std::span<const std::int64_t> strides,
                             const Shape& input, bool forward) const {
    if (input.rank() != 4) return invalid_argument("input must be 4-dimensional: ", input);
    if (ksize.size() != 4) return invalid_argument("Sliding window ksize field must specify 4 dimensions");
    if (strides.size() != 4) return invalid_argument("Sliding window stride field must specify 4 dimensions");
    for (std::size_t i = 0; i < 4; ++i) {
      if (ksize[i] <= 0) return invalid_argument("Sliding window ksize for dimension ", i, " was ", ksize[i]);
    }
    if (ksize[0] != 1 || strides[0] != 1) {
      return unimplemented("Pooling is not yet supported on the batch dimension: ksize ", ksize[0], ", stride ",
                           strides[0]);
    }
    for (const std::int64_t stride : strides) {
      if (stride <= 0) return invalid_argument("Stride must be > 0, but got ", stride);
    }
    const auto channel = static_cast<std::size_t>(attrs_.channel_dim());
    if (ksize[channel] != 1) return over_channels(ksize, strides, input, forward);
    WindowAttrs attrs = attrs_;
    std::array<std::int64_t, 4> pixel_strides{strides[0], strides[1], strides[2], strides[3]};
    pixel_strides[channel] = 1;  // as in TensorFlow: that of channels matters where windows have several
    TUTTI_ASSIGN_OR_RETURN(attrs.stride, spatial_pair(attrs, pixel_strides, "strides"));
    TUTTI_ASSIGN_OR_RETURN(auto size, spatial_pair(attrs, ksize, "ksize"));
    return over_pixels(attrs, size, input);
  }

  Result<PoolPlan> over_pixels(const WindowAttrs& attrs, const std::array<std::int64_t, 2>& size,
                               const Shape& input) const {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t padding = std::max(attrs.pad_before[i], attrs.pad_after[i]);
      if (padding >= size[i]) {
        return invalid_argument("padding ", padding, " needs to be smaller than the window size ", size[i]);
      }
    }
    PoolPlan plan;
    PoolShape& s = plan.shape;
    TUTTI_ASSIGN_OR_RETURN(s.rows, window_axis(attrs, 0, input.dim(attrs.spatial_dim(0)), size[0]));
    TUTTI_ASSIGN_OR_RETURN(s.columns, window_axis(attrs, 1, input.dim(attrs.spatial_dim(1)), size[1]));
    const std::int64_t channels = input.dim(attrs.channel_dim());
    TUTTI_ASSIGN_OR_RETURN(plan.out, attrs.image_shape(input.dim(0), s.rows.out, s.columns.out, channels));
    s.batch = count_elements(input.dim(0), attrs.channels_first ? channels : 1, 1);
    s.channels = attrs.channels_first ? 1 : channels;
    return plan;
  }

  // Groups of neighbouring channels: each pixel is a column of them.
  Result<PoolPlan> over_channels(std::span<const std::int64_t> ksize, std::span<const std::int64_t> strides,
                                 const Shape& input, bool forward) const {
    if (!forward || attrs_.channels_first) return unimplemented("pooling over the depth dimension is not supported");
    if (ksize[1] != 1 || ksize[2] != 1 || strides[1] != 1 || strides[2] != 1) {
      return unimplemented("MaxPooling supports exactly one of pooling across depth or pooling across width/height.");
    }
    if (ksize[3] != strides[3]) {
      return unimplemented("Depthwise max pooling requires the depth window to equal the depth stride: ", ksize[3],
                           " and ", strides[3]);
    }
    if (input.dim(3) % ksize[3] != 0) {
      return unimplemented("Depthwise max pooling requires the depth window to evenly divide the input depth: ",
                           ksize[3], " and ", input.dim(3));
    }
    PoolPlan plan;
    const std::int64_t groups = input.dim(3) / ksize[3];
    plan.shape.batch = count_elements(input.dim(0), input.dim(1), input.dim(2));
    plan.shape.channels = 1;
    plan.shape.rows = {.in = input.dim(3), .out = groups, .kernel = ksize[3], .stride = ksize[3]};
    plan.shape.columns = {.in = 1, .out = 1};
    plan.out = input;
    plan.out.set_dim(3, groups);
    return plan;
  }

  std::string name_;
  WindowAttrs attrs_;
  std::vector<std::int64_t> ksize_, strides_;
  int from_input_ = -1;  // of ksize; strides follow
};

std::int64_t grain_of(std::int64_t elements_each) {
  return std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, elements_each));
}

Status expect_shape(const std::string& op, std::string_view what, const Shape& got, const Shape& want) {
  if (got == want) return {};
  return invalid_argument(op, ": Expected ", what, " shape to be ", want, ", but got ", got);
}

class PoolKernel : public Kernel {
 public:
  PoolKernel(PoolWindow window, DType dtype, bool mean)
      : window_(std::move(window)), wide_(compute_dtype(dtype)), mean_(mean) {
    const PoolLoops loops = loops_for(dtype);
    loop_ = mean ? loops.mean_rows : loops.max_rows;
  }

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in.shape(), !mean_));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, plan.out));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    const PoolShape& s = plan.shape;
    parallel_for(context.team(), s.batch * s.rows.out, grain_of(s.columns.in * s.channels * s.rows.kernel),
                 [&](std::int64_t begin, std::int64_t end) { loop_(s, from.raw(), to.raw(), begin, end); });
    narrow_into(to, *out);
    return {};
  }

 private:
  const PoolWindow window_;
  const DType wide_;
  const bool mean_;
  void (*loop_)(const PoolShape&, const void*, void*, std::int64_t, std::int64_t);
};

// For the gradient of input 0. It may take the place of that where windows tile the image: each looks at its pixels
// before it writes them (integers are written over zeros). That spares the cache half of what it has to hold.
Result<Tensor*> output_like_image(KernelContext& context, const PoolShape& s) {
  const Shape shape = context.input(0).shape();
  const bool in_place = internal::tiles(s.rows) && internal::tiles(s.columns) && is_floating(context.output_type(0));
  return in_place ? context.forward_or_allocate(0, 0, shape) : context.allocate_output(0, shape);
}

class MaxPoolGradKernel : public Kernel {
 public:
  MaxPoolGradKernel(PoolWindow window, DType dtype, bool second)
      : window_(std::move(window)),
        wide_(compute_dtype(dtype)),
        second_(second),
        loop_(second ? loops_for(dtype).max_grad_grad : loops_for(dtype).max_grad) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& grad = context.input(2);
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in.shape(), false));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "orig_output", context.input(1).shape(), plan.out));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "grad", grad.shape(), second_ ? in.shape() : plan.out));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out,
                           second_ ? context.allocate_output(0, plan.out) : output_like_image(context, plan.shape));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor slope, widened(context, grad, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    const PoolShape& s = plan.shape;
    parallel_for(context.team(), s.batch, grain_of(s.image_elements()), [&](std::int64_t begin, std::int64_t end) {
      loop_(s, from.raw(), slope.raw(), to.raw(), begin, end);
    });
    narrow_into(to, *out);
    return {};
  }

 private:
  const PoolWindow window_;
  const DType wide_;
  const bool second_;
  void (*const loop_)(const PoolShape&, const void*, const void*, void*, std::int64_t, std::int64_t);
};

class MaxPoolReluGradKernel : public Kernel {
 public:
  MaxPoolReluGradKernel(PoolWindow window, DType dtype)
      : window_(std::move(window)), wide_(compute_dtype(dtype)), loop_(loops_for(dtype).max_relu_grad) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& grad = context.input(2);
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in.shape(), false));
    const PoolShape& s = plan.shape;
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "orig_output", context.input(1).shape(), plan.out));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "grad", grad.shape(), plan.out));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, output_like_image(context, s));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out_sums, context.allocate_output(1, Shape{s.channels}));
    if (out->num_elements() == 0) {
      zero_elements(out_sums->dtype(), out_sums->raw(), s.channels);
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor slope, widened(context, grad, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor sums, context.allocate_temp(wide_, Shape{s.batch, 2, s.channels}));
    parallel_for(context.team(), s.batch, grain_of(s.image_elements()), [&](std::int64_t begin, std::int64_t end) {
      loop_(s, from.raw(), slope.raw(), to.raw(), sums.raw(), begin, end);
    });
    narrow_into(to, *out);
    TUTTI_ASSIGN_OR_RETURN(Tensor total, wide_output(context, *out_sums, DType::kDouble));
    wide_ == DType::kDouble ? add_images<double>(sums, total) : add_images<float>(sums, total);
    narrow_into(total, *out_sums);
    return {};
  }

 private:
  // In the order of the images, whoever had them.
  template <typename T>
  static void add_images(const Tensor& sums, Tensor& total) {
    const T* image = sums.data<T>();
    double* to = total.data<double>();
    const std::int64_t channels = total.num_elements();
    std::fill_n(to, channels, 0.0);
    for (std::int64_t n = 0; n < sums.dim(0); ++n, image += 2 * channels) {
      for (std::int64_t c = 0; c < channels; ++c) to[c] += static_cast<double>(image[c]);
    }
  }

  const PoolWindow window_;
  const DType wide_;
  void (*const loop_)(const PoolShape&, const void*, const void*, void*, void*, std::int64_t, std::int64_t);
};

class AvgPoolGradKernel : public Kernel {
 public:
  AvgPoolGradKernel(PoolWindow window, DType dtype)
      : window_(std::move(window)), wide_(compute_dtype(dtype)), loop_(loops_for(dtype).mean_grad) {}

  Status compute(KernelContext& context) override {
    const Tensor& grad = context.input(1);
    const Tensor& sizes = context.input(0);
    if (sizes.rank() != 1 || sizes.dim(0) != 4) {
      return invalid_argument(window_.name(), ": orig_input_shape must be a vector of 4 elements, got shape ",
                              sizes.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Shape in_shape, read_shape(sizes, "orig_input_shape"));
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in_shape, false));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "grad", grad.shape(), plan.out));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in_shape));
    if (out->num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, grad, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    const PoolShape& s = plan.shape;
    parallel_for(context.team(), s.batch, grain_of(s.image_elements()),
                 [&](std::int64_t begin, std::int64_t end) { loop_(s, from.raw(), to.raw(), begin, end); });
    narrow_into(to, *out);
    return {};
  }

 private:
  const PoolWindow window_;
  const DType wide_;
  void (*const loop_)(const PoolShape&, const void*, void*, std::int64_t, std::int64_t);
};

using Make = std::unique_ptr<Kernel> (*)(PoolWindow, DType);

KernelFactory pool_factory(Make make) {
  return [make](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(PoolWindow window, PoolWindow::create(init));
    return make(std::move(window), init.output_types[0].dtype);
  };
}

// --- Maxima with their places. ---

class ArgmaxKernel : public Kernel {
 public:
  ArgmaxKernel(PoolWindow window, const KernelInit& init)
      : window_(std::move(window)),
        wide_(compute_dtype(init.input_types[0].dtype)),
        with_batch_(init.attr<bool>("include_batch_in_index")) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.num_elements() == 0)
      return invalid_argument(window_.name(), ": tensor_in must not be empty, it is ", in.shape());
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in.shape(), false));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, plan.out));
    TUTTI_ASSIGN_OR_RETURN(Tensor * places, context.allocate_output(1, plan.out));
    if (out->num_elements() == 0) return {};
    const std::int64_t last = (with_batch_ ? plan.shape.batch : 1) * plan.shape.image_elements();
    TUTTI_RETURN_IF_ERROR(check_fits(std::array{last}, places->dtype(), "argmax"));
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    const auto find = [&]<typename T>(T) { find_all<T>(plan.shape, from, to, *places); };
    switch (wide_) {
      case DType::kFloat:
        find(float{});
        break;
      case DType::kDouble:
        find(double{});
        break;
      case DType::kInt32:
        find(std::int32_t{});
        break;
      case DType::kInt64:
        find(std::int64_t{});
        break;
      default:
        find(std::uint64_t{});
    }
    narrow_into(to, *out);
    return {};
  }

 private:
  template <typename T>
  void find_all(const PoolShape& s, const Tensor& from, Tensor& to, Tensor& places) const {
    for (std::int64_t i = 0; i < to.num_elements(); ++i) {
      const std::int64_t n = i / s.pooled_elements();
      const T* image = from.data<T>() + n * s.image_elements();
      const std::int64_t at = find_one(s, image, i % s.pooled_elements());
      to.data<T>()[i] = image[at];
      const std::int64_t place = at + (with_batch_ ? n * s.image_elements() : 0);
      if (places.dtype() == DType::kInt32) {
        places.data<std::int32_t>()[i] = static_cast<std::int32_t>(place);
      } else {
        places.data<std::int64_t>()[i] = place;
      }
    }
  }

  // Windows are never all padding: there is no explicit padding here.
  template <typename T>
  static std::int64_t find_one(const PoolShape& s, const T* image, std::int64_t pooled) {
    const std::int64_t cell = pooled / s.channels;
    const std::int64_t top = s.rows.start(cell / s.columns.out), left = s.columns.start(cell % s.columns.out);
    std::int64_t best = -1;
    for (std::int64_t r = std::max<std::int64_t>(0, top); r < std::min(s.rows.in, top + s.rows.kernel); ++r) {
      for (std::int64_t c = std::max<std::int64_t>(0, left); c < std::min(s.columns.in, left + s.columns.kernel); ++c) {
        const std::int64_t at = (r * s.columns.in + c) * s.channels + pooled % s.channels;
        // The first, the larger, or the first NaN.
        if (best < 0 || (!(image[at] <= image[best]) && image[best] == image[best])) best = at;
      }
    }
    return best;
  }

  const PoolWindow window_;
  const DType wide_;
  const bool with_batch_;
};

// Adds gradients at the places of maxima, or, `gather`, picks them there.
class ByArgmaxKernel : public Kernel {
 public:
  ByArgmaxKernel(PoolWindow window, const KernelInit& init, bool gather)
      : window_(std::move(window)), gather_(gather), with_batch_(init.attr<bool>("include_batch_in_index")) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    const Tensor& grad = context.input(1);
    const Tensor& places = context.input(2);
    TUTTI_ASSIGN_OR_RETURN(PoolPlan plan, window_.plan(context, in.shape(), false));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "grad", grad.shape(), gather_ ? in.shape() : plan.out));
    TUTTI_RETURN_IF_ERROR(expect_shape(window_.name(), "argmax", places.shape(), plan.out));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, gather_ ? plan.out : in.shape()));
    const DType wide = compute_dtype(out->dtype());
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, grad, wide));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide));
    if (!gather_) zero_elements(wide, to.raw(), to.num_elements());
    Status status;
    const auto move = [&]<typename T>(T) { status = move_all<T>(plan.shape, places, from, to); };
    switch (wide) {
      case DType::kFloat:
        move(float{});
        break;
      case DType::kDouble:
        move(double{});
        break;
      case DType::kInt32:
        move(std::uint32_t{});
        break;
      default:
        move(std::uint64_t{});
    }
    TUTTI_RETURN_IF_ERROR(status);
    narrow_into(to, *out);
    return {};
  }

 private:
  // Integers are moved as unsigned ones, whose sums wrap.
  template <typename T>
  Status move_all(const PoolShape& s, const Tensor& places, const Tensor& grad, Tensor& out) const {
    const T* from = static_cast<const T*>(grad.raw());
    T* to = static_cast<T*>(out.raw());
    const std::int64_t image = s.image_elements();
    for (std::int64_t i = 0; i < places.num_elements(); ++i) {
      const std::int64_t place = index_at(places.raw(), places.dtype(), i);
      const std::int64_t base = i / s.pooled_elements() * image;
      const std::int64_t at = place - (with_batch_ ? base : 0);
      if (at < 0 || at >= image) {
        return invalid_argument(window_.name(), ": argmax[", i, "] is ", place, ", outside its image of ", image,
                                " elements", with_batch_ ? " counted with the batch" : "");
      }
      if (gather_) {
        to[i] = from[base + at];
      } else {
        to[base + at] += from[i];
      }
    }
    return {};
  }

  const PoolWindow window_;
  const bool gather_;
  const bool with_batch_;
};

KernelFactory by_argmax(bool gather) {
  return [gather](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(PoolWindow window, PoolWindow::create(init));
    return std::unique_ptr<Kernel>(std::make_unique<ByArgmaxKernel>(std::move(window), init, gather));
  };
}

}  // namespace

KernelFactory max_pool_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<PoolKernel>(std::move(w), t, false);
  });
}
KernelFactory avg_pool_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<PoolKernel>(std::move(w), t, true);
  });
}
KernelFactory max_pool_grad_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<MaxPoolGradKernel>(std::move(w), t, false);
  });
}
KernelFactory max_pool_relu_grad_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<MaxPoolReluGradKernel>(std::move(w), t);
  });
}
KernelFactory max_pool_grad_grad_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<MaxPoolGradKernel>(std::move(w), t, true);
  });
}
KernelFactory avg_pool_grad_kernel() {
  return pool_factory([](PoolWindow w, DType t) -> std::unique_ptr<Kernel> {
    return std::make_unique<AvgPoolGradKernel>(std::move(w), t);
  });
}
KernelFactory max_pool_with_argmax_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(PoolWindow window, PoolWindow::create(init));
    return std::unique_ptr<Kernel>(std::make_unique<ArgmaxKernel>(std::move(window), init));
  };
}
KernelFactory max_pool_grad_with_argmax_kernel() { return by_argmax(false); }
KernelFactory max_pool_grad_grad_with_argmax_kernel() { return by_argmax(true); }

}  // namespace tutti::cpu
