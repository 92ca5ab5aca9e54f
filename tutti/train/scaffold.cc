#include "tutti/train/scaffold.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/state.h"
#include "tutti/train/environment.h"
#include "tutti/train/internal/saver_in.h"
#include "tutti/train/saver.h"
#include "tutti/train/uninitialized.h"

namespace tutti {
namespace {

// The collection's one node; `make` it when there is none. Null when that gives none.
template <typename Make>
Node* get_or_make(Graph& graph, const std::string& collection, const Make& make) {
  const std::vector<Node*>& known = graph.collection(collection);
  if (known.size() > 1) {
    throw_error(invalid_argument("More than one item in the collection \"", collection,
                                 "\". Say which one to use by setting Scaffold::", collection, ": \"", known[0]->name(),
                                 "\", \"", known[1]->name(), "\", ..."));
  }
  if (!known.empty()) return known[0];
  Node* made = make();
  if (made != nullptr) graph.add_to_collection(collection, *made);
  return made;
}

template <typename Make>
void fill(Output& piece, Graph& graph, const std::string& collection, const Make& make) {
  if (piece) return;
  if (Node* node = get_or_make(graph, collection, make)) piece = node->output();
}

Node* merge_summaries(Graph& graph) {
  const std::vector<Node*>& summaries = graph.collection("summaries");
  if (summaries.empty()) return nullptr;
  std::vector<Output> values;
  for (Node* summary : summaries) values.push_back(summary->output());
  const std::int64_t count = static_cast<std::int64_t>(values.size());
  return add_op(graph, "MergeSummary", std::move(values), {{"N", count}}, "Merge/MergeSummary");
}

Node* default_local_init(Graph& graph) {
  std::vector<Node*> initializers = graph.collection("table_initializer");
  for (const Var& variable : local_variables(graph)) initializers.push_back(variable.initializer());
  return group(graph, initializers, "local_init");
}

std::shared_ptr<Saver> default_saver(Graph& graph, bool in_background, const Environment& environment) {
  SaverOptions options;
  options.sharded = true;
  options.allow_empty = true;
  options.save_in_background = in_background;
  options.holder = "chief";  // of a job, who is one at a time
  return internal::saver_in(environment, graph, options);
}

std::vector<Var> all_variables(Graph& graph) {
  std::vector<Var> variables = global_variables(graph);
  for (const Var& variable : local_variables(graph)) variables.push_back(variable);
  return variables;
}

}  // namespace

void Scaffold::finalize(Graph& graph) { finalize(graph, Environment()); }

void Scaffold::finalize(Graph& graph, const Environment& environment) {
  const auto top = graph.name_scope("");
  const auto anywhere = graph.device_scope("");
  if (init_op == nullptr) {
    init_op = get_or_make(graph, "init_op", [&] { return global_variables_initializer(graph); });
  }
  fill(ready_op, graph, "ready_op", [&] {
    return report_uninitialized_variables(graph, all_variables(graph), "report_uninitialized_variables").node;
  });
  fill(ready_for_local_init_op, graph, "ready_for_local_init_op", [&] {
    return report_uninitialized_variables(graph, global_variables(graph), "report_uninitialized_globals").node;
  });
  if (local_init_op == nullptr) {
    local_init_op = get_or_make(graph, "local_init_op", [&] { return default_local_init(graph); });
  }
  fill(summary_op, graph, "summary_op", [&] { return merge_summaries(graph); });
  if (saver == nullptr) saver = default_saver(graph, save_in_background, environment);
}

}  // namespace tutti
