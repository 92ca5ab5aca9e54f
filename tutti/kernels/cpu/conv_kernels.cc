#include "tutti/kernels/cpu/conv_kernels.h"

#include <string>
#include <utility>

#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

// What the three kernels have in common.
class ConvKernel : public Kernel {
 protected:
  ConvKernel(const KernelInit& init, const WindowAttrs& attrs, bool depthwise, ConvResult result, bool biased = false)
      : name_(init.op),
        attrs_(attrs),
        depthwise_(depthwise),
        convolution_(init.output_types[0].dtype, result, biased) {}

  Status run(KernelContext& context, const ConvShape& shape, const void* input, const void* filter, const void* output,
             const void* bias = nullptr) const {
    // One of the first three is the result; which one, `convolution_` knows.
    const ConvArrays arrays{const_cast<void*>(input), const_cast<void*>(filter), const_cast<void*>(output), bias};
    return convolution_.run(shape, arrays, context.team(), context.allocator()).with_context(name_);
  }

  // That the gradient of the output has the shape that the convolution would give.
  Status check_out_backprop(const ConvShape& shape, const Shape& grad) const {
    if (grad.rank() != 4) return invalid_argument(name_, ": out_backprop must be 4-dimensional, got ", grad);
    if (grad.dim(0) != shape.batch) {
      return invalid_argument(name_,
                              ": input and out_backprop must have the same batch size. Input batch: ", shape.batch,
                              ", outbackprop batch: ", grad.dim(0), ", batch_dim: 0");
    }
    if (grad.dim(attrs_.channel_dim()) != shape.out_channels) {
      return invalid_argument(name_, ": filter and out_backprop must have the same out_depth, got ", shape.out_channels,
                              " and ", grad.dim(attrs_.channel_dim()));
    }
    for (int axis = 0; axis < 2; ++axis) {
      const WindowAxis& w = axis == 0 ? shape.rows : shape.columns;
      if (grad.dim(attrs_.spatial_dim(axis)) == w.out) continue;
      return invalid_argument(
          name_, ": Size of out_backprop doesn't match computed: actual = ", grad.dim(attrs_.spatial_dim(axis)),
          ", computed = ", w.out, " spatial_dim: ", attrs_.spatial_dim(axis), " input: ", w.in, " filter: ", w.kernel,
          " stride: ", w.stride, " dilation: ", w.dilation);
    }
    return {};
  }

  const std::string name_;
  const WindowAttrs attrs_;
  const bool depthwise_;
  const Convolution convolution_;
};

class ForwardKernel : public ConvKernel {
 public:
  ForwardKernel(const KernelInit& init, const WindowAttrs& attrs, bool depthwise, bool biased = false)
      : ConvKernel(init, attrs, depthwise, ConvResult::kOutput, biased), biased_(biased) {}

  Status compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& filter = context.input(1);
    TUTTI_ASSIGN_OR_RETURN(ConvShape shape, conv_shape(name_, attrs_, input.shape(), filter.shape(), depthwise_));
    TUTTI_ASSIGN_OR_RETURN(Shape out_shape,
                           attrs_.image_shape(shape.batch, shape.rows.out, shape.columns.out, shape.out_channels));
    if (biased_ && context.input(2).shape() != Shape{shape.out_channels}) {
      return invalid_argument("BiasAdd: Must provide as many biases as the last dimension of the input tensor: ",
                              context.input(2).shape(), " vs. ", out_shape);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, out_shape));
    return run(context, shape, input.raw(), filter.raw(), out->raw(), biased_ ? context.input(2).raw() : nullptr);
  }

 private:
  const bool biased_;
};

class BackpropInputKernel : public ConvKernel {
 public:
  BackpropInputKernel(const KernelInit& init, const WindowAttrs& attrs, bool depthwise)
      : ConvKernel(init, attrs, depthwise, ConvResult::kInput) {}

  Status compute(KernelContext& context) override {
    const Tensor& filter = context.input(1);
    const Tensor& grad = context.input(2);
    TUTTI_ASSIGN_OR_RETURN(Shape in_shape, input_shape(context.input(0), filter.shape(), grad.shape()));
    TUTTI_ASSIGN_OR_RETURN(ConvShape shape, conv_shape(name_, attrs_, in_shape, filter.shape(), depthwise_));
    TUTTI_RETURN_IF_ERROR(check_out_backprop(shape, grad.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in_shape));
    return run(context, shape, out->raw(), filter.raw(), grad.raw());
  }

