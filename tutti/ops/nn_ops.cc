// Rows of activations, bias, softmax and cross-entropy.

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/nn.h"
#include "tutti/kernels/cpu/reduction.h"
#include "tutti/kernels/cpu/softmax.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using cpu::BinaryOp;
using cpu::UnaryOp;
using internal::known_shape_of;
using internal::scalar_like;

// --- Shapes. ---

Status check_bias(const PartialShape& value, const PartialShape& bias, bool channels_first) {
  if (!value.has_rank()) return {};
  const std::int64_t channels = value.dim(channels_first ? 1 : value.rank() - 1);
  if (channels == kUnknownDim || bias.dim(0) == kUnknownDim || channels == bias.dim(0)) return {};
  return invalid_argument("Must provide as many biases as the ", channels_first ? "second" : "last",
                          " dimension of the input tensor: ", bias, " vs. ", value);
}

Status bias_add_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape value, c.with_rank_at_least(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape bias, c.with_rank(1, 1));
  const AttrValue* format = c.node().find_attr("data_format");
  TUTTI_RETURN_IF_ERROR(check_bias(value, bias, format != nullptr && *format == AttrValue("NCHW")));
  c.set_output(0, std::move(value));
  return {};
}

Status bias_add_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape value, c.with_rank_at_least(0, 2));
  const bool channels_first = c.attr<std::string>("data_format") == "NCHW";
  c.set_output(0, PartialShape{value.has_rank() ? value.dim(channels_first ? 1 : value.rank() - 1) : kUnknownDim});
  return {};
}

Status softmax_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape logits, c.with_rank_at_least(0, 1));
  c.set_output(0, std::move(logits));
  return {};
}

Status cross_entropy_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape matrix, broadcast_shapes(c.input(0), c.input(1)));
  if (matrix.has_rank() && matrix.rank() != 2) {
    return invalid_argument("logits and labels must be broadcastable to one matrix: logits_size=", c.input(0),
                            " labels_size=", c.input(1));
  }
  if (!matrix.has_rank()) matrix = PartialShape::unknown_of_rank(2);
  c.set_output(0, PartialShape{matrix.dim(0)});
  c.set_output(1, std::move(matrix));
  return {};
}

Status sparse_cross_entropy_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape features, c.with_rank(0, 2));
  TUTTI_ASSIGN_OR_RETURN(PartialShape labels, c.with_rank(1, 1));
  Result<PartialShape> batch = PartialShape{features.dim(0)}.merge(labels);
  if (!batch.ok()) {
    return invalid_argument("logits and labels must have the same first dimension, got logits shape ", features,
                            " and labels shape ", labels);
  }
  features.set_dim(0, batch->dim(0));
  c.set_output(0, *std::move(batch));
  c.set_output(1, std::move(features));
  return {};
}

Status in_top_k_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 2).status());
  TUTTI_ASSIGN_OR_RETURN(PartialShape targets, c.with_rank(1, 1));
  c.set_output(0, std::move(targets));
  return {};
}

// --- Gradients. ---

// `op` takes the gradient and the function's value.
GradFn by_gradient_and_output(const std::string& op) {
  return [op](GradContext& g) { g.set(0, op1(op, {g.grad(), g.output(0)})); };
}
GradFn by_input(const std::string& op) {
  return [op](GradContext& g) { g.set(0, op1(op, {g.grad(), g.input(0)})); };
}

void leaky_relu_grad(GradContext& g) {
  g.set(0, op1("LeakyReluGrad", {g.grad(), g.input(0)}, {{"alpha", g.attr<float>("alpha")}}));
}

void softplus_grad(GradContext& g) { g.set(0, mul(g.grad(), sigmoid(g.input(0)))); }

// Of the ops that take (dy, x) and are linear in dy, with steps of x only.
GradFn linear_in_gradient(const std::string& op) {
  return [op](GradContext& g) {
    if (g.needs(0)) g.set(0, op1(op, {g.grad(), g.input(1)}));
    if (g.needs(1)) g.set(1, zeros_like(g.input(1)));
  };
}

void leaky_relu_grad_grad(GradContext& g) {
  if (g.needs(0)) g.set(0, op1("LeakyReluGrad", {g.grad(), g.input(1)}, {{"alpha", g.attr<float>("alpha")}}));
  if (g.needs(1)) g.set(1, zeros_like(g.input(1)));
}

// Below zero EluGrad and SeluGrad are dy * (y + c): by y, that is dy.
GradFn exponential_grad_grad(const std::string& op) {
  return [op](GradContext& g) {
    Output y = g.input(1);
    if (g.needs(0)) g.set(0, op1(op, {g.grad(), y}));
    if (g.needs(1)) g.set(1, where(less(y, scalar_like(y, 0)), mul(g.grad(), g.input(0)), scalar_like(y, 0)));
  };
}

