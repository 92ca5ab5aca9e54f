#include "tutti/graph/subgraph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tutti/graph/internal/output_hash.h"

namespace tutti {
namespace {

class Extractor {
 public:
  explicit Extractor(const Graph& graph) {
    body_.graph = std::make_unique<Graph>(graph.shared_ops(), graph.shared_library());
  }

  Result<FunctionBody> run(const Graph& graph, const Signature& signature) {
    TUTTI_RETURN_IF_ERROR(find_ends(graph, signature));
    TUTTI_RETURN_IF_ERROR(find_connections(graph, signature));
    collect();
    TUTTI_RETURN_IF_ERROR(copy());
    TUTTI_RETURN_IF_ERROR(add_args());
    TUTTI_RETURN_IF_ERROR(connect());
    TUTTI_RETURN_IF_ERROR(add_retvals());
    std::unordered_set<Node*> seen;
    for (Node* target : targets_) {
      Node* copied = copy_of(target);
      if (seen.insert(copied).second) body_.targets.push_back(copied);
    }
    // Shapes were worked out from values, and feeds may give others.
    if (replaces_values_) body_.graph->reinfer_shapes();
    if (!connected_.empty())
      TUTTI_RETURN_IF_ERROR(body_.graph->topological_order().status().with_context("connection"));
    return std::move(body_);
  }

 private:
  Status find_ends(const Graph& graph, const Signature& signature) {
    for (const std::string& name : signature.feeds) {
      Result<Output> feed = graph.find_output(name);
      if (!feed.ok()) return feed.status().with_context("feed");
      if (!args_.try_emplace(*feed, nullptr).second) {
        return invalid_argument("feed: tensor \"", printable(name), "\" is fed twice");
      }
      feeds_.push_back(*feed);
      replaces_values_ = replaces_values_ || feed->node->op_name() != "Placeholder";
    }
    for (const std::string& name : signature.fetches) {
      Result<Output> fetch = graph.find_output(name);
      if (!fetch.ok()) return fetch.status().with_context("fetch");
      fetches_.push_back(*fetch);
    }
    for (const std::string& name : signature.targets) {
      Node* node = graph.find(name);
      if (node == nullptr) return not_found("target \"", printable(name), "\": the graph has no such node");
      targets_.push_back(node);
    }
    return {};
  }

  Status find_connections(const Graph& graph, const Signature& signature) {
    for (const auto& [from, to] : signature.connections) {
      Result<Output> source = graph.find_output(from);
      if (!source.ok()) return source.status().with_context("connection");
      Result<Output> replaced = graph.find_output(to);
      if (!replaced.ok()) return replaced.status().with_context("connection");
      if (source->dtype() != replaced->dtype()) {
        return invalid_argument("connection: tensor \"", printable(from), "\" is ", dtype_name(source->dtype()),
                                ", tensor \"", printable(to), "\" is ", dtype_name(replaced->dtype()));
      }
      if (args_.contains(*replaced) || !connected_.try_emplace(*replaced, *source).second) {
        return invalid_argument("connection: tensor \"", printable(to), "\" is given two values");
      }
      replaces_values_ = true;
    }
    for (const auto& [from, to] : signature.connections) {
      if (connected_.contains(*graph.find_output(from))) {
        return invalid_argument("connection: tensor \"", printable(from), "\" is at both ends of connections");
      }
    }
    return {};
  }

  Status add_args() {
    for (const Output& feed : feeds_) {
      NodeSpec spec{.op = "_Arg",
                    .name = body_.graph->unique_name(str_cat("_arg_", feed.node->name(), "_", feed.index))};
      spec.attrs = {{"T", feed.dtype()}, {"index", static_cast<std::int64_t>(body_.args.size())}};
      spec.device = feed.node->requested_device();
      TUTTI_ASSIGN_OR_RETURN(Node * arg, body_.graph->add_exact(std::move(spec)));
      body_.graph->set_output_shape(*arg, 0, feed.shape());
      body_.args.push_back(arg);
      args_[feed] = arg;
    }
    return {};
  }

  Output source_of(Output output) const {
    auto it = connected_.find(output);
    return it == connected_.end() ? output : it->second;
  }

