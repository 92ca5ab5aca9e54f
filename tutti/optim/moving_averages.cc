#include "tutti/optim/moving_averages.h"

#include <set>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/slice_info.h"
#include "tutti/optim/internal/slot_creator.h"

namespace tutti {
namespace {

constexpr const char* kCollection = "moving_average_variables";

void check_floating(const std::string& who, const std::string& name, DType dtype) {
  if (is_floating(dtype)) return;
  throw_error(invalid_argument(who, ": \"", printable(name), "\" is ", dtype_name(dtype), ", which has no average"));
}

// The variable's value where it has one, else what it will start as: averages may be made when training is under way.
Output current_or_initial(const Var& variable) {
  const DType dtype = variable.dtype();
  auto read = [dtype](Graph&, const std::vector<Output>& args) {
    return std::vector<Output>{op1("ReadVariableOp", {args[0]}, {{"dtype", dtype}})};
  };
  auto initial = [](Graph&, const std::vector<Output>& args) { return std::vector<Output>{identity(args[1])}; };
  Output value = cond(op1("VarIsInitializedOp", {variable.handle()}),
                      {variable.handle(), variable.initializer()->input(1)}, read, initial)[0];
  const std::optional<Shape> shape = variable.shape().as_shape();
  return shape ? reshape(value, *shape) : value;
}

// The slot of a value that is not a variable: there is nothing to lie beside.
Var zeros_for(Output value, const std::string& name) {
  const std::optional<Shape> shape = value.shape().as_shape();
  if (!shape) throw_error(invalid_argument(name, ": the value has no fixed shape: ", value.shape()));
  return create_apart(value.graph(), "", name,
                      [&](Graph& graph) { return zeros(graph, value.dtype(), *shape, "zeros"); });
}

}  // namespace

std::optional<Var> ExponentialMovingAverage::average_of(const std::string& key) const {
  auto it = averages_.find(key);
  return it == averages_.end() ? std::nullopt : std::optional<Var>(it->second);
}

// As in TensorFlow, in float whatever the variables are.
Output ExponentialMovingAverage::one_minus_decay(Graph& graph) const {
  Output decay = decay_.in(graph, DType::kFloat, "decay");
  if (options_.num_updates) {
    Output count = cast(options_.num_updates, DType::kFloat, "num_updates");
    decay = minimum(decay, (1.0 + count) / (10.0 + count));
  }
  return 1.0 - decay;
}

Node* ExponentialMovingAverage::move(const Var& average, Output value, Output rest) const {
  return average.assign_sub((average.read_again() - value) * cast(rest, average.dtype()));
}

Node* ExponentialMovingAverage::apply(const std::vector<Var>& variables) {
  if (variables.empty()) throw_error(invalid_argument(name_, ": there is no variable"));
  Graph& graph = variables[0].handle().graph();
  for (const Var& variable : variables) {
    check_floating(name_, variable.name(), variable.dtype());
    if (averages_.contains(variable.name())) continue;
    averages_.emplace(variable.name(), create_slot(variable, "", variable.name() + "/" + name_,
                                                   [&](Graph&) { return current_or_initial(variable); }));
    graph.add_to_collection(kCollection, *variable.handle().node);
  }
  ScopeGuard scope = graph.name_scope(name_);
  Output rest = one_minus_decay(graph);
  std::vector<Node*> moves;
  for (const Var& variable : variables) {
    ScopeGuard inner = graph.name_scope("AssignMovingAvg");
    ScopeGuard beside = graph.colocate_with(*variable.handle().node);
    moves.push_back(move(averages_.at(variable.name()), variable.read_again(), rest));
  }
  return group(graph, moves, graph.current_name_scope() + "/");
}

Node* ExponentialMovingAverage::apply_to_values(const std::vector<Output>& values) {
  if (values.empty()) throw_error(invalid_argument(name_, ": there is no value"));
  Graph& graph = values[0].graph();
  for (Output value : values) {
    check_floating(name_, value.name(), value.dtype());
    if (averages_.contains(value.name())) continue;
    averages_.emplace(value.name(), zeros_for(value, value.node->name() + "/" + name_));
  }
  ScopeGuard scope = graph.name_scope(name_);
  Output rest = one_minus_decay(graph);
  std::vector<Node*> moves;
  for (Output value : values) {
    const Var& average = averages_.at(value.name());
    ScopeGuard inner = graph.name_scope("AssignMovingAvg");
    ScopeGuard beside = graph.colocate_with(*average.handle().node);
    moves.push_back(options_.zero_debias ? move_unbiased(average, value, rest) : move(average, value, rest));
  }
  return group(graph, moves, graph.current_name_scope() + "/");
}

// average = biased / (1 - decay^steps), where `biased` is the plain moving average that starts at zero.
Node* ExponentialMovingAverage::move_unbiased(const Var& average, Output value, Output rest) {
  Graph& graph = value.graph();
  auto it = biased_.find(average.name());
  if (it == biased_.end()) {
    const DType dtype = average.dtype();
    const Var sum = create_slot(average, "", average.name() + "/biased", filled_like(average, 0, name_));
    const Var steps =
        create_slot(average, "", average.name() + "/local_step", [&](Graph& in) { return constant(in, 0.0, dtype); });
    it = biased_.emplace(average.name(), std::pair(sum, steps)).first;
  }
  const auto& [sum, steps] = it->second;
  Output typed = cast(rest, average.dtype());
  Output new_sum = sum.read_again() - (sum.read_again() - value) * typed;
  Output new_steps = steps.read_again() + 1.0;
  Node* unbiased = average.assign(new_sum / (1.0 - pow(1.0 - typed, new_steps)));
  return group(graph, {unbiased, sum.assign(new_sum), steps.assign(new_steps)});
}

std::string ExponentialMovingAverage::average_name(const Var& variable) const {
  const std::optional<Var> made = average(variable);
  return made ? made->name() : variable.name() + "/" + name_;
}

std::multimap<std::string, Var> ExponentialMovingAverage::variables_to_restore(Graph& graph) const {
  std::multimap<std::string, Var> restored;
  std::set<std::string> averaged;  // variables that are restored from their averages
  std::set<std::string> names;     // of those averages, as a checkpoint has them
  auto from_average = [&](const Var& variable) {
    if (!averaged.insert(variable.name()).second) return;
    const std::optional<SliceInfo> part = slice_info(variable);
    const std::string last = average_name(variable).substr(variable.name().size());
    const std::string name = (part ? part->full_name : variable.name()) + last;
    restored.emplace(name, variable);
    names.insert(name);
  };
  for (const Var& variable : trainable_variables(graph)) from_average(variable);
  for (Node* handle : graph.collection(kCollection)) from_average(variable_of(*handle));
  for (const Var& variable : global_variables(graph)) {
    const std::optional<SliceInfo> part = slice_info(variable);
    const std::string name = part ? part->full_name : variable.name();
    if (!averaged.contains(variable.name()) && !names.contains(name)) restored.emplace(name, variable);
  }
  return restored;
}

}  // namespace tutti
