// Builders of activations, losses and the like, named as in TensorFlow's tf.nn. They throw Error.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/graph/graph.h"

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

}  // namespace tutti::nn
