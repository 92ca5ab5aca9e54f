#include "tutti/kernels/cpu/conv3d.h"

#include <memory>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/convolution.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/volume_window.h"

namespace tutti::cpu {
namespace {

class Conv3dKernel : public Kernel {
 public:
  Conv3dKernel(const KernelInit& init, const VolumeAttrs& attrs, ConvResult result)
      : name_(init.op), attrs_(attrs), result_(result), convolution_(init.output_types[0].dtype, result) {}

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape input, input_shape(ctx));
    TUTTI_ASSIGN_OR_RETURN(const Shape filter, filter_shape(ctx));
    TUTTI_ASSIGN_OR_RETURN(const ConvShape shape, conv_shape(input, filter));
    const Triple places{shape.planes.out, shape.rows.out, shape.columns.out};
    TUTTI_ASSIGN_OR_RETURN(const Shape output, attrs_.volume_shape(shape.batch, places, shape.out_channels));
    if (result_ != ConvResult::kOutput && ctx.input(2).shape() != output) {
      return invalid_argument(name_, ": out_backprop is of shape ", ctx.input(2).shape(),
                              ", but the convolution gives ", output);
    }
    const Shape& made = result_ == ConvResult::kOutput ? output : result_ == ConvResult::kInput ? input : filter;
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, made));
    // One of the three is the result; which one, `convolution_` knows.
    const auto array = [&](ConvResult which, int i) {
      return which == result_ ? out->raw() : const_cast<void*>(ctx.input(i).raw());
    };
    const ConvArrays arrays{array(ConvResult::kInput, 0), array(ConvResult::kFilter, 1), array(ConvResult::kOutput, 2)};
    return convolution_.run(shape, arrays, ctx.team(), ctx.allocator()).with_context(name_);
  }

 private:
  static Result<Shape> sizes_of(const Tensor& sizes, std::string_view what) {
    if (sizes.rank() != 1 || sizes.dim(0) != 5) {
      return invalid_argument(what, " must be a vector of 5 elements, got shape ", sizes.shape());
    }
    return read_shape(sizes, what);
  }
  Result<Shape> input_shape(KernelContext& ctx) const {
    if (result_ == ConvResult::kInput) return sizes_of(ctx.input(0), "input_sizes");
    return Shape(ctx.input(0).shape());
  }
  Result<Shape> filter_shape(KernelContext& ctx) const {
    if (result_ == ConvResult::kFilter) return sizes_of(ctx.input(1), "filter_sizes");
    return Shape(ctx.input(1).shape());
  }

  Result<ConvShape> conv_shape(const Shape& input, const Shape& filter) const {
    if (input.rank() != 5) return invalid_argument(name_, ": input must be 5-dimensional: ", input);
    if (filter.rank() != 5) return invalid_argument(name_, ": filter must be 5-dimensional: ", filter);
    const std::int64_t channels = input.dim(attrs_.channel_dim()), depth = filter.dim(3), outputs = filter.dim(4);
    if (filter.num_elements() == 0) return invalid_argument(name_, ": filter must not have zero elements: ", filter);
    if (channels % depth != 0 || channels == 0 || outputs % (channels / depth) != 0) {
      return invalid_argument(name_, ": input depth must be evenly divisible by filter depth: ", channels, " vs ",
                              depth);
    }
    ConvShape shape{.batch = input.dim(0),
                    .in_channels = channels,
                    .out_channels = outputs,
                    .groups = channels / depth,
                    .channels_first = attrs_.channels_first,
                    .volumes = true};
    WindowAxis* axes[] = {&shape.planes, &shape.rows, &shape.columns};
    for (int i = 0; i < 3; ++i) {
      Result<WindowAxis> axis = volume_axis(attrs_, i, input.dim(attrs_.spatial_dim(i)), filter.dim(i));
      if (!axis.ok()) return axis.status().with_context(name_);
      *axes[i] = *axis;
    }
    return shape;
  }

  const std::string name_;
  const VolumeAttrs attrs_;
  const ConvResult result_;
  const Convolution convolution_;
};

KernelFactory conv3d_factory(ConvResult result) {
  return [result](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(const VolumeAttrs attrs, read_volume_attrs(init.attrs));
    return std::unique_ptr<Kernel>(std::make_unique<Conv3dKernel>(init, attrs, result));
  };
}

}  // namespace

KernelFactory conv3d_kernel() { return conv3d_factory(ConvResult::kOutput); }
KernelFactory conv3d_backprop_input_kernel() { return conv3d_factory(ConvResult::kInput); }
KernelFactory conv3d_backprop_filter_kernel() { return conv3d_factory(ConvResult::kFilter); }

}  // namespace tutti::cpu