  // A placeholder that is fed or connected does not run: who waits for it waits for what it is given.
  Node* waited_for(Node* node) const {
    return node->inputs().empty() && node->num_outputs() == 1 ? source_of(node->output()).node : node;
  }
  bool is_fed_source(Node* node) const {
    return node->inputs().empty() && node->num_outputs() == 1 && args_.contains(node->output());
  }

  // Every node that must run, in the order of the graph.
  void collect() {
    std::unordered_set<Node*> seen;
    auto reach = [&](Node* node) {
      if (!is_fed_source(node) && seen.insert(node).second) part_.push_back(node);
    };
    auto reach_value = [&](Output output) {
      output = source_of(output);
      if (!args_.contains(output)) reach(output.node);
    };
    for (const Output& fetch : fetches_) reach_value(fetch);
    for (Node* target : targets_) reach(waited_for(target));
    for (std::size_t i = 0; i < part_.size(); ++i) {
      Node* node = part_[i];
      for (const Output& input : node->inputs()) {
        if (input) reach_value(input);
      }
      for (Node* before : node->control_inputs()) reach(waited_for(before));
    }
    std::sort(part_.begin(), part_.end(), [](const Node* a, const Node* b) { return a->id() < b->id(); });
  }

  Status copy() {
    for (Node* node : part_) {
      TUTTI_RETURN_IF_ERROR(node->check_known());
      TUTTI_ASSIGN_OR_RETURN(copies_[node], body_.graph->copy_node(*node, node->name()));
    }
    return {};
  }

  Node* copy_of(Node* node) const {
    node = waited_for(node);
    return is_fed_source(node) ? args_.at(node->output()) : copies_.at(node);
  }

  Output value_of(Output output) const {
    output = source_of(output);
    if (auto it = args_.find(output); it != args_.end()) return it->second->output();
    return {copy_of(output.node), output.index};
  }

  Status connect() {
    for (Node* node : part_) {
      Node& copied = *copies_.at(node);
      for (int i = 0; i < static_cast<int>(node->inputs().size()); ++i) {
        if (node->input(i)) TUTTI_RETURN_IF_ERROR(body_.graph->set_input(copied, i, value_of(node->input(i))));
      }
      std::vector<Node*> controls;
      for (Node* before : node->control_inputs()) controls.push_back(copy_of(before));
      body_.graph->set_control_inputs(copied, std::move(controls));
    }
    return {};
  }

  Status add_retvals() {
    for (const Output& fetch : fetches_) {
      NodeSpec spec{.op = "_Retval",
                    .name = body_.graph->unique_name(str_cat("_retval_", fetch.node->name(), "_", fetch.index)),
                    .inputs = {value_of(fetch)}};
      spec.attrs = {{"T", fetch.dtype()}, {"index", static_cast<std::int64_t>(body_.retvals.size())}};
      spec.device = fetch.node->requested_device();
      TUTTI_ASSIGN_OR_RETURN(Node * retval, body_.graph->add_exact(std::move(spec)));
      body_.retvals.push_back(retval);
    }
    return {};
  }

  FunctionBody body_;
  std::vector<Output> feeds_;
  std::vector<Output> fetches_;
  std::vector<Node*> targets_;
  std::unordered_map<Output, Node*, OutputHash> args_;  // by fed output; null before add_args
  std::vector<Node*> part_;
  std::unordered_map<Node*, Node*> copies_;
  std::unordered_map<Output, Output, OutputHash> connected_;  // by what is replaced
  bool replaces_values_ = false;
};

}  // namespace

Result<FunctionBody> extract_subgraph(const Graph& graph, const Signature& signature) {
  return Extractor(graph).run(graph, signature);
}

void prune(FunctionBody& body) {
  std::vector<bool> needed(body.graph->id_limit(), false);
  std::vector<Node*> queue;
  auto reach = [&](Node* node) {
    if (needed[node->id()]) return;
    needed[node->id()] = true;
    queue.push_back(node);
  };
  for (Node* node : body.args) reach(node);
  for (Node* node : body.retvals) reach(node);
  for (Node* node : body.targets) reach(node);
  while (!queue.empty()) {
    Node* node = queue.back();
    queue.pop_back();
    for (const Output& input : node->inputs()) {
      if (input) reach(input.node);
    }
    for (Node* before : node->control_inputs()) reach(before);
  }
  for (Node* node : body.graph->nodes()) {
    if (!needed[node->id()]) body.graph->remove(*node);
  }
}

}  // namespace tutti
