// Builders of activations, losses and the like, named as in TensorFlow's tf.nn. They throw Error.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti::nn {

Output relu(Output x, const std::string& name = "");
Output relu6(Output x, const std::string& name = "");
Output elu(Output x, const std::string& name = "");
Output selu(Output x, const std::string& name = "");
Output leaky_relu(Output x, float alpha = 0.2f, const std::string& name = "");
Output softplus(Output x, const std::string& name = "");
Output softsign(Output x, const std::string& name = "");
Output sigmoid(Output x, const std::string& name = "");
Output tanh(Output x, const std::string& name = "");
// Adds a vector along the last dimension.
Output bias_add(Output value, Output bias, const std::string& name = "");
// Over the last dimension.
Output softmax(Output logits, const std::string& name = "");
Output log_softmax(Output logits, const std::string& name = "");
// Loss per row; `labels` are probabilities, through which gradients do not flow. Both are [batch, classes].
Output softmax_cross_entropy_with_logits(Output labels, Output logits, const std::string& name = "");
// Loss per row; `labels` are class numbers. labels [batch], logits [batch, classes].
Output sparse_softmax_cross_entropy_with_logits(Output labels, Output logits, const std::string& name = "");
// Half the sum of squares.
Output l2_loss(Output x, const std::string& name = "");
// Whether the target of each row is among its k largest predictions.
Output in_top_k(Output predictions, Output targets, std::int64_t k, const std::string& name = "");
// Zeroes each element with probability `rate` and scales the others by 1 / (1 - rate). 0 <= rate < 1.
// `seed` 0: another outcome in every session.
Output dropout(Output x, double rate, std::int64_t seed = 0, const std::string& name = "");

// --- Windows over images. ---
// Images are [batch, rows, columns, channels], or [batch, channels, rows, columns] where data_format is "NCHW".

// How a window slides. Pairs are for rows and columns.
struct WindowOptions {
  std::array<std::int64_t, 2> strides{1, 1};
  std::string padding = "VALID";  // "SAME" or, for convolutions and max_pool, "EXPLICIT"
  // With "EXPLICIT": before and after each of the four dimensions, eight numbers.
  std::vector<std::int64_t> explicit_paddings = {};
  std::array<std::int64_t, 2> dilations{1, 1};  // of convolutions
  std::string data_format = "NHWC";
};

// filters: [rows, columns, in_channels / groups, out_channels]
Output conv2d(Output input, Output filters, const WindowOptions& window = {}, const std::string& name = "");
// filters: [rows, columns, out_channels, in_channels]; output_shape has all four dimensions.
Output conv2d_transpose(Output input, Output filters, const Ints& output_shape, const WindowOptions& window = {},
                        const std::string& name = "");
// filters: [rows, columns, in_channels, outputs of each]
Output depthwise_conv2d(Output input, Output filters, const WindowOptions& window = {}, const std::string& name = "");
Output max_pool(Output input, std::array<std::int64_t, 2> ksize, const WindowOptions& window = {},
                const std::string& name = "");
// The mean of the elements that are no padding.
Output avg_pool(Output input, std::array<std::int64_t, 2> ksize, const WindowOptions& window = {},
                const std::string& name = "");

struct BatchNormOptions {
  Output mean, variance;  // what to normalise by unless is_training, or the running averages to update
  float epsilon = 0.001f;
  float exponential_avg_factor = 1.0f;  // 1: batch_mean and batch_variance are the batch's own
  bool is_training = true;
  std::string data_format = "NHWC";
};
struct BatchNormOutputs {
  Output y, batch_mean, batch_variance;
};
BatchNormOutputs fused_batch_norm(Output x, Output scale, Output offset, const BatchNormOptions& options = {},
                                  const std::string& name = "");

struct LrnOptions {
  std::int64_t depth_radius = 5;
  float bias = 1.0f;
  float alpha = 1.0f;
  float beta = 0.5f;
};
Output local_response_normalization(Output input, const LrnOptions& options = {}, const std::string& name = "");

}  // namespace tutti::nn