 private:
  // input_sizes holds all four dimensions, or rows and columns only.
  Result<Shape> input_shape(const Tensor& sizes, const Shape& filter, const Shape& grad) const {
    if (sizes.rank() != 1 || (sizes.dim(0) != 4 && sizes.dim(0) != 2)) {
      return invalid_argument(name_, ": input_sizes must be a vector of 4 or 2 elements, got shape ", sizes.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Shape given, read_shape(sizes, "input_sizes"));
    if (given.rank() == 4) return given;
    if (filter.rank() != 4) return invalid_argument(name_, ": filter must be 4-dimensional, got ", filter);
    if (grad.rank() != 4) return invalid_argument(name_, ": out_backprop must be 4-dimensional, got ", grad);
    return attrs_.image_shape(grad.dim(0), given.dim(0), given.dim(1), filter.dim(2));
  }
};

class BackpropFilterKernel : public ConvKernel {
 public:
  BackpropFilterKernel(const KernelInit& init, const WindowAttrs& attrs, bool depthwise)
      : ConvKernel(init, attrs, depthwise, ConvResult::kFilter) {}

  Status compute(KernelContext& context) override {
    const Tensor& input = context.input(0);
    const Tensor& sizes = context.input(1);
    const Tensor& grad = context.input(2);
    if (sizes.rank() != 1 || sizes.dim(0) != 4) {
      return invalid_argument(name_, ": filter_sizes must be a vector of 4 elements, got shape ", sizes.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Shape filter_shape, read_shape(sizes, "filter_sizes"));
    TUTTI_ASSIGN_OR_RETURN(ConvShape shape, conv_shape(name_, attrs_, input.shape(), filter_shape, depthwise_));
    TUTTI_RETURN_IF_ERROR(check_out_backprop(shape, grad.shape()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, filter_shape));
    return run(context, shape, input.raw(), out->raw(), grad.raw());
  }
};

template <typename K, typename... More>
KernelFactory conv_factory(bool depthwise, More... more) {
  return [depthwise, more...](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(WindowAttrs attrs, read_window_attrs(init.attrs));
    return std::unique_ptr<Kernel>(std::make_unique<K>(init, attrs, depthwise, more...));
  };
}

Status check_channels(std::string_view op, std::int64_t inputs, const Shape& filter, bool depthwise) {
  const std::int64_t depth = filter.dim(2);
  if (depthwise) {
    if (inputs == depth) return {};
    return invalid_argument(op, ": input and filter must have the same depth: ", inputs, " vs ", depth);
  }
  if (depth <= 0) return invalid_argument(op, ": filter depth must be strictly positive, got ", depth);
  if (inputs % depth != 0) {
    return invalid_argument(op, ": input depth must be evenly divisible by filter depth: ", inputs, " vs ", depth);
  }
  const std::int64_t groups = inputs / depth;
  if (groups == 0 || filter.dim(3) % groups != 0) {
    return invalid_argument(op, ": output depth must be evenly divisible by number of groups: ", filter.dim(3), " vs ",
                            groups);
  }
  return {};
}

}  // namespace

Result<ConvShape> conv_shape(std::string_view op, const WindowAttrs& attrs, const Shape& input, const Shape& filter,
                             bool depthwise) {
  if (input.rank() != 4) return invalid_argument(op, ": input must be 4-dimensional: ", input);
  if (filter.rank() != 4) return invalid_argument(op, ": filter must be 4-dimensional: ", filter);
  const std::int64_t channels = input.dim(attrs.channel_dim());
  TUTTI_RETURN_IF_ERROR(check_channels(op, channels, filter, depthwise));
  if (filter.dim(0) < 1 || filter.dim(1) < 1) {
    return invalid_argument(op,
                            ": filter must not have zero elements (i.e. all dimensions must be non-zero): ", filter);
  }
  ConvShape shape{.batch = input.dim(0), .in_channels = channels, .channels_first = attrs.channels_first};
  // A depthwise filter of no channels has no groups either; one of nothing is as good.
  shape.groups = depthwise ? std::max<std::int64_t>(1, channels) : channels / filter.dim(2);
  if (depthwise && __builtin_mul_overflow(channels, filter.dim(3), &shape.out_channels)) {
    return invalid_argument(op, ": too many output channels: ", channels, " times ", filter.dim(3));
  }
  if (!depthwise) shape.out_channels = filter.dim(3);
  const auto axis = [&](int i) { return window_axis(attrs, i, input.dim(attrs.spatial_dim(i)), filter.dim(i)); };
  Result<WindowAxis> rows = axis(0);
  if (!rows.ok()) return rows.status().with_context(op);
  Result<WindowAxis> columns = axis(1);
  if (!columns.ok()) return columns.status().with_context(op);
  shape.rows = *rows;
  shape.columns = *columns;
  return shape;
}

KernelFactory conv_kernel(bool depthwise) { return conv_factory<ForwardKernel>(depthwise); }
KernelFactory biased_conv_kernel() { return conv_factory<ForwardKernel>(false, true); }
KernelFactory conv_backprop_input_kernel(bool depthwise) { return conv_factory<BackpropInputKernel>(depthwise); }
KernelFactory conv_backprop_filter_kernel(bool depthwise) { return conv_factory<BackpropFilterKernel>(depthwise); }

}  // namespace tutti::cpu
