// Gradients of If, Case and calls: nodes that run one of several functions, once.
//
// Every branch is differentiated by itself. The forward node returns, after its own results, the captures of
// all branches; a branch gives placeholders for those of the others. The backward node chooses with the same
// index and takes captures, arguments that the gradients read, and the gradients of the results.
//
// A gradient that is rows in every branch stays so: the backward node gives values and indices.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "tutti/ops/builders.h"
#include "tutti/ops/internal/differentiated_body.h"
#include "tutti/ops/internal/function_grad.h"

namespace tutti::internal {
namespace {

using Body = DifferentiatedBody;

// The node's functions, and how to write them back into its attributes.
struct Branches {
  std::vector<FunctionRef> functions;
  int first_arg = 0;  // inputs before this choose the branch
  std::string op;
  std::function<void(AttrMap&, const std::vector<FunctionRef>&)> write;
};

class BranchGradient {
 public:
  BranchGradient(GradContext& context, Branches branches)
      : context_(context),
        node_(context.node()),
        branches_(std::move(branches)),
        num_args_(context.num_inputs() - branches_.first_arg),
        num_results_(node_.num_outputs()) {}

  void run() {
    differentiate();
    choose_args();
    if (chosen_.empty()) return;
    for (auto& body : bodies_) body->split(std::vector<bool>(num_args_, true));
    list_captured_args();
    rewrite_forward();
    add_backward();
  }

 private:
  void differentiate() {
    std::vector<bool> has_grad;
    for (int i = 0; i < num_results_; ++i) has_grad.push_back(context_.has_grad(i));
    std::vector<bool> wanted;
    for (int i = 0; i < num_args_; ++i) wanted.push_back(context_.needs(branches_.first_arg + i));
    for (const FunctionRef& function : branches_.functions) {
      bodies_.push_back(std::make_unique<Body>(context_.graph(), function, has_grad, wanted, context_.overrides()));
    }
  }

  // The arguments that have a gradient in any branch; the other branches give zeros.
  void choose_args() {
    for (int i = 0; i < num_args_; ++i) {
      if (rows_everywhere(i)) {
        chosen_.push_back(i);
        continue;
      }
      for (auto& body : bodies_) body->make_dense(i);
      auto with = std::find_if(bodies_.begin(), bodies_.end(), [&](auto& body) { return bool(body->arg_grad(i)); });
      if (with == bodies_.end()) continue;
      const DType dtype = (*with)->arg_grad(i).dtype();
      for (auto& body : bodies_) {
        if (!body->arg_grad(i)) body->set_zero_grad(i, dtype);
      }
      chosen_.push_back(i);
    }
  }

  // Indices of one type, too.
  bool rows_everywhere(int i) const {
    const auto& first = bodies_[0]->arg_rows(i);
    return std::all_of(bodies_.begin(), bodies_.end(), [&](const auto& body) {
      const auto& rows = body->arg_rows(i);
      return rows && first && rows->indices.dtype() == first->indices.dtype();
    });
  }

  // What a backward function returns for the chosen arguments: of each the gradient, or values and indices.
  std::vector<Output> gradient_results(const Body& body) const {
    std::vector<Output> results;
    for (int i : chosen_) {
      if (const auto& rows = body.arg_rows(i)) {
        results.push_back(rows->values);
        results.push_back(rows->indices);
      } else {
        results.push_back(body.arg_grad(i));
      }
    }
    return results;
  }

  // How many rows there are is for each branch to say.
  std::vector<PartialShape> gradient_shapes() const {
    std::vector<PartialShape> shapes;
    for (int i : chosen_) {
      if (bodies_[0]->arg_rows(i)) {
        shapes.resize(shapes.size() + 2);
        continue;
      }
      Output arg = node_.input(branches_.first_arg + i);
      shapes.push_back(arg.dtype() == DType::kResource ? PartialShape() : arg.shape());
    }
    return shapes;
  }

  // The whole of an argument's gradient has the shape of the argument, which is at hand here.
  Output dense_shape(int i) const {
    Output arg = node_.input(branches_.first_arg + i);
    const DType dtype = bodies_[0]->arg_rows(i)->dense_shape.dtype();
    return op1(arg.dtype() == DType::kResource ? "VariableShape" : "Shape", {arg}, {{"out_type", dtype}});
  }