void softplus_grad_grad(GradContext& g) {
  Output x = g.input(1);
  if (g.needs(0)) g.set(0, op1("SoftplusGrad", {g.grad(), x}));
  if (!g.needs(1)) return;
  // Not as s (1 - s), which loses its digits where s is near 1.
  g.set(1, div(mul(g.grad(), g.input(0)), add(add(exp(neg(x)), scalar_like(x, 2)), exp(x))));
}

// dy / (1 + |x|)^2: by x, -2 sign(x) / (1 + |x|) of itself.
void softsign_grad_grad(GradContext& g) {
  Output x = g.input(1);
  if (g.needs(0)) g.set(0, op1("SoftsignGrad", {g.grad(), x}));
  if (!g.needs(1)) return;
  Output slope = div(mul(scalar_like(x, -2), sign(x)), add(scalar_like(x, 1), abs(x)));
  g.set(1, mul(g.grad(), mul(slope, g.output(0))));
}

void bias_add_grad(GradContext& g) {
  if (g.needs(0)) g.set(0, g.grad());
  if (!g.needs(1)) return;
  const AttrValue* format = g.node().find_attr("data_format");
  g.set(1, op1("BiasAddGrad", {g.grad()}, {{"data_format", format != nullptr ? *format : AttrValue("NHWC")}}));
}

// Every element of a channel gets the channel's gradient.
void bias_add_grad_grad(GradContext& g) {
  Output x = g.input(0);
  Output grad = g.grad();
  if (g.attr<std::string>("data_format") == "NCHW") {
    // [1, channels, 1, 1, ...]
    Output others = strided_slice(shape_of(x), {2}, {0}, {1}, {.end_mask = 1});
    grad = reshape(grad, concat({Ints{1, -1}.in(x.graph()), ones_like(others)}, 0));
  }
  g.set(0, broadcast_to(grad, known_shape_of(x)));
}

Output sum_last(Output x) { return reduce_sum(x, Reduce(Ints{-1}, true)); }

void softmax_grad(GradContext& g) {
  Output y = g.output(0);
  g.set(0, mul(sub(g.grad(), sum_last(mul(g.grad(), y))), y));
}

void log_softmax_grad(GradContext& g) { g.set(0, sub(g.grad(), mul(sum_last(g.grad()), exp(g.output(0))))); }

// Gradient of the logits: through the loss, and through backprop where that is used (second derivatives).
Output logits_grad(GradContext& g) {
  Output through_loss = mul(expand_dims(g.grad(0), -1), g.output(1));
  if (!g.has_grad(1)) return through_loss;
  Output y = nn::softmax(g.input(0));
  Output down = g.grad(1);
  return add(through_loss, mul(sub(down, sum_last(mul(down, y))), y));
}

void cross_entropy_grad(GradContext& g) {
  if (g.needs(0)) g.set(0, logits_grad(g));
  if (!g.needs(1)) return;
  // Through the loss only: like TensorFlow, the labels' part in the second derivative is left out.
  g.set(1, mul(expand_dims(g.grad(0), -1), neg(nn::log_softmax(g.input(0)))));
}

void sparse_cross_entropy_grad(GradContext& g) { g.set(0, logits_grad(g)); }

// --- Rows. ---

struct Activation {
  const char* name;
  DTypeSet types;
  UnaryOp op;
  GradFn grad;
  const char* attrs = "T: type";
  DTypeSet kernel_types = DTypeSet::all();
};

void add_activation(OpTable& ops, const Activation& row) {
  ops.add({.name = row.name,
           .signature = "features: T -> activations: T",
           .attrs = row.attrs,
           .types = row.types,
           .shape = shape::unchanged,
           .grad = row.grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::unary_kernel(row.op), row.kernel_types)}});
}

struct ActivationGrad {
  const char* name;
  const char* second;  // "features" or "outputs"
  DTypeSet types;
  BinaryOp op;
  GradFn grad;
  const char* attrs = "T: type";
};

void add_activation_grad(OpTable& ops, const ActivationGrad& row) {
  ops.add({.name = row.name,
           .signature = str_cat("gradients: T, ", row.second, ": T -> backprops: T"),
           .attrs = row.attrs,
           .types = row.types,
           .shape = shape::all_same,
           .grad = row.grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::same_shape_kernel(row.op))}});
}

