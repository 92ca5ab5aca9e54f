#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tutti/core/device_name.h"
#include "tutti/graph/internal/functional_control_flow.h"
#include "tutti/graph/internal/output_hash.h"
#include "tutti/graph/internal/splice.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti {
namespace {

// Branches that hold others twice each grow without bound otherwise; the rest stay whole.
constexpr int kMaxLoweredNodes = 50'000;
constexpr std::size_t kMaxCallDepth = 64;

// What the bodies that are being lowered have in common.
struct Nest {
  Lowering which;
  std::vector<std::string> within;  // functions, outermost first
  int nodes = 0;                    // put in so far
};

class Lowerer {
 public:
  Lowerer(FunctionBody& body, Nest& nest, DeviceName outer)
      : body_(body), graph_(*body.graph), nest_(nest), outer_(std::move(outer)) {}

  // Nodes are replaced one after another; edges from them are re-routed in one sweep at the end.
  Status run() {
    std::vector<Node*> calls;
    find_waited_for();
    for (Node* node : graph_.nodes()) {
      if (control_flow_kind(*node) == ControlFlowKind::kNone) continue;
      TUTTI_ASSIGN_OR_RETURN(const bool chosen, is_chosen(*node));
      if (chosen) calls.push_back(node);
    }
    if (calls.empty()) return {};
    for (Node* call : calls) {
      if (!may_grow(*call)) continue;
      Status status = control_flow_kind(*call) == ControlFlowKind::kWhile ? lower_loop(*call) : lower_branches(*call);
      if (!status.ok()) return status.with_context(call->describe());
      replaced_.push_back(call);
    }
    if (replaced_.empty()) return {};
    reroute();
    graph_.reinfer_shapes();
    return {};
  }

 private:
  // ---- Which ----

  Result<bool> is_chosen(const Node& node) const {
    switch (nest_.which) {
      case Lowering::kAll:
        return true;
      case Lowering::kAcrossTasks:
        return leaves_its_task(node, outer_);
      case Lowering::kUnneededEffects:
        return has_unneeded_effects(node);
    }
    return false;
  }

  Result<bool> has_unneeded_effects(const Node& node) const {
    const ControlFlowKind kind = control_flow_kind(node);
    if (kind == ControlFlowKind::kWhile || !node.op().has(kStateful) || waited_for_.contains(&node)) return false;
    const AttrValue* lower = node.find_attr("_lower_using_switch_merge");
    if (lower == nullptr || lower->get<bool>() == nullptr || !*lower->get<bool>()) return false;
    std::vector<bool> is_read(static_cast<std::size_t>(node.num_outputs()), false);
    for (const Node* reader : graph_.nodes()) {
      for (const Output& input : reader->inputs()) {
        if (input.node != &node) continue;
        // A fetch of the node itself: all of it runs.
        if (reader->op_name() == "_Retval") return false;
        is_read[static_cast<std::size_t>(input.index)] = true;
      }
    }
    for (const FunctionRef& function : control_flow_functions(node)) {
      TUTTI_ASSIGN_OR_RETURN(const bool unneeded, has_unneeded_effects(function, is_read));
      if (unneeded) return true;
    }
    return false;
  }

  // Whether the function has an effect that none of its results that are read needs.
  Result<bool> has_unneeded_effects(const FunctionRef& function, const std::vector<bool>& is_read) const {
    TUTTI_ASSIGN_OR_RETURN(FunctionBody callee,
                           graph_.library().instantiate(function, graph_.shared_ops(), graph_.shared_library()));
    const std::vector<Node*> effects = std::exchange(callee.targets, {});
    std::vector<Node*> read;
    for (std::size_t i = 0; i < callee.retvals.size() && i < is_read.size(); ++i) {
      if (is_read[i]) read.push_back(callee.retvals[i]);
    }
    callee.retvals = std::move(read);
    std::vector<std::string> names;
    for (const Node* effect : effects) names.push_back(effect->name());
    prune(callee);
    return std::any_of(names.begin(), names.end(),
                       [&callee](const std::string& name) { return callee.graph->find(name) == nullptr; });
  }

