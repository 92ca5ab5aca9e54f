#include "tutti/distributed/internal/master_graph.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/internal/graph_versions.h"
#include "tutti/distributed/internal/kernel_finder.h"
#include "tutti/graph/graph_def.h"
#include "tutti/graph/placement.h"
#include "tutti/graph/step_cut.h"

namespace tutti::internal {
namespace {

std::map<std::string, std::uint64_t> incarnations_of(const std::vector<DeviceInfo>& devices) {
  std::map<std::string, std::uint64_t> incarnations;
  for (const DeviceInfo& device : devices) incarnations[device.name] = device.incarnation;
  return incarnations;
}

// The arguments that a result depends on, in order.
std::vector<int> feeds_behind(const Node* result, const std::unordered_map<const Node*, int>& feed_of, int id_limit) {
  std::vector<int> feeds;
  std::vector<bool> seen(id_limit, false);
  std::vector<const Node*> open{result};
  auto visit = [&](const Node* node) {
    if (node == nullptr || seen[node->id()]) return;
    seen[node->id()] = true;
    open.push_back(node);
  };
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    if (auto feed = feed_of.find(node); feed != feed_of.end()) feeds.push_back(feed->second);
    for (const Output& input : node->inputs()) visit(input.node);
    for (const Node* before : node->control_inputs()) visit(before);
  }
  std::sort(feeds.begin(), feeds.end());
  return feeds;
}

}  // namespace

MasterGraph::MasterGraph(Options options)
    : options_(std::move(options)), incarnations_(incarnations_of(options_.devices)), graph_(options_.ops) {}

Status MasterGraph::add(const std::string& graph_def) {
  int producer = 0;
  TUTTI_RETURN_IF_ERROR(check_versions(graph_def, &producer));
  const int first_id = graph_.id_limit();
  TUTTI_RETURN_IF_ERROR(
      import_graph_def(graph_def, graph_, {.accept = [this](Graph& graph) { return place_nodes(graph); }}));
  if (producer_ == 0) producer_ = producer;
  say_placement(first_id);
  return {};
}

Status MasterGraph::check_versions(const std::string& graph_def, int* producer) const {
  TUTTI_ASSIGN_OR_RETURN(*producer, graph_producer(graph_def));
  if (producer_ == 0 || *producer == 0 || *producer == producer_) return {};
  return invalid_argument("Can't extend GraphDef at version ", producer_, " with graph at version ", *producer);
}

Status MasterGraph::place_nodes(Graph& graph) const {
  PlacementOptions placement;
  for (const DeviceInfo& device : options_.devices) {
    TUTTI_ASSIGN_OR_RETURN(DeviceName name, DeviceName::parse(device.name));
    placement.devices.push_back(std::move(name));
  }
  TUTTI_ASSIGN_OR_RETURN(const DeviceName local, DeviceName::parse(options_.client_device));
  sort_for_placement(placement.devices, local);
  placement.allow_soft_placement = options_.allow_soft_placement;
  placement.has_kernel = kernel_finder(*options_.ops, graph);
  return place(graph, placement);
}

void MasterGraph::say_placement(int first_id) const {
  if (!options_.log_placement) return;
  for (int id = first_id; id < graph_.id_limit(); ++id) {
    const Node* node = graph_.node_by_id(id);
    if (node == nullptr) continue;
    options_.log_placement(
        str_cat(printable(node->name()), ": (", printable(node->op_name()), "): ", node->assigned_device()));
  }
}

Result<CutStep> MasterGraph::cut(const Signature& names) {
  TUTTI_ASSIGN_OR_RETURN(FunctionBody body, extract_subgraph(graph_, names));
  CutStep step;
  std::unordered_map<const Node*, int> feed_of;
  for (std::size_t i = 0; i < names.feeds.size(); ++i) {
    const Node* arg = body.args[i];
    feed_of[arg] = static_cast<int>(i);
    step.feeds.push_back({names.feeds[i], arg->output_types()[0].dtype, arg->output_shape(0)});
  }
  for (const Node* retval : body.retvals) {
    step.needs.push_back(feeds_behind(retval, feed_of, body.graph->id_limit()));
  }
  PartitionOptions options;
  options.part_of = [](const std::string& device) { return std::string(task_of(device)); };
  options.incarnation_of = [this](const std::string& device) {
    auto it = incarnations_.find(device);
    return it == incarnations_.end() ? 0 : it->second;
  };
  options.client_device = options_.client_device;
  options.first_number = next_number_;
  TUTTI_ASSIGN_OR_RETURN(
      Partitioning cut,
      cut_step(body, graph_, {.partition = options, .place = [this](Graph& graph) { return place_nodes(graph); }}));
  next_number_ = cut.next_number;
  for (Part& part : cut.parts) {
    step.parts.push_back({part.name, export_graph_def(*part.graph), std::move(part.feeds), std::move(part.fetches)});
    part.graph.reset();
  }
  return step;
}

}  // namespace tutti::internal
