#include "tutti/ops/nn.h"

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti::nn {

Output relu(Output x, const std::string& name) { return op1("Relu", {x}, {}, name); }
Output relu6(Output x, const std::string& name) { return op1("Relu6", {x}, {}, name); }
Output elu(Output x, const std::string& name) { return op1("Elu", {x}, {}, name); }
Output selu(Output x, const std::string& name) { return op1("Selu", {x}, {}, name); }
Output leaky_relu(Output x, float alpha, const std::string& name) {
  return op1("LeakyRelu", {x}, {{"alpha", alpha}}, name);
}
Output softplus(Output x, const std::string& name) { return op1("Softplus", {x}, {}, name); }
Output softsign(Output x, const std::string& name) { return op1("Softsign", {x}, {}, name); }
Output sigmoid(Output x, const std::string& name) { return op1("Sigmoid", {x}, {}, name); }
Output tanh(Output x, const std::string& name) { return op1("Tanh", {x}, {}, name); }
Output bias_add(Output value, Output bias, const std::string& name) { return op1("BiasAdd", {value, bias}, {}, name); }
Output softmax(Output logits, const std::string& name) { return op1("Softmax", {logits}, {}, name); }
Output log_softmax(Output logits, const std::string& name) { return op1("LogSoftmax", {logits}, {}, name); }

Output softmax_cross_entropy_with_logits(Output labels, Output logits, const std::string& name) {
  return op1("SoftmaxCrossEntropyWithLogits", {logits, stop_gradient(labels)}, {}, name);
}

Output sparse_softmax_cross_entropy_with_logits(Output labels, Output logits, const std::string& name) {
  return op1("SparseSoftmaxCrossEntropyWithLogits", {logits, labels}, {}, name);
}

Output l2_loss(Output x, const std::string& name) { return op1("L2Loss", {x}, {}, name); }

Output in_top_k(Output predictions, Output targets, std::int64_t k, const std::string& name) {
  return op1("InTopK", {predictions, targets}, {{"k", k}}, name);
}

Output dropout(Output x, double rate, std::int64_t seed, const std::string& name) {
  if (!x) throw_error(invalid_argument("dropout: input 0 is empty"));
  if (!(rate >= 0 && rate < 1)) throw_error(invalid_argument("dropout: rate must be in [0, 1), got ", rate));
  if (rate == 0) return x;
  ScopeGuard scope = x.graph().name_scope(name.empty() ? "dropout" : name);
  // TensorFlow's rule for an op seed without a graph seed.
  const std::int64_t graph_seed = seed == 0 ? 0 : 87654321;
  Output random = op1("RandomUniform", {shape_of(x)}, {{"dtype", x.dtype()}, {"seed", graph_seed}, {"seed2", seed}});
  Output keep = greater_equal(random, constant(x.graph(), rate, x.dtype()));
  return mul(x * (1 / (1 - rate)), cast(keep, x.dtype()));
}

}  // namespace tutti::nn