  bool may_grow(const Node& call) const {
    if (nest_.within.size() >= kMaxCallDepth || nest_.nodes >= kMaxLoweredNodes) return false;
    const std::vector<FunctionRef> functions = control_flow_functions(call);
    return std::none_of(functions.begin(), functions.end(), [this](const FunctionRef& function) {
      return std::find(nest_.within.begin(), nest_.within.end(), function.name) != nest_.within.end();
    });
  }

  void find_waited_for() {
    for (Node* node : graph_.nodes()) waited_for_.insert(node->control_inputs().begin(), node->control_inputs().end());
    waited_for_.insert(body_.targets.begin(), body_.targets.end());
  }

  // ---- Parts ----

  Result<Node*> add(const Node& call, std::string op, std::string_view name, std::vector<Output> inputs,
                    AttrMap attrs = {}, std::vector<Node*> after = {}) {
    return graph_.add_exact({.op = std::move(op),
                             .name = graph_.unique_name(str_cat(call.name(), "/", name)),
                             .inputs = std::move(inputs),
                             .attrs = std::move(attrs),
                             .control_inputs = std::move(after),
                             .device = call.requested_device()});
  }

  // As it is, or where it is a variable, what that holds.
  Result<Output> plain(const Node& call, std::string_view name, Output value, std::vector<Node*> after) {
    if (!value.node->output_types()[value.index].is_ref) return value;
    TUTTI_ASSIGN_OR_RETURN(Node * read, add(call, "Identity", name, {value}, {{"T", value.dtype()}}, std::move(after)));
    return read->output();
  }

  // `value`, after `after`, where it is.
  Result<Output> delayed(const Node& call, std::string_view name, Output value, std::vector<Node*> after) {
    TUTTI_ASSIGN_OR_RETURN(Node * late, add(call, "Identity", name, {value}, {{"T", value.dtype()}}, std::move(after)));
    graph_.set_requested_device(*late, value.node->requested_device());
    return late->output();
  }

  Result<Output> truth(const Node& call, Output value) {
    const bool is_flag = value.dtype() == DType::kBool && (!value.shape().has_rank() || value.shape().rank() == 0);
    if (is_flag) return value;
    TUTTI_ASSIGN_OR_RETURN(Node * flag, add(call, "ToBool", "truth", {value}));
    return flag->output();
  }

  Result<FunctionBody> body_of(const Node& call, const FunctionRef& function, std::size_t args, std::size_t results) {
    TUTTI_ASSIGN_OR_RETURN(FunctionBody callee,
                           graph_.library().instantiate(function, graph_.shared_ops(), graph_.shared_library()));
    if (callee.args.size() != args || callee.retvals.size() != results) {
      return invalid_argument("function \"", printable(function.name), "\" takes ", callee.args.size(),
                              " arguments and gives ", callee.retvals.size(), " results, must be ", args, " and ",
                              results);
    }
    TUTTI_RETURN_IF_ERROR(inline_functions(callee));
    if (nest_.which == Lowering::kUnneededEffects) callee.targets.clear();
    TUTTI_ASSIGN_OR_RETURN(DeviceName device, device_of_request(call));
    nest_.within.push_back(function.name);
    Status status = Lowerer(callee, nest_, std::move(device)).run();
    nest_.within.pop_back();
    if (!status.ok()) return status;
    return callee;
  }

  Result<DeviceName> device_of_request(const Node& call) const {
    TUTTI_ASSIGN_OR_RETURN(const DeviceName own, DeviceName::parse(call.requested_device()));
    DeviceName device = outer_;
    device.override_with(own);
    return device;
  }

  Result<SplicedBody> splice(const SpliceSpec& spec) {
    TUTTI_ASSIGN_OR_RETURN(SplicedBody spliced, splice_body(graph_, spec));
    nest_.nodes += spliced.num_nodes;
    return spliced;
  }

  // ---- If and Case ----

