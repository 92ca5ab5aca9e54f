// Gradient of While and StatelessWhile.
//
// The forward loop gets more variables: a counter of its iterations, and for each value that the body's
// gradient reads, a list to which every iteration appends. The backward loop runs as often as the counter says,
// takes the values off the lists from the end, and carries
//   * for each variable that changes, the gradient with respect to it at that point of the loop;
//   * for each variable that does not change (weights, resources), the sum over the iterations.
// What does not change is handed to the backward loop once, not stacked.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "tutti/ops/builders.h"
#include "tutti/ops/internal/differentiated_body.h"
#include "tutti/ops/internal/function_grad.h"

namespace tutti::internal {
namespace {

Output make_const(Graph& graph, Tensor value) {
  const DType dtype = value.dtype();
  return add_op(graph, "Const", {}, {{"dtype", dtype}, {"value", std::move(value)}})->output();
}

Output make_int64(Graph& graph, std::int64_t value) { return make_const(graph, Tensor::scalar(value)); }

// A shape as list ops take it: -1 for what is open, the scalar -1 when even the rank is.
Output element_shape(Graph& graph, const PartialShape& shape) {
  if (!shape.has_rank()) return make_const(graph, Tensor::scalar(std::int32_t{-1}));
  std::vector<std::int32_t> dims;
  for (std::int64_t dim : shape.dims()) {
    dims.push_back(dim > std::numeric_limits<std::int32_t>::max() ? -1 : static_cast<std::int32_t>(dim));
  }
  return make_const(graph, Tensor::vector<std::int32_t>(dims));
}

// Whether the body returns this argument as it came, for values and for gradients.
bool returns_unchanged(Output result, const Node* arg) {
  while (result.node != arg && result.node->op().has(kPassThrough) && !result.node->op().no_gradient) {
    result = result.node->input(0);
  }
  return result.node == arg;
}

class WhileGradient {
 public:
  explicit WhileGradient(GradContext& context)
      : context_(context), node_(context.node()), graph_(context.graph()), num_variables_(node_.num_outputs()) {}

  void run() {
    FunctionBody probe = instantiate_body(graph_, context_.attr<FunctionRef>("body"));
    if (static_cast<int>(probe.args.size()) != num_variables_ ||
        static_cast<int>(probe.retvals.size()) != num_variables_) {
      throw_error(invalid_argument("gradients: ", node_.describe(), " has ", num_variables_,
                                   " variables, its body takes ", probe.args.size(), " and returns ",
                                   probe.retvals.size()));
    }
    for (int i = 0; i < num_variables_; ++i) {
      unchanged_.push_back(returns_unchanged(probe.retvals[i]->input(0), probe.args[i]));
    }
    choose_variables(gradient_paths(probe, context_.overrides()));
    differentiate();
    if (carried_.empty()) return;
    rewrite_forward();
    add_backward();
  }

 private:
  // Of the variables, those between the gradients that come in and those that are asked for. Both sets grow over
  // the iterations, hence the search for a fixed point.
  void choose_variables(const std::vector<std::vector<bool>>& paths) {
    std::vector<bool> reached;
    std::vector<bool> leads_back;
    for (int i = 0; i < num_variables_; ++i) {
      reached.push_back(context_.has_grad(i));
      leads_back.push_back(context_.needs(i));
    }
    for (bool grown = true; grown;) {
      grown = false;
      for (int i = 0; i < num_variables_; ++i) {
        for (int j = 0; j < num_variables_; ++j) {
          if (!paths[i][j]) continue;
          if (reached[i] && !reached[j]) reached[j] = grown = true;
          if (leads_back[j] && !leads_back[i]) leads_back[i] = grown = true;
        }
      }
    }
    for (int i = 0; i < num_variables_; ++i) {
      if (!reached[i] || !leads_back[i]) continue;
      (unchanged_[i] ? summed_ : carried_).push_back(i);
    }
  }

