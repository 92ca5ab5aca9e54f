#include "tutti/ops/control_flow.h"

#include <algorithm>
#include <utility>

#include "tutti/graph/function.h"
#include "tutti/ops/builders.h"

namespace tutti {
namespace {

bool is_boundary(const Node& node) { return node.op_name() == "_Arg" || node.op_name() == "_Retval"; }

bool has_effects(const FunctionBody& body) {
  const std::vector<Node*> nodes = body.graph->nodes();
  return std::any_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return node->op().has(kStateful) && !is_boundary(*node); });
}

void check_graph(const std::string& who, const Graph& graph, const std::vector<Output>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) throw_error(invalid_argument(who, ": value ", i, " is empty"));
    if (&values[i].graph() != &graph) {
      throw_error(invalid_argument(who, ": value ", i, " \"", printable(values[i].name()), "\" is of another graph"));
    }
  }
}

std::vector<DType> types_of(const std::vector<Output>& values) {
  std::vector<DType> types;
  for (Output value : values) types.push_back(value.dtype());
  return types;
}

std::vector<PartialShape> shapes_of(const std::vector<Output>& values) {
  std::vector<PartialShape> shapes;
  for (Output value : values) shapes.push_back(value.shape());
  return shapes;
}

std::vector<Output> results_of(const FunctionBody& body) {
  std::vector<Output> results;
  for (Node* retval : body.retvals) results.push_back(retval->input(0));
  return results;
}

std::vector<Output> outputs_of(Node& node) {
  std::vector<Output> outputs;
  for (int i = 0; i < node.num_outputs(); ++i) outputs.push_back(node.output(i));
  return outputs;
}

// Tells an argument what the variable behind the resource is that it will be given.
void describe_handle(Node& arg, Output handle) {
  Graph& body = arg.graph();
  const Node* source = handle.node;
  while (source->op().has(kPassThrough) && !source->inputs().empty()) source = source->input(0).node;
  const AttrValue* shapes = source->find_attr("_handle_shapes");
  const AttrValue* dtypes = source->find_attr("_handle_dtypes");
  if (shapes != nullptr && dtypes != nullptr) {
    body.set_attr(arg, "_handle_shapes", *shapes);
    body.set_attr(arg, "_handle_dtypes", *dtypes);
    return;
  }
  const AttrValue* shape = source->find_attr("shape");
  const AttrValue* dtype = source->find_attr("dtype");
  if (shape == nullptr || shape->get<PartialShape>() == nullptr) return;
  if (dtype == nullptr || dtype->get<DType>() == nullptr) return;
  body.set_attr(arg, "_handle_shapes", std::vector<PartialShape>{*shape->get<PartialShape>()});
  body.set_attr(arg, "_handle_dtypes", std::vector<DType>{*dtype->get<DType>()});
}

// `given`: what the body will be called with; empty where that is not known.
FunctionBody build_body(Graph& outer, const std::vector<DType>& types, const std::vector<PartialShape>& shapes,
                        const std::vector<Output>& given, const BodyFn& build) {
  FunctionBody body = make_function_body(outer, types, shapes);
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].dtype() == DType::kResource) describe_handle(*body.args[i], given[i]);
  }
  std::vector<Output> args;
  for (Node* arg : body.args) args.push_back(arg->output());
  const std::vector<Output> results = build(*body.graph, args);
  for (Node* node : body.graph->nodes()) {
    if (node->op().has(kStateful) && !is_boundary(*node)) body.targets.push_back(node);
  }
  set_results(body, results);
  return body;
}

FunctionRef add_function(Graph& graph, const std::string& base, const FunctionBody& body) {
  std::string name = graph.library().unique_name(base);
  throw_if_error(graph.library().add(name, body));
  return FunctionRef{std::move(name), nullptr};
}