  void list_captured_args() {
    for (auto& body : bodies_) {
      captured_args_.insert(captured_args_.end(), body->captured_args().begin(), body->captured_args().end());
    }
    std::sort(captured_args_.begin(), captured_args_.end());
    captured_args_.erase(std::unique(captured_args_.begin(), captured_args_.end()), captured_args_.end());
  }

  // For each capture of any branch, in order: in `mine` the value itself, in the others what `stand_in` makes.
  template <typename StandIn>
  std::vector<Output> capture_slots(const Body& mine, StandIn stand_in) const {
    std::vector<Output> slots;
    for (const auto& body : bodies_) {
      for (Output capture : body->captures()) {
        slots.push_back(body.get() == &mine ? capture : stand_in(capture.dtype()));
      }
    }
    return slots;
  }

  void rewrite_forward() {
    std::vector<FunctionRef> functions;
    for (auto& body : bodies_) {
      std::vector<Output> args;
      for (int i = 0; i < num_args_; ++i) args.push_back(body->arg(i));
      std::vector<Output> results;
      for (int i = 0; i < num_results_; ++i) results.push_back(body->result(i));
      std::vector<Output> slots = capture_slots(*body, [&](DType dtype) {
        return add_op(body->graph(), "FakeParam", {}, {{"dtype", dtype}, {"shape", PartialShape()}})->output();
      });
      results.insert(results.end(), slots.begin(), slots.end());
      functions.push_back(body->extract_forward(args, results));
    }
    rebuild(functions);
  }

  void rebuild(const std::vector<FunctionRef>& functions) {
    std::vector<DType> types;
    for (const EdgeType& type : node_.output_types()) types.push_back(type.dtype);
    for (const auto& body : bodies_) {
      for (Output capture : body->captures()) types.push_back(capture.dtype());
    }
    NodeSpec spec{.op = branches_.op, .inputs = {node_.inputs().begin(), node_.inputs().end()}, .attrs = node_.attrs()};
    spec.control_inputs.assign(node_.control_inputs().begin(), node_.control_inputs().end());
    spec.device = node_.requested_device();
    extend_shapes(spec.attrs, "output_shapes", types.size());
    extend_shapes(spec.attrs, "_output_shapes", types.size());
    set_types(spec.attrs, types);
    branches_.write(spec.attrs, functions);
    throw_if_error(context_.graph().rebuild(node_, std::move(spec)));
  }

  void set_types(AttrMap& attrs, std::vector<DType> results) const {
    std::vector<DType> args;
    for (int i = branches_.first_arg; i < context_.num_inputs(); ++i) args.push_back(node_.input_types()[i].dtype);
    attrs["Tin"] = std::move(args);
    attrs["Tout"] = std::move(results);
  }

  // Captures have no shape to promise: an untaken branch gives something else in their place.
  static void extend_shapes(AttrMap& attrs, std::string_view name, std::size_t size) {
    auto it = attrs.find(name);
    const auto* shapes = it == attrs.end() ? nullptr : it->second.get<std::vector<PartialShape>>();
    if (shapes == nullptr || shapes->empty()) return;
    std::vector<PartialShape> all = *shapes;
    all.resize(size);
    it->second = std::move(all);
  }

  FunctionRef backward_function(Body& body) {
    std::vector<Output> args = capture_slots(body, [&](DType dtype) { return body.add_arg(dtype); });
    for (int i : captured_args_) args.push_back(body.arg(i));
    for (int i = 0; i < num_results_; ++i) {
      if (body.result_grad(i)) args.push_back(body.result_grad(i));
    }
    return body.extract_backward(args, gradient_results(body));
  }

  void add_backward() {
    std::vector<FunctionRef> functions;
    for (auto& body : bodies_) functions.push_back(backward_function(*body));
    std::vector<Output> inputs(node_.inputs().begin(), node_.inputs().begin() + branches_.first_arg);
    std::vector<DType> arg_types;
    auto add_arg = [&](Output value) {
      inputs.push_back(value);
      arg_types.push_back(value.dtype());
    };
    for (int i = num_results_; i < node_.num_outputs(); ++i) add_arg(node_.output(i));
    for (int i : captured_args_) add_arg(node_.input(branches_.first_arg + i));
    for (int i = 0; i < num_results_; ++i) {
      if (context_.has_grad(i)) add_arg(context_.grad(i));
    }
    std::vector<DType> gradient_types;
    for (Output result : gradient_results(*bodies_[0])) gradient_types.push_back(result.dtype());
    AttrMap attrs = {{"Tin", arg_types}, {"Tout", gradient_types}};
    attrs[branches_.first_arg > 0 ? "output_shapes" : "_output_shapes"] = gradient_shapes();
    branches_.write(attrs, functions);
    Node* backward = add_op(context_.graph(), branches_.op, std::move(inputs), std::move(attrs));
    int next = 0;
    for (int i : chosen_) {
      Gradient gradient = backward->output(next++);
      if (bodies_[0]->arg_rows(i)) {
        gradient = IndexedSlices{gradient.dense(), backward->output(next++), dense_shape(i)};
      }
      context_.set(branches_.first_arg + i, gradient);
    }
  }