  // A branch runs when `flag` is true (side 1) or false (side 0).
  struct Gate {
    Output flag;
    int side;
    std::string name;
  };
  struct Branch {
    Node* pivot;
    SplicedBody body;
  };
  // Switches of a node that is being lowered, by flag and input; input 0 is the flag itself.
  using Switches = std::map<std::pair<const Node*, int>, Node*>;

  Status lower_branches(Node& call) {
    std::vector<Gate> gates;
    if (control_flow_kind(call) == ControlFlowKind::kIf) {
      TUTTI_ASSIGN_OR_RETURN(gates, if_gates(call));
    } else {
      TUTTI_ASSIGN_OR_RETURN(gates, case_gates(call));
    }
    const std::vector<FunctionRef> functions = control_flow_functions(call);
    Switches switches;
    std::vector<Branch> branches;
    for (std::size_t k = 0; k < gates.size(); ++k) {
      TUTTI_ASSIGN_OR_RETURN(Branch branch, add_branch(call, gates[k], functions[k], switches));
      branches.push_back(std::move(branch));
    }
    return merge_branches(call, branches);
  }

  // What decides, after all that the node waited for: everything else hangs on it.
  Result<Output> decider(const Node& call, std::string_view name) {
    const Output value = call.input(0);
    const auto controls = call.control_inputs();
    TUTTI_ASSIGN_OR_RETURN(
        Node * node, add(call, "Identity", name, {value}, {{"T", value.dtype()}}, {controls.begin(), controls.end()}));
    return node->output();
  }

  Result<std::vector<Gate>> if_gates(const Node& call) {
    TUTTI_ASSIGN_OR_RETURN(const Output value, decider(call, "pred"));
    TUTTI_ASSIGN_OR_RETURN(const Output flag, truth(call, value));
    return std::vector<Gate>{{flag, 0, "else"}, {flag, 1, "then"}};
  }

  // One flag for each branch; the last one is for all indices that no other branch is for.
  Result<std::vector<Gate>> case_gates(const Node& call) {
    TUTTI_ASSIGN_OR_RETURN(const Output index, decider(call, "index"));
    const int last = static_cast<int>(call.attr<std::vector<FunctionRef>>("branches").size()) - 1;
    auto compare = [&](const char* op, const std::string& name, int number) -> Result<Output> {
      TUTTI_ASSIGN_OR_RETURN(
          Node * constant,
          add(call, "Const", str_cat(name, "/number"), {},
              {{"dtype", DType::kInt32}, {"value", Tensor::scalar(static_cast<std::int32_t>(number))}}, {index.node}));
      TUTTI_ASSIGN_OR_RETURN(Node * flag, add(call, op, name, {index, constant->output()}));
      return flag->output();
    };
    std::vector<Gate> gates;
    for (int k = 0; k < last; ++k) {
      TUTTI_ASSIGN_OR_RETURN(const Output flag, compare("Equal", str_cat("is_", k), k));
      gates.push_back({flag, 1, str_cat("branch_", k)});
    }
    TUTTI_ASSIGN_OR_RETURN(const Output below, compare("Less", "is_below", 0));
    TUTTI_ASSIGN_OR_RETURN(const Output above, compare("GreaterEqual", "is_last_or_above", last));
    TUTTI_ASSIGN_OR_RETURN(Node * rest, add(call, "LogicalOr", "is_rest", {below, above}));
    gates.push_back({rest->output(), 1, str_cat("branch_", last)});
    return gates;
  }

  Result<Output> switched(const Node& call, const Gate& gate, int input, Switches& switches) {
    Node*& node = switches[{gate.flag.node, input}];
    if (node == nullptr) {
      Output value = gate.flag;
      if (input > 0) {
        TUTTI_ASSIGN_OR_RETURN(value, plain(call, str_cat("input_", input), call.input(input), {gate.flag.node}));
      }
      TUTTI_ASSIGN_OR_RETURN(node, add(call, "Switch", str_cat("switch_", input), {value, gate.flag}));
    }
    return Output(node, gate.side);
  }