// What is true of both.
PartialShape common_shape(const PartialShape& a, const PartialShape& b) {
  if (!a.has_rank() || a.rank() != b.rank()) return {};
  PartialShape common = a;
  for (int i = 0; i < a.rank(); ++i) {
    if (a.dim(i) != b.dim(i)) common.set_dim(i, kUnknownDim);
  }
  return common;
}

// The bodies of a cond or case as functions, and what is known of their results.
struct BranchSet {
  std::vector<FunctionRef> functions;
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
  bool has_effects = false;
};

BranchSet build_branches(const std::string& name, Graph& graph, const std::vector<Output>& captured,
                         const std::vector<BodyFn>& fns, const std::vector<std::string>& suffixes) {
  check_graph(name, graph, captured);
  BranchSet set;
  for (std::size_t k = 0; k < fns.size(); ++k) {
    FunctionBody body = build_body(graph, types_of(captured), shapes_of(captured), captured, fns[k]);
    const std::vector<Output> results = results_of(body);
    if (k == 0) {
      set.types = types_of(results);
      set.shapes = shapes_of(results);
    } else if (types_of(results) != set.types) {
      auto text = [](const std::vector<DType>& types) {
        std::vector<std::string_view> names;
        for (DType type : types) names.push_back(dtype_name(type));
        return str_cat("(", str_join(names, ", "), ")");
      };
      throw_error(invalid_argument(name, ": branch 0 returns ", text(set.types), ", branch ", k, " returns ",
                                   text(types_of(results))));
    }
    for (std::size_t i = 0; i < results.size(); ++i) set.shapes[i] = common_shape(set.shapes[i], results[i].shape());
    set.has_effects = set.has_effects || has_effects(body);
    set.functions.push_back(add_function(graph, name + suffixes[k], body));
  }
  return set;
}

void check_variable(const std::string& name, std::size_t i, Output result, DType dtype, const PartialShape& shape) {
  if (result.dtype() != dtype) {
    throw_error(invalid_argument(name, ": variable ", i, " is ", dtype_name(dtype), ", the body makes it ",
                                 dtype_name(result.dtype())));
  }
  Result<PartialShape> merged = result.shape().merge(shape);
  if (!merged.ok() || !(*merged == result.shape())) {
    throw_error(invalid_argument(name, ": variable ", i, " has shape ", shape, ", the body makes it ", result.shape(),
                                 "; say in shape_invariants what stays true"));
  }
}

std::vector<PartialShape> invariants_for(const std::vector<Output>& initial, const WhileOptions& options) {
  if (options.shape_invariants.empty()) return shapes_of(initial);
  if (options.shape_invariants.size() != initial.size()) {
    throw_error(invalid_argument(options.name, ": ", options.shape_invariants.size(), " shape_invariants for ",
                                 initial.size(), " variables"));
  }
  for (std::size_t i = 0; i < initial.size(); ++i) {
    if (!initial[i].shape().compatible_with(options.shape_invariants[i])) {
      throw_error(invalid_argument(options.name, ": variable ", i, " starts with shape ", initial[i].shape(),
                                   ", its invariant is ", options.shape_invariants[i]));
    }
  }
  return options.shape_invariants;
}

}  // namespace

std::vector<Output> cond(Output pred, const std::vector<Output>& captured, const BodyFn& then_fn, const BodyFn& else_fn,
                         const std::string& name) {
  if (!pred) throw_error(invalid_argument(name, ": the predicate is empty"));
  Graph& graph = pred.graph();
  BranchSet set = build_branches(name, graph, captured, {then_fn, else_fn}, {"_true", "_false"});
  std::vector<Output> inputs = {pred};
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Node* node = add_op(graph, set.has_effects ? "If" : "StatelessIf", std::move(inputs),
                      {{"Tin", types_of(captured)},
                       {"Tout", set.types},
                       {"then_branch", set.functions[0]},
                       {"else_branch", set.functions[1]},
                       {"output_shapes", set.shapes}},
                      name);
  return outputs_of(*node);
}

