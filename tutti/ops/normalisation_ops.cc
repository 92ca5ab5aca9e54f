// Rows of batch normalisation and local response normalisation.

#include <algorithm>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/batch_norm.h"
#include "tutti/kernels/cpu/lrn.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

bool channels_first(const std::string& format) { return format == "NCHW" || format == "NCDHW"; }

// --- Shapes. ---

// The shape of input i, images or volumes; its channels merged with the vectors in inputs [first, end).
struct Normalised {
  PartialShape x;
  PartialShape channels = PartialShape::unknown_of_rank(1);
};

Result<Normalised> normalised(ShapeContext& c, int i, int first, int end) {
  Normalised n;
  n.x = c.input(i);
  const std::string& format = c.attr<std::string>("data_format");
  if (n.x.has_rank()) {
    if (n.x.rank() != 4 && n.x.rank() != 5) {
      return invalid_argument("input must be 4 or 5-dimensional, got ", n.x);
    }
    n.channels = PartialShape{n.x.dim(channels_first(format) ? 1 : n.x.rank() - 1)};
  }
  for (int k = first; k < end; ++k) {
    TUTTI_ASSIGN_OR_RETURN(PartialShape vector, c.with_rank(k, 1));
    Result<PartialShape> both = n.channels.merge(vector);
    if (!both.ok()) {
      return invalid_argument("input ", k, " must have as many elements as the channels of x, got ", vector, " for x ",
                              n.x);
    }
    n.channels = *std::move(both);
  }
  if (n.x.has_rank()) n.x.set_dim(channels_first(format) ? 1 : n.x.rank() - 1, n.channels.dim(0));
  return n;
}

Status batch_norm_shape(ShapeContext& c) {
  const bool uses_given = !c.attr<bool>("is_training") || c.attr<float>("exponential_avg_factor") != 1;
  TUTTI_ASSIGN_OR_RETURN(Normalised n, normalised(c, 0, 1, uses_given ? 5 : 3));
  c.set_output(0, std::move(n.x));
  for (int i = 1; i < 5; ++i) c.set_output(i, n.channels);
  return {};
}

Status batch_norm_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(Normalised n, normalised(c, 1, 2, 5));
  TUTTI_ASSIGN_OR_RETURN(PartialShape x, n.x.merge(c.input(0)));
  c.set_output(0, std::move(x));
  for (int i : {1, 2}) c.set_output(i, n.channels);
  for (int i : {3, 4}) c.set_output(i, PartialShape{0});
  return {};
}

Status lrn_shape(ShapeContext& c) {
  PartialShape all = PartialShape::unknown_of_rank(4);
  for (int i = 0; i < c.num_inputs(); ++i) {
    TUTTI_ASSIGN_OR_RETURN(all, all.merge(c.input(i)));
  }
  c.set_output(0, std::move(all));
  return {};
}

// --- Gradients. ---

AttrMap norm_attrs(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"epsilon", "data_format", "is_training"}) attrs[name] = *g.node().find_attr(name);
  return attrs;
}

// In training by the statistics that the op kept; otherwise by those it was given, through which, as in TensorFlow, no
// gradient flows.
GradFn batch_norm_grad(const std::string& version) {
  return [version](GradContext& g) {
    const bool training = g.attr<bool>("is_training");
    Output scale = g.input(1);
    if (version != "" && scale.dtype() != DType::kFloat) scale = cast(scale, DType::kFloat);
    std::vector<Output> inputs{g.grad(0), g.input(0), scale};
    for (int i : {3, 4}) {
      Output statistic = training ? g.output(i) : g.input(i);
      if (statistic.dtype() != DType::kFloat) statistic = cast(statistic, DType::kFloat);
      inputs.push_back(statistic);
    }
    if (version == "V3") {
      Output scratch = g.output(5);
      inputs.push_back(scratch.dtype() == DType::kFloat ? scratch : cast(scratch, DType::kFloat));
    }
    Node* node = add_op(g.graph(), "FusedBatchNormGrad" + version, inputs, norm_attrs(g));
    g.set(0, node->output(0));
    for (int i : {1, 2}) {
      Output vector = node->output(i);
      g.set(i, vector.dtype() == g.input(i).dtype() ? vector : cast(vector, g.input(i).dtype()));
    }
  };
}

// The three gradients of batch normalisation as an expression of dy, x and scale, to be differentiated once more.
std::vector<Output> grad_expression(GradContext& g, Output dy, Output x, Output scale) {
  const std::string& format = g.attr<std::string>("data_format");
  const int rank = x.shape().has_rank() ? x.shape().rank() : static_cast<int>(std::max<std::size_t>(4, format.size()));
  const int channel = channels_first(format) ? 1 : rank - 1;
  std::vector<std::int64_t> axes, one_channel(static_cast<std::size_t>(rank), 1);
  for (int d = 0; d < rank; ++d) {
    if (d != channel) axes.push_back(d);
  }
  one_channel[static_cast<std::size_t>(channel)] = -1;
  const auto along = [&](Output vector) { return reshape(vector, Ints(one_channel)); };
  const auto mean = [&](Output v) { return reduce_mean(v, Reduce(Ints(axes), true)); };
  const auto sum = [&](Output v) { return reduce_sum(v, Reduce(Ints(axes))); };
  const double epsilon = static_cast<double>(g.attr<float>("epsilon"));
  const bool training = g.attr<bool>("is_training");
  Output centre = training ? mean(x) : along(g.input(3));
  Output spread = (training ? mean(squared_difference(x, centre)) : along(g.input(4))) + epsilon;
  Output centred = sub(x, centre);
  Output factor = mul(along(scale), rsqrt(spread));
  Output level = dy;
  if (training) level = sub(sub(dy, mean(dy)), mul(div(centred, spread), mean(mul(dy, centred))));
  return {mul(factor, level), sum(mul(mul(dy, centred), rsqrt(spread))), sum(dy)};
}