  void differentiate() {
    std::vector<bool> has_grad(num_variables_, false);
    std::vector<bool> wanted(num_variables_, false);
    for (int i : carried_) {
      if (node_.output(i).dtype() == DType::kResource) {
        throw_error(unimplemented("gradients: variable ", i, " of ", node_.describe(),
                                  " is a resource that changes inside the loop"));
      }
      has_grad[i] = wanted[i] = true;
    }
    for (int j : summed_) wanted[j] = true;
    body_ = std::make_unique<DifferentiatedBody>(graph_, context_.attr<FunctionRef>("body"), has_grad, wanted,
                                                 context_.overrides());
    // A sum over the iterations has one shape; rows would be more in each.
    for (int i = 0; i < num_variables_; ++i) body_->make_dense(i);
    for (int i : carried_) {
      if (!body_->arg_grad(i)) body_->set_zero_grad(i, node_.output(i).dtype());
    }
    // What the body's gradient does not touch has the gradient that comes in.
    std::erase_if(summed_, [&](int j) {
      if (body_->arg_grad(j)) return false;
      if (context_.has_grad(j)) context_.set(j, context_.raw_grad(j));
      return true;
    });
    body_->split(unchanged_);
  }

  // Initial values of the new variables must not wait for anything: the loop now reads them.
  Output initial_value(Output value) {
    graph_.set_control_inputs(*value.node, {});
    return value;
  }

  void rewrite_forward() {
    Graph& inner = body_->graph();
    std::vector<Output> args;
    std::vector<Output> results;
    for (int i = 0; i < num_variables_; ++i) {
      args.push_back(body_->arg(i));
      results.push_back(body_->result(i));
    }
    args.push_back(body_->add_arg(DType::kInt64, PartialShape::scalar()));
    results.push_back(op1("AddV2", {args.back(), make_int64(inner, 1)}));
    std::vector<Output> initial(node_.inputs().begin(), node_.inputs().end());
    initial.push_back(initial_value(make_int64(graph_, 0)));
    for (Output capture : body_->captures()) {
      args.push_back(body_->add_arg(DType::kVariant, PartialShape::scalar()));
      results.push_back(op1("TensorListPushBack", {args.back(), capture}));
      Output shape = initial_value(element_shape(graph_, capture.shape()));
      Output no_limit = initial_value(make_const(graph_, Tensor::scalar(std::int32_t{-1})));
      initial.push_back(initial_value(op1("EmptyTensorList", {shape, no_limit}, {{"element_dtype", capture.dtype()}})));
    }
    rebuild(std::move(initial), body_->extract_forward(args, results));
  }

  void rebuild(std::vector<Output> initial, FunctionRef body) {
    std::vector<DType> types;
    for (Output value : initial) types.push_back(value.dtype());
    NodeSpec spec{.op = node_.op_name(), .inputs = std::move(initial), .attrs = node_.attrs()};
    spec.control_inputs.assign(node_.control_inputs().begin(), node_.control_inputs().end());
    spec.device = node_.requested_device();
    spec.attrs["cond"] = widened_condition(types);
    spec.attrs["body"] = std::move(body);
    std::vector<PartialShape> shapes = context_.attr<std::vector<PartialShape>>("output_shapes");
    if (!shapes.empty()) {
      shapes.resize(types.size(), PartialShape::scalar());
      spec.attrs["output_shapes"] = std::move(shapes);
    }
    spec.attrs["T"] = std::move(types);
    throw_if_error(graph_.rebuild(node_, std::move(spec)));
  }

  // The condition with arguments for the new variables, which it does not read.
  FunctionRef widened_condition(const std::vector<DType>& types) {
    const FunctionRef& cond = context_.attr<FunctionRef>("cond");
    FunctionBody wide = instantiate_body(graph_, cond);
    for (std::size_t i = wide.args.size(); i < types.size(); ++i) {
      wide.args.push_back(add_op(*wide.graph, "_Arg", {}, {{"T", types[i]}, {"index", static_cast<std::int64_t>(i)}}));
    }
    return add_function(cond.name + "_forward", wide);
  }