void register_activations(OpTable& ops) {
  const char* leaky = "alpha: float = 0.2; T: {half, bfloat16, float, double} = float";
  add_activation(ops, {"Relu", kReals | DTypeSet{DType::kQint8}, UnaryOp::kRelu, by_gradient_and_output("ReluGrad"),
                       "T: type", kReals});
  add_activation(ops, {"Relu6", kReals, UnaryOp::kRelu6, by_gradient_and_output("Relu6Grad")});
  add_activation(ops, {"Elu", kFloats, UnaryOp::kElu, by_gradient_and_output("EluGrad")});
  add_activation(ops, {"Selu", kFloats, UnaryOp::kSelu, by_gradient_and_output("SeluGrad")});
  add_activation(ops, {"LeakyRelu", kFloats, UnaryOp::kLeakyRelu, leaky_relu_grad, leaky});
  add_activation(ops, {"Softplus", kFloats, UnaryOp::kSoftplus, softplus_grad});
  add_activation(ops, {"Softsign", kFloats, UnaryOp::kSoftsign, by_input("SoftsignGrad")});

  add_activation_grad(ops, {"ReluGrad", "features", kReals, BinaryOp::kReluGrad, linear_in_gradient("ReluGrad")});
  add_activation_grad(ops, {"Relu6Grad", "features", kReals, BinaryOp::kRelu6Grad, linear_in_gradient("Relu6Grad")});
  add_activation_grad(ops, {"EluGrad", "outputs", kFloats, BinaryOp::kEluGrad, exponential_grad_grad("EluGrad")});
  add_activation_grad(ops, {"SeluGrad", "outputs", kFloats, BinaryOp::kSeluGrad, exponential_grad_grad("SeluGrad")});
  add_activation_grad(ops,
                      {"LeakyReluGrad", "features", kFloats, BinaryOp::kLeakyReluGrad, leaky_relu_grad_grad, leaky});
  add_activation_grad(ops, {"SoftplusGrad", "features", kFloats, BinaryOp::kSoftplusGrad, softplus_grad_grad});
  add_activation_grad(ops, {"SoftsignGrad", "features", kFloats, BinaryOp::kSoftsignGrad, softsign_grad_grad});
}

void register_bias(OpTable& ops) {
  ops.add({.name = "BiasAdd",
           .signature = "value: T, bias: T -> output: T",
           .attrs = "T: type; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
           .types = kNumbers | internal::kQuantised,
           .shape = bias_add_shape,
           .grad = bias_add_grad,
           .kernels = {TUTTI_CPU(cpu::bias_add_kernel(), kNumbers)}});
  ops.add({.name = "_FusedBiasAdd",
           .signature = "value: T, bias: T -> output: T",
           .attrs = "T: type; data_format: {'NHWC', 'NCHW'} = 'NHWC'; activation: {'Relu', 'Relu6', 'Tanh', 'Sigmoid'}",
           .types = kFloats,
           .shape = bias_add_shape,
           .kernels = {TUTTI_CPU(cpu::bias_add_kernel())}});
  ops.add({.name = "BiasAddV1",
           .signature = "value: T, bias: T -> output: T",
           .attrs = "T: type",
           .types = kNumbers | internal::kQuantised,
           .shape = bias_add_shape,
           .grad = bias_add_grad,
           .kernels = {TUTTI_CPU(cpu::bias_add_kernel(), kNumbers)}});
  ops.add({.name = "BiasAddGrad",
           .signature = "out_backprop: T -> output: T",
           .attrs = "T: type; data_format: {'NHWC', 'NCHW'} = 'NHWC'",
           .types = kNumbers | internal::kQuantised,
           .shape = bias_add_grad_shape,
           .grad = bias_add_grad_grad,
           .kernels = {TUTTI_CPU(cpu::bias_add_grad_kernel(), kNumbers)}});
}

void register_softmax(OpTable& ops) {
  ops.add({.name = "Softmax",
           .signature = "logits: T -> softmax: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = softmax_shape,
           .grad = softmax_grad,
           .kernels = {TUTTI_CPU(cpu::softmax_kernel())}});
  ops.add({.name = "LogSoftmax",
           .signature = "logits: T -> logsoftmax: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = softmax_shape,
           .grad = log_softmax_grad,
           .kernels = {TUTTI_CPU(cpu::log_softmax_kernel())}});
  ops.add({.name = "SoftmaxCrossEntropyWithLogits",
           .signature = "features: T, labels: T -> loss: T, backprop: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = cross_entropy_shape,
           .grad = cross_entropy_grad,
           .kernels = {TUTTI_CPU(cpu::softmax_cross_entropy_kernel())}});
  ops.add({.name = "SparseSoftmaxCrossEntropyWithLogits",
           .signature = "features: T, labels: Tlabels -> loss: T, backprop: T",
           .attrs = "T: type; Tlabels: {int32, int64} = int64",
           .types = kFloats,
           .shape = sparse_cross_entropy_shape,
           .grad = sparse_cross_entropy_grad,
           .kernels = {TUTTI_CPU(cpu::sparse_softmax_cross_entropy_kernel())}});
}

void register_top_k(OpTable& ops) {
  ops.add({.name = "InTopK",
           .signature = "predictions: float, targets: T -> precision: bool",
           .attrs = "k: int; T: {int32, int64} = int32",
           .shape = in_top_k_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::in_top_k_kernel())}});
  ops.add({.name = "InTopKV2",
           .signature = "predictions: float, targets: T, k: T -> precision: bool",
           .attrs = "T: {int32, int64} = int32",
           .shape = in_top_k_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::in_top_k_kernel())}});
}

}  // namespace

void register_nn_ops(OpTable& ops) {
  register_activations(ops);
  register_bias(ops);
  register_softmax(ops);
  register_top_k(ops);
}

}  // namespace tutti