void batch_norm_grad_grad(GradContext& g) {
  const auto wide = [](Output v) { return v.dtype() == DType::kFloat ? v : cast(v, DType::kFloat); };
  const std::vector<Output> inputs{wide(g.input(0)), wide(g.input(1)), wide(g.input(2))};
  // Stand-ins, so that differentiating does not walk on into what made the inputs.
  std::vector<Output> xs;
  for (Output input : inputs) xs.push_back(identity(input));
  GradientOptions options;
  for (int i = 0; i < 3; ++i) options.grad_ys.push_back(wide(g.grad(i)));
  const std::vector<Output> ys = grad_expression(g, xs[0], xs[1], xs[2]);
  std::vector<Gradient> grads = gradients(ys, xs, options);
  for (int i = 0; i < 3; ++i) {
    Output grad = grads[static_cast<std::size_t>(i)].dense();
    if (!grad) continue;
    g.set(i, grad.dtype() == g.input(i).dtype() ? grad : cast(grad, g.input(i).dtype()));
  }
}

void lrn_grad(GradContext& g) {
  AttrMap attrs;
  for (const char* name : {"depth_radius", "bias", "alpha", "beta"}) attrs[name] = *g.node().find_attr(name);
  g.set(0, op1("LRNGrad", {g.grad(), g.input(0), g.output(0)}, std::move(attrs)));
}

// --- Rows. ---

constexpr DTypeSet kSmallFloats{DType::kHalf, DType::kBfloat16, DType::kFloat};

struct Version {
  std::string name;  // "", "V2", "V3"
  std::string vector_type;
  std::string vector_attr;
  std::string formats;
};

void add_batch_norm(OpTable& ops, const Version& v) {
  const std::string& u = v.vector_type;
  const std::string attrs = "T: type; " + v.vector_attr + "epsilon: float = 0.0001; data_format: " + v.formats +
                            " = 'NHWC'; is_training: bool = true";
  const bool third = v.name == "V3";
  const DTypeSet types = v.name.empty() ? DTypeSet{DType::kFloat} : kSmallFloats;
  const auto vectors = [&u](std::initializer_list<const char*> names) {
    std::string text;
    for (const char* name : names) text += str_cat(", ", name, ": ", u);
    return text;
  };
  ops.add({.name = "FusedBatchNorm" + v.name,
           .signature = "x: T" + vectors({"scale", "offset", "mean", "variance"}) + " -> y: T" +
                        vectors({"batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2"}) +
                        (third ? vectors({"reserve_space_3"}) : ""),
           .attrs = attrs + "; exponential_avg_factor: float = 1.0",
           .types = types,
           .shape = batch_norm_shape,
           .grad = batch_norm_grad(v.name),
           .kernels = {TUTTI_CPU(cpu::batch_norm_kernel())}});
}

void add_batch_norm_grad(OpTable& ops, const Version& v) {
  const std::string& u = v.vector_type;
  const bool third = v.name == "V3";
  const std::string scale = v.name.empty() ? "T" : "float";
  const std::string reserves = third ? str_cat(", reserve_space_3: ", u) : "";
  const int out = third ? 4 : 3;
  ops.add({.name = "FusedBatchNormGrad" + v.name,
           .signature = str_cat("y_backprop: T, x: T, scale: ", scale, ", reserve_space_1: ", u, ", reserve_space_2: ",
                                u, reserves, " -> x_backprop: T, scale_backprop: ", u, ", offset_backprop: ", u,
                                ", reserve_space_", out, ": ", u, ", reserve_space_", out + 1, ": ", u),
           .attrs = "T: type; " + v.vector_attr + "epsilon: float = 0.0001; data_format: " + v.formats +
                    " = 'NHWC'; is_training: bool = true",
           .types = v.name.empty() ? DTypeSet{DType::kFloat} : kSmallFloats,
           .shape = batch_norm_grad_shape,
           .grad = batch_norm_grad_grad,
           .kernels = {TUTTI_CPU(cpu::batch_norm_grad_kernel())}});
}

void register_lrn(OpTable& ops) {
  const char* attrs =
      "depth_radius: int = 5; bias: float = 1.0; alpha: float = 1.0; beta: float = 0.5; "
      "T: {half, bfloat16, float} = float";
  ops.add({.name = "LRN",
           .signature = "input: T -> output: T",
           .attrs = attrs,
           .shape = lrn_shape,
           .grad = lrn_grad,
           .kernels = {TUTTI_CPU(cpu::lrn_kernel())}});
  ops.add({.name = "LRNGrad",
           .signature = "input_grads: T, input_image: T, output_image: T -> output: T",
           .attrs = attrs,
           .shape = lrn_shape,
           .kernels = {TUTTI_CPU(cpu::lrn_grad_kernel())}});
}

}  // namespace

void register_normalisation_ops(OpTable& ops) {
  const char* images = "{'NHWC', 'NCHW'}";
  const char* all = "{'NHWC', 'NCHW', 'NDHWC', 'NCDHW'}";
  add_batch_norm(ops, {"", "T", "", images});
  add_batch_norm(ops, {"V2", "U", "U: {float}; ", images});
  add_batch_norm(ops, {"V3", "U", "U: {bfloat16, float}; ", all});
  add_batch_norm_grad(ops, {"", "T", "", images});
  add_batch_norm_grad(ops, {"V2", "U", "U: {float}; ", images});
  add_batch_norm_grad(ops, {"V3", "U", "U: {float}; ", all});
  register_lrn(ops);
}

}  // namespace tutti