  GradContext& context_;
  Node& node_;
  const Branches branches_;
  const int num_args_;
  const int num_results_;  // before the node is rewritten
  std::vector<std::unique_ptr<Body>> bodies_;
  std::vector<int> chosen_;  // arguments that get a gradient
  std::vector<int> captured_args_;
};

// By the function that the library has for it: of the arguments and of the results' gradients, the arguments'
// gradients.
void library_gradient(GradContext& context, const FunctionRef& function, const std::string& gradient) {
  const FunctionLibrary& library = context.graph().library();
  std::shared_ptr<const OpDef> signature = library.signature(gradient);
  if (signature == nullptr) {
    throw_error(not_found("gradients: function ", printable(gradient), ", the gradient of ", printable(function.name),
                          ", is not in the library"));
  }
  AttrMap given = function.attrs ? *function.attrs : AttrMap();
  std::vector<EdgeType> takes;
  std::vector<EdgeType> gives;
  throw_if_error(complete_attrs(*signature, &given));
  throw_if_error(resolve_types(*signature, given, &takes, &gives));
  if (static_cast<int>(gives.size()) != context.num_inputs()) {
    throw_error(invalid_argument("gradients: function ", printable(gradient), " gives ", gives.size(),
                                 " gradients for the ", context.num_inputs(), " arguments of ",
                                 printable(function.name)));
  }
  std::vector<Output> inputs(context.node().inputs().begin(), context.node().inputs().end());
  for (int i = 0; i < context.node().num_outputs(); ++i) inputs.push_back(context.grad(i));
  std::vector<DType> types;
  for (const EdgeType& type : gives) types.push_back(type.dtype);
  Node* backward = add_op(context.graph(), "StatefulPartitionedCall", std::move(inputs),
                          {{"Tout", types}, {"f", FunctionRef{gradient, function.attrs}}});
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.needs(i)) context.set(i, backward->output(i));
  }
}

}  // namespace

void if_grad(GradContext& context) {
  Branches branches;
  branches.functions = {context.attr<FunctionRef>("then_branch"), context.attr<FunctionRef>("else_branch")};
  branches.first_arg = 1;
  branches.op = context.node().op_name();
  branches.write = [](AttrMap& attrs, const std::vector<FunctionRef>& functions) {
    attrs["then_branch"] = functions[0];
    attrs["else_branch"] = functions[1];
  };
  BranchGradient(context, std::move(branches)).run();
}

void case_grad(GradContext& context) {
  Branches branches;
  branches.functions = context.attr<std::vector<FunctionRef>>("branches");
  branches.first_arg = 1;
  branches.op = context.node().op_name();
  branches.write = [](AttrMap& attrs, const std::vector<FunctionRef>& functions) { attrs["branches"] = functions; };
  BranchGradient(context, std::move(branches)).run();
}

void call_grad(GradContext& context) {
  Node& node = context.node();
  Branches branches;
  const AttrValue* function = node.find_attr("f");
  const FunctionRef* called = function == nullptr ? nullptr : function->get<FunctionRef>();
  const bool by_name = called == nullptr;
  // A function called by its own name has its attributes on the node.
  branches.functions = {by_name ? FunctionRef{node.op_name(), std::make_shared<AttrMap>(node.attrs())} : *called};
  const std::string own = context.graph().library().gradient_of(branches.functions[0].name);
  if (!own.empty()) return library_gradient(context, branches.functions[0], own);
  branches.op = by_name ? "StatefulPartitionedCall" : node.op_name();
  branches.write = [](AttrMap& attrs, const std::vector<FunctionRef>& functions) { attrs["f"] = functions[0]; };
  BranchGradient(context, std::move(branches)).run();
}

}  // namespace tutti::internal
