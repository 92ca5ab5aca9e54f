// Builders of convolutions, pools and normalisations.

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/nn.h"

namespace tutti::nn {
namespace {

using List = std::vector<std::int64_t>;

List four(const WindowOptions& window, const std::array<std::int64_t, 2>& pair) {
  if (window.data_format == "NCHW") return {1, 1, pair[0], pair[1]};
  return {1, pair[0], pair[1], 1};
}

AttrMap attrs_of(const WindowOptions& window) {
  AttrMap attrs{
      {"strides", four(window, window.strides)}, {"padding", window.padding}, {"data_format", window.data_format}};
  if (!window.explicit_paddings.empty()) attrs["explicit_paddings"] = window.explicit_paddings;
  return attrs;
}

AttrMap conv_attrs(const WindowOptions& window) {
  AttrMap attrs = attrs_of(window);
  attrs["dilations"] = four(window, window.dilations);
  return attrs;
}

AttrMap pool_attrs(const WindowOptions& window, const std::array<std::int64_t, 2>& ksize) {
  if (window.dilations != std::array<std::int64_t, 2>{1, 1}) {
    throw_error(invalid_argument("a pool has no dilations, got ", window.dilations[0], " and ", window.dilations[1]));
  }
  AttrMap attrs = attrs_of(window);
  attrs["ksize"] = four(window, ksize);
  return attrs;
}

}  // namespace

Output conv2d(Output input, Output filters, const WindowOptions& window, const std::string& name) {
  return op1("Conv2D", {input, filters}, conv_attrs(window), name);
}

Output conv2d_transpose(Output input, Output filters, const Ints& output_shape, const WindowOptions& window,
                        const std::string& name) {
  if (!input) throw_error(invalid_argument("conv2d_transpose: input 0 is empty"));
  return op1("Conv2DBackpropInput", {output_shape.in(input.graph()), filters, input}, conv_attrs(window), name);
}

Output depthwise_conv2d(Output input, Output filters, const WindowOptions& window, const std::string& name) {
  return op1("DepthwiseConv2dNative", {input, filters}, conv_attrs(window), name);
}

Output max_pool(Output input, std::array<std::int64_t, 2> ksize, const WindowOptions& window, const std::string& name) {
  return op1("MaxPool", {input}, pool_attrs(window, ksize), name);
}

Output avg_pool(Output input, std::array<std::int64_t, 2> ksize, const WindowOptions& window, const std::string& name) {
  return op1("AvgPool", {input}, pool_attrs(window, ksize), name);
}

BatchNormOutputs fused_batch_norm(Output x, Output scale, Output offset, const BatchNormOptions& options,
                                  const std::string& name) {
  if (!x || !scale) throw_error(invalid_argument("fused_batch_norm: x or scale is empty"));
  Output mean = options.mean, variance = options.variance;
  if (!mean) mean = zeros(x.graph(), scale.dtype(), Shape{0});
  if (!variance) variance = zeros(x.graph(), scale.dtype(), Shape{0});
  Node* node = add_op(x.graph(), "FusedBatchNormV3", {x, scale, offset, mean, variance},
                      {{"epsilon", options.epsilon},
                       {"exponential_avg_factor", options.exponential_avg_factor},
                       {"is_training", options.is_training},
                       {"data_format", options.data_format}},
                      name);
  return {node->output(0), node->output(1), node->output(2)};
}

Output local_response_normalization(Output input, const LrnOptions& options, const std::string& name) {
  return op1("LRN", {input},
             {{"depth_radius", options.depth_radius},
              {"bias", options.bias},
              {"alpha", options.alpha},
              {"beta", options.beta}},
             name);
}

}  // namespace tutti::nn
