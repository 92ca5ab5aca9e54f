#include "tests/support/graph_eval.h"

#include <map>
#include <set>
#include <string>

#include "tutti/graph/function.h"
#include "tutti/kernels/services.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::testing {
namespace {

struct ByName {
  bool operator()(const Output& a, const Output& b) const { return a.name() < b.name(); }
};
using Values = std::map<Output, Tensor, ByName>;

bool fully_fed(Node& node, const Values& fed) {
  for (int i = 0; i < node.num_outputs(); ++i) {
    if (!fed.contains(node.output(i))) return false;
  }
  return node.num_outputs() > 0;
}

std::set<Node*> needed_nodes(const Values& fed, const std::vector<Output>& fetches, const std::vector<Node*>& targets) {
  std::set<Node*> needed;
  std::vector<Node*> stack = targets;
  auto need = [&](Output value) {
    if (!fed.contains(value)) stack.push_back(value.node);
  };
  for (Output fetch : fetches) need(fetch);
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    if (fully_fed(*node, fed) || !needed.insert(node).second) continue;
    for (Output input : node->inputs()) need(input);
    for (Node* before : node->control_inputs()) stack.push_back(before);
  }
  return needed;
}

template <typename T>
void append(const Tensor& tensor, std::vector<double>& out) {
  for (const T& value : tensor.flat<T>()) out.push_back(static_cast<double>(value));
}

}  // namespace

class GraphEvaluator::Store : public ResourceStore {
 public:
  std::shared_ptr<ResourceSlot> slot(std::string_view container, std::string_view name) override {
    auto& slot = slots_[std::string(container) + "|" + std::string(name)];
    if (!slot) slot = std::make_shared<ResourceSlot>(std::string(container), std::string(name));
    return slot;
  }

 private:
  std::map<std::string, std::shared_ptr<ResourceSlot>> slots_;
};

// Runs functions by evaluating their bodies.
class GraphEvaluator::Functions : public FunctionRunner {
 public:
  Functions(GraphEvaluator& evaluator, Graph& graph) : evaluator_(evaluator), graph_(graph) {}

  Result<Handle> instantiate(const FunctionRef& function) override {
    if (!graph_.library().contains(function.name)) return not_found("no function ", function.name);
    functions_.push_back(function);
    return static_cast<Handle>(functions_.size() - 1);
  }
  bool may_block(Handle) const override { return false; }
  void run(Handle handle, StepScope& step, std::vector<Tensor> args, Done done) override {
    std::vector<Tensor> results;
    Status status = run_inline(handle, step, std::move(args), &results);
    done(std::move(status), std::move(results));
  }
  Status run_inline(Handle handle, StepScope&, std::vector<Tensor> args, std::vector<Tensor>* results) override {
    TUTTI_ASSIGN_OR_RETURN(*results, call(functions_[handle], std::move(args)));
    return Status();
  }

  Result<std::vector<Tensor>> call(const FunctionRef& function, std::vector<Tensor> args) {
    TUTTI_ASSIGN_OR_RETURN(FunctionBody body,
                           graph_.library().instantiate(function, graph_.shared_ops(), graph_.shared_library()));
    if (args.size() != body.args.size()) {
      return invalid_argument(function.name, " takes ", body.args.size(), " arguments, got ", args.size());
    }
    Feeds feeds;
    for (std::size_t i = 0; i < args.size(); ++i) feeds.push_back({body.args[i]->output(), args[i]});
    std::vector<Output> fetches;
    for (Node* retval : body.retvals) fetches.push_back(retval->input(0));
    return evaluator_.evaluate(*body.graph, feeds, fetches, body.targets);
  }

 private:
  GraphEvaluator& evaluator_;
  Graph& graph_;
  std::vector<FunctionRef> functions_;
};

GraphEvaluator::GraphEvaluator(std::shared_ptr<const OpTable> table)
    : table_(std::move(table)), store_(std::make_unique<Store>()) {}

GraphEvaluator::~GraphEvaluator() = default;

Result<std::vector<Tensor>> GraphEvaluator::evaluate_node(Node& node, std::vector<Tensor> inputs, Store& step) {
  Functions functions(*this, node.graph());
  if (node.graph().library().contains(node.op_name())) {
    return functions.call({node.op_name(), std::make_shared<AttrMap>(node.attrs())}, std::move(inputs));
  }
  if (node.op_name() == "NoOp") return std::vector<Tensor>();
  Services services;
  services.resources = store_.get();
  services.functions = &functions;
  return evaluate_op(*table_, node.op_name(), node.attrs(), inputs, services, &step);
}

Result<std::vector<Tensor>> GraphEvaluator::evaluate(Graph& graph, const Feeds& feeds,
                                                     const std::vector<Output>& fetches,
                                                     const std::vector<Node*>& targets) {
  Values values(feeds.begin(), feeds.end());
  Store step;
  const std::set<Node*> needed = needed_nodes(values, fetches, targets);
  TUTTI_ASSIGN_OR_RETURN(std::vector<Node*> order, graph.topological_order());
  for (Node* node : order) {
    if (!needed.contains(node)) continue;
    std::vector<Tensor> inputs;
    for (Output input : node->inputs()) inputs.push_back(values.at(input));
    Result<std::vector<Tensor>> outputs = evaluate_node(*node, std::move(inputs), step);
    if (!outputs.ok()) return outputs.status().with_context(node->describe());
    for (int i = 0; i < node->num_outputs(); ++i) {
      // What shape inference promised must be so.
      if (!node->output_shape(i).compatible_with((*outputs)[i].shape())) {
        return internal_error(node->describe(), " output ", i, " has shape ", (*outputs)[i].shape(), ", inferred was ",
                              node->output_shape(i));
      }
      values.try_emplace(node->output(i), (*outputs)[i]);
    }
  }
  std::vector<Tensor> results;
  for (Output fetch : fetches) results.push_back(values.at(fetch));
  return results;
}

Result<std::vector<Tensor>> GraphEvaluator::try_run(Graph& graph, const Feeds& feeds,
                                                    const std::vector<Output>& fetches,
                                                    const std::vector<Node*>& targets) {
  return evaluate(graph, feeds, fetches, targets);
}

std::vector<Tensor> GraphEvaluator::run(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                                        const std::vector<Node*>& targets) {
  return evaluate(graph, feeds, fetches, targets).value_or_throw();
}

std::vector<double> to_doubles(const Tensor& tensor) {
  std::vector<double> values;
  switch (tensor.dtype()) {
    case DType::kFloat:
      append<float>(tensor, values);
      break;
    case DType::kDouble:
      append<double>(tensor, values);
      break;
    case DType::kInt32:
      append<std::int32_t>(tensor, values);
      break;
    case DType::kInt64:
      append<std::int64_t>(tensor, values);
      break;
    case DType::kBool:
      append<bool>(tensor, values);
      break;
    default:
      throw_error(invalid_argument("to_doubles: ", tensor));
  }
  return values;
}

}  // namespace tutti::testing