  FunctionRef add_function(const std::string& base, const FunctionBody& body) {
    std::string name = graph_.library().unique_name(base);
    throw_if_error(graph_.library().add(name, body));
    return FunctionRef{name, nullptr};
  }

  // One variable of the backward loop.
  void add_variable(Output initial, const PartialShape& shape, Output arg, Output result) {
    initial_.push_back(initial);
    shapes_.push_back(shape);
    args_.push_back(arg);
    results_.push_back(result);
  }

  void add_counter() {
    Output left = body_->add_arg(DType::kInt64, PartialShape::scalar());
    add_variable(node_.output(num_variables_), PartialShape::scalar(), left,
                 op1("Sub", {left, make_int64(body_->graph(), 1)}));
  }

  void add_lists() {
    const std::vector<Output> captures = body_->captures();
    for (std::size_t k = 0; k < captures.size(); ++k) {
      Output list = body_->add_arg(DType::kVariant, PartialShape::scalar());
      Node* pop =
          add_op(body_->graph(), "TensorListPopBack", {list, element_shape(body_->graph(), captures[k].shape())},
                 {{"element_dtype", captures[k].dtype()}});
      body_->replace_capture(captures[k], pop->output(1));
      add_variable(node_.output(num_variables_ + 1 + static_cast<int>(k)), PartialShape::scalar(), list,
                   pop->output(0));
    }
  }

  void add_gradients() {
    first_gradient_ = static_cast<int>(initial_.size());
    for (int i : carried_) {
      add_variable(context_.grad(i), node_.output(i).shape(), body_->result_grad(i), body_->arg_grad(i));
    }
    for (int j : summed_) {
      Output input = node_.input(j);
      const DType dtype = body_->arg_grad(j).dtype();
      const PartialShape shape = input.dtype() == DType::kResource ? PartialShape() : input.shape();
      Output sum = body_->add_arg(dtype, shape);
      add_variable(context_.has_grad(j) ? context_.grad(j) : zeros_like(input, dtype), shape, sum,
                   op1("AddN", {sum, body_->arg_grad(j)}));
    }
  }

  void add_unchanged() {
    for (int j : body_->captured_args()) {
      add_variable(node_.input(j), node_.input(j).shape(), body_->arg(j), body_->arg(j));
    }
  }

  FunctionRef backward_condition(const std::vector<DType>& types) {
    FunctionBody cond = make_function_body(graph_, types);
    set_results(cond, {op1("Greater", {cond.args[0]->output(), make_int64(*cond.graph, 0)})});
    return add_function(context_.attr<FunctionRef>("body").name + "_backward_cond", cond);
  }

  void add_backward() {
    add_counter();
    add_lists();
    add_gradients();
    add_unchanged();
    std::vector<DType> types;
    for (Output value : initial_) types.push_back(value.dtype());
    FunctionRef cond = backward_condition(types);
    AttrMap attrs = {{"T", types},
                     {"cond", std::move(cond)},
                     {"body", body_->extract_backward(args_, results_)},
                     {"output_shapes", shapes_},
                     {"parallel_iterations", context_.attr<std::int64_t>("parallel_iterations")}};
    Node* backward = add_op(graph_, node_.op_name(), initial_, std::move(attrs));
    int next = first_gradient_;
    for (int i : carried_) context_.set(i, backward->output(next++));
    for (int j : summed_) context_.set(j, backward->output(next++));
  }

  GradContext& context_;
  Node& node_;
  Graph& graph_;
  const int num_variables_;  // before the loop is rewritten
  std::vector<bool> unchanged_;
  std::vector<int> carried_;  // change, and have a gradient
  std::vector<int> summed_;   // do not change, and have a gradient
  std::unique_ptr<DifferentiatedBody> body_;
  // The backward loop's variables.
  std::vector<Output> initial_;
  std::vector<PartialShape> shapes_;
  std::vector<Output> args_;
  std::vector<Output> results_;
  int first_gradient_ = 0;
};

}  // namespace

void while_grad(GradContext& context) { WhileGradient(context).run(); }

}  // namespace tutti::internal