std::vector<Output> case_(Output index, const std::vector<Output>& captured, const std::vector<BodyFn>& branches,
                          const std::string& name) {
  if (!index) throw_error(invalid_argument(name, ": the index is empty"));
  if (branches.empty()) throw_error(invalid_argument(name, ": there are no branches"));
  Graph& graph = index.graph();
  std::vector<std::string> suffixes;
  for (std::size_t k = 0; k < branches.size(); ++k) suffixes.push_back(str_cat("_branch_", k));
  BranchSet set = build_branches(name, graph, captured, branches, suffixes);
  std::vector<Output> inputs = {index};
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Node* node = add_op(
      graph, set.has_effects ? "Case" : "StatelessCase", std::move(inputs),
      {{"Tin", types_of(captured)}, {"Tout", set.types}, {"branches", set.functions}, {"output_shapes", set.shapes}},
      name);
  return outputs_of(*node);
}

std::vector<Output> while_loop(const std::vector<Output>& initial, const BodyFn& cond_fn, const BodyFn& body_fn,
                               const WhileOptions& options) {
  if (initial.empty()) throw_error(invalid_argument(options.name, ": there are no loop variables"));
  if (!initial[0]) throw_error(invalid_argument(options.name, ": value 0 is empty"));
  Graph& graph = initial[0].graph();
  check_graph(options.name, graph, initial);
  const std::vector<PartialShape> shapes = invariants_for(initial, options);
  const std::vector<DType> types = types_of(initial);

  FunctionBody condition = build_body(graph, types, shapes, initial, cond_fn);
  if (condition.retvals.size() != 1) {
    throw_error(
        invalid_argument(options.name, ": the condition returns ", condition.retvals.size(), " values, not one"));
  }
  FunctionBody body = build_body(graph, types, shapes, initial, body_fn);
  const std::vector<Output> results = results_of(body);
  if (results.size() != initial.size()) {
    throw_error(invalid_argument(options.name, ": ", initial.size(), " variables, but the body returns ",
                                 results.size(), " values"));
  }
  for (std::size_t i = 0; i < results.size(); ++i) check_variable(options.name, i, results[i], types[i], shapes[i]);
  const bool effects = has_effects(condition) || has_effects(body);
  FunctionRef cond_ref = add_function(graph, options.name + "_cond", condition);
  FunctionRef body_ref = add_function(graph, options.name + "_body", body);
  Node* node = add_op(graph, effects ? "While" : "StatelessWhile", initial,
                      {{"T", types}, {"cond", cond_ref}, {"body", body_ref}, {"output_shapes", shapes}}, options.name);
  return outputs_of(*node);
}

void define_function(Graph& graph, const std::string& name, const std::vector<DType>& arg_types, const BodyFn& body_fn,
                     const std::vector<PartialShape>& arg_shapes) {
  if (graph.library().contains(name) || graph.ops().find(name) != nullptr) {
    throw_error(already_exists("define_function: the name ", printable(name), " is taken"));
  }
  throw_if_error(graph.library().add(name, build_body(graph, arg_types, arg_shapes, {}, body_fn)));
}

std::vector<Output> call(Graph& graph, const std::string& function, const std::vector<Output>& args,
                         const std::string& name) {
  if (!graph.library().contains(function)) {
    throw_error(not_found("call: there is no function ", printable(function)));
  }
  check_graph("call", graph, args);
  FunctionRef ref{function, nullptr};
  FunctionBody body = graph.library().instantiate(ref, graph.shared_ops(), graph.shared_library()).value_or_throw();
  const std::vector<Output> results = results_of(body);
  Node* node =
      add_op(graph, has_effects(body) ? "StatefulPartitionedCall" : "PartitionedCall", args,
             {{"Tin", types_of(args)}, {"Tout", types_of(results)}, {"f", ref}, {"_output_shapes", shapes_of(results)}},
             name.empty() ? function : name);
  return outputs_of(*node);
}

}  // namespace tutti