  Result<Branch> add_branch(const Node& call, const Gate& gate, const FunctionRef& function, Switches& switches) {
    TUTTI_ASSIGN_OR_RETURN(const FunctionBody callee,
                           body_of(call, function, call.inputs().size() - 1, call.num_outputs()));
    TUTTI_ASSIGN_OR_RETURN(const Output taken, switched(call, gate, 0, switches));
    Branch branch;
    TUTTI_ASSIGN_OR_RETURN(branch.pivot, add(call, "Identity", str_cat(gate.name, "_pivot"), {taken}));
    auto argument = [&](int i) -> Result<SplicedArgument> {
      TUTTI_ASSIGN_OR_RETURN(const Output value, switched(call, gate, i + 1, switches));
      return SplicedArgument{.value = value};
    };
    TUTTI_ASSIGN_OR_RETURN(branch.body, splice({.call = call,
                                                .callee = callee,
                                                .scope = str_cat(call.name(), "/", gate.name),
                                                .pivot = branch.pivot,
                                                .argument = argument}));
    return branch;
  }

  Status merge_branches(Node& call, const std::vector<Branch>& branches) {
    const bool effects =
        std::any_of(branches.begin(), branches.end(), [](const Branch& b) { return !b.body.effects.empty(); });
    std::vector<Output> results;
    std::vector<Node*> all;
    for (int i = 0; i < call.num_outputs(); ++i) {
      std::vector<Output> values;
      for (const Branch& branch : branches) {
        TUTTI_ASSIGN_OR_RETURN(const Output value,
                               plain(call, str_cat("result_", i), branch.body.results[i].value, {}));
        values.push_back(value);
      }
      TUTTI_ASSIGN_OR_RETURN(Node * merge, add(call, "Merge", str_cat("merge_", i), std::move(values)));
      results.push_back(merge->output());
      all.push_back(merge);
    }
    if (effects || all.empty()) {
      TUTTI_ASSIGN_OR_RETURN(Node * executed, merge_effects(call, branches));
      all.push_back(executed);
    }
    return finish(call, std::move(results), std::move(all), effects);
  }

  // There when the effects of the branch taken are.
  Result<Node*> merge_effects(const Node& call, const std::vector<Branch>& branches) {
    std::vector<Output> done;
    for (const Branch& branch : branches) {
      TUTTI_ASSIGN_OR_RETURN(Node * over,
                             add(call, "Identity", "branch_done", {branch.pivot->output()}, {}, branch.body.effects));
      done.push_back(over->output());
    }
    return add(call, "Merge", "branch_executed", std::move(done));
  }

  // ---- While ----

  struct Variable {
    Output initial;
    bool is_invariant = false;  // the body hands it on as it is
    Node* enter = nullptr;
    Node* merge = nullptr;  // null of an invariant, as the following
    Node* turn = nullptr;
    Node* exit = nullptr;
  };
  struct Loop {
    std::vector<Variable> variables;  // those of the node; and where all of these are invariant, a token
    Node* first = nullptr;            // the first Merge: runs in every iteration, the last one included
    SplicedBody condition;
    Node* decided = nullptr;  // LoopCond
  };

  Status lower_loop(Node& call) {
    const std::size_t n = call.inputs().size();
    const std::vector<FunctionRef> functions = control_flow_functions(call);
    TUTTI_ASSIGN_OR_RETURN(const FunctionBody condition, body_of(call, functions[0], n, 1));
    TUTTI_ASSIGN_OR_RETURN(const FunctionBody callee, body_of(call, functions[1], n, n));
    Loop loop;
    TUTTI_RETURN_IF_ERROR(add_variables(call, callee, loop));
    TUTTI_RETURN_IF_ERROR(add_condition(call, condition, loop));
    TUTTI_ASSIGN_OR_RETURN(const bool body_effects, add_body(call, callee, loop));
    const bool effects = body_effects || !loop.condition.effects.empty();

    std::vector<Output> results;
    std::vector<Node*> exits;
    for (const Variable& variable : loop.variables) {
      if (!variable.is_invariant) exits.push_back(variable.exit);
      if (results.size() < n) results.push_back(variable.is_invariant ? variable.initial : variable.exit->output());
    }
    return finish(call, std::move(results), std::move(exits), effects);
  }

  Status add_variables(const Node& call, const FunctionBody& callee, Loop& loop) {
    const auto controls = call.control_inputs();
    const std::vector<Node*> after(controls.begin(), controls.end());
    for (int i = 0; i < static_cast<int>(callee.args.size()); ++i) {
      Variable variable{.is_invariant = callee.retvals[i]->input(0).node == callee.args[i]};
      TUTTI_ASSIGN_OR_RETURN(variable.initial, plain(call, str_cat("input_", i), call.input(i), after));
      loop.variables.push_back(variable);
    }
    if (std::all_of(loop.variables.begin(), loop.variables.end(), [](const Variable& v) { return v.is_invariant; })) {
      TUTTI_ASSIGN_OR_RETURN(Node * token,
                             add(call, "Const", "token", {},
                                 {{"dtype", DType::kFloat}, {"value", Tensor(DType::kFloat, Shape{0})}}, after));
      loop.variables.push_back({.initial = token->output()});
    }
    for (std::size_t i = 0; i < loop.variables.size(); ++i) {
      TUTTI_RETURN_IF_ERROR(enter(call, str_cat(i), loop.variables[i], after));
      if (loop.first == nullptr) loop.first = loop.variables[i].merge;
    }
    return {};
  }

  Status enter(const Node& call, const std::string& number, Variable& variable, const std::vector<Node*>& after) {
    TUTTI_ASSIGN_OR_RETURN(variable.enter,
                           add(call, "Enter", str_cat("enter_", number), {variable.initial},
                               {{"frame_name", call.name()},
                                {"is_constant", variable.is_invariant},
                                {"parallel_iterations", call.attr<std::int64_t>("parallel_iterations")}},
                               after));
    if (variable.is_invariant) return {};
    TUTTI_ASSIGN_OR_RETURN(variable.merge,
                           add(call, "Merge", str_cat("merge_", number), {variable.enter->output(), Output()},
                               {{"T", variable.initial.dtype()}, {"N", 2}}));
    return {};
  }

  Status add_condition(const Node& call, const FunctionBody& condition, Loop& loop) {
    auto argument = [&](int i) -> Result<SplicedArgument> {
      const Variable& variable = loop.variables[i];
      if (variable.is_invariant) return SplicedArgument{variable.enter->output(), /*is_gated=*/false};
      return SplicedArgument{variable.merge->output()};
    };
    TUTTI_ASSIGN_OR_RETURN(loop.condition, splice({.call = call,
                                                   .callee = condition,
                                                   .scope = str_cat(call.name(), "/cond"),
                                                   .pivot = loop.first,
                                                   .argument = argument}));
    TUTTI_ASSIGN_OR_RETURN(Output value, plain(call, "cond_value", loop.condition.results[0].value, {loop.first}));
    std::vector<Node*> after = loop.condition.effects;
    if (!loop.condition.results[0].is_gated) after.push_back(loop.first);
    if (!after.empty()) {
      TUTTI_ASSIGN_OR_RETURN(value, delayed(call, "cond_done", value, std::move(after)));
    }
    TUTTI_ASSIGN_OR_RETURN(value, truth(call, value));
    TUTTI_ASSIGN_OR_RETURN(loop.decided, add(call, "LoopCond", "loop_cond", {value}));
    for (std::size_t i = 0; i < loop.variables.size(); ++i) {
      Variable& variable = loop.variables[i];
      if (variable.is_invariant) continue;
      TUTTI_ASSIGN_OR_RETURN(variable.turn, add(call, "Switch", str_cat("switch_", i),
                                                {variable.merge->output(), loop.decided->output()}));
      TUTTI_ASSIGN_OR_RETURN(variable.exit, add(call, "Exit", str_cat("exit_", i), {variable.turn->output(0)}));
    }
    return {};
  }

  // Whether the body has effects. They are over before the next iteration begins.
  Result<bool> add_body(const Node& call, const FunctionBody& callee, Loop& loop) {
    const Output decided = loop.decided->output();
    TUTTI_ASSIGN_OR_RETURN(Node * turn, add(call, "Switch", "switch_pivot", {decided, decided}));
    TUTTI_ASSIGN_OR_RETURN(Node * pivot, add(call, "Identity", "body_pivot", {turn->output(1)}));
    auto argument = [&](int i) -> Result<SplicedArgument> {
      const Variable& variable = loop.variables[i];
      if (variable.is_invariant) return SplicedArgument{variable.enter->output(), /*is_gated=*/false};
      return SplicedArgument{variable.turn->output(1)};
    };
    TUTTI_ASSIGN_OR_RETURN(SplicedBody body, splice({.call = call,
                                                     .callee = callee,
                                                     .scope = str_cat(call.name(), "/body"),
                                                     .pivot = pivot,
                                                     .argument = argument}));
    for (std::size_t i = 0; i < loop.variables.size(); ++i) {
      const Variable& variable = loop.variables[i];
      if (variable.is_invariant) continue;
      SplicedArgument next = i < body.results.size() ? body.results[i] : SplicedArgument{variable.turn->output(1)};
      TUTTI_ASSIGN_OR_RETURN(next.value, plain(call, str_cat("result_", i), next.value, {}));
      std::vector<Node*> after = body.effects;
      if (!next.is_gated) after.push_back(pivot);
      if (!after.empty()) {
        TUTTI_ASSIGN_OR_RETURN(next.value, delayed(call, str_cat("body_done_", i), next.value, std::move(after)));
      }
      TUTTI_ASSIGN_OR_RETURN(Node * again, add(call, "NextIteration", str_cat("next_", i), {next.value}));
      TUTTI_RETURN_IF_ERROR(graph_.set_input(*variable.merge, 1, again->output()));
    }
    return !body.effects.empty();
  }

  // ---- In place of the node ----

  // The node was over when `all` have run.
  Status finish(Node& call, std::vector<Output> results, std::vector<Node*> all, bool effects) {
    Node* end = nullptr;
    if (effects || waited_for_.contains(&call)) {
      TUTTI_ASSIGN_OR_RETURN(end, add(call, "NoOp", "end", {}, {}, std::move(all)));
      ends_[&call] = end;
    }
    if (effects) body_.targets.push_back(end);
    for (int i = 0; i < call.num_outputs(); ++i) {
      if (effects) {
        TUTTI_ASSIGN_OR_RETURN(results[i], delayed(call, str_cat("output_", i), results[i], {end}));
      }
      values_[{&call, i}] = results[i];
    }
    return {};
  }

  // Invariants of one loop may be results of another. Shortens the way for the next who asks.
  Output final_value(Output value) {
    Output last = value;
    for (auto it = values_.find(last); it != values_.end(); it = values_.find(last)) last = it->second;
    while (!(value == last)) value = std::exchange(values_[value], last);
    return last;
  }

  void reroute() {
    graph_.rewrite_inputs([this](Output input) { return final_value(input); });
    auto replace = [this](std::span<Node* const> nodes) {
      std::vector<Node*> replaced;
      for (Node* node : nodes) {
        auto it = ends_.find(node);
        replaced.push_back(it == ends_.end() ? node : it->second);
      }
      return replaced;
    };
    for (Node* node : graph_.nodes()) graph_.set_control_inputs(*node, replace(node->control_inputs()));
    std::vector<Node*> targets = replace(body_.targets);
    std::sort(targets.begin(), targets.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
    targets.erase(std::unique(targets.begin(), targets.end()), targets.end());
    body_.targets = std::move(targets);
    for (Node* call : replaced_) graph_.remove(*call);
  }

  FunctionBody& body_;
  Graph& graph_;
  Nest& nest_;
  const DeviceName outer_;  // what the calls around ask for
  std::unordered_set<const Node*> waited_for_;
  std::unordered_map<Output, Output, OutputHash> values_;  // of replaced nodes
  std::unordered_map<const Node*, Node*> ends_;            // of replaced nodes that are waited for
  std::vector<Node*> replaced_;
};

}  // namespace

Status lower_control_flow(FunctionBody& body, Lowering which) {
  Nest nest{.which = which};
  return Lowerer(body, nest, DeviceName()).run();
}

}  // namespace tutti
