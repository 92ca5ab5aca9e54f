// Places graphs for check_placement.py: placement_tool FOLDER FLAGS LOCAL_TASK JOB=TASKS... For FOLDER/N.pb prints a
// line "N node device" for each node, or "N ! error". FLAGS has a letter for each graph: h (hard placement), s (soft),
// or c: where the nodes that "end" needs are once the graph is cut.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "tutti/graph/graph_def.h"
#include "tutti/graph/partition.h"
#include "tutti/graph/placement.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/op_table.h"

namespace tutti::interop {
namespace {

std::string client_device(const PlacementOptions& options) { return options.devices.front().to_string(); }

// The graph's nodes in all parts, by the names they had.
Result<std::map<std::string, std::string>> cut(const Graph& graph, const PlacementOptions& options) {
  TUTTI_ASSIGN_OR_RETURN(const FunctionBody body, extract_subgraph(graph, {.targets = {"end"}}));
  TUTTI_ASSIGN_OR_RETURN(const Partitioning parts,
                         partition(body, {.part_of = [](const std::string& device) { return device; },
                                          .incarnation_of = [](const std::string&) { return 1; },
                                          .client_device = client_device(options)}));
  std::map<std::string, std::string> devices;
  for (const Part& part : parts.parts) {
    for (const Node* node : part.graph->nodes()) {
      if (graph.find(node->name()) != nullptr) devices[node->name()] = node->assigned_device();
    }
  }
  return devices;
}

Result<std::map<std::string, std::string>> devices_of(Graph& graph, const PlacementOptions& options, bool is_cut) {
  TUTTI_RETURN_IF_ERROR(place(graph, options));
  if (is_cut) return cut(graph, options);
  std::map<std::string, std::string> devices;
  for (const Node* node : graph.nodes()) devices[node->name()] = node->assigned_device();
  return devices;
}

void place_one(std::size_t index, const std::string& path, const PlacementOptions& options, bool is_cut) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  Graph graph(builtin_ops());
  Status imported = import_graph_def(bytes.str(), graph);
  if (!imported.ok()) {
    std::printf("%zu ! %s\n", index, imported.message().c_str());
    return;
  }
  const Result<std::map<std::string, std::string>> devices = devices_of(graph, options, is_cut);
  if (!devices.ok()) {
    std::printf("%zu ! %s\n", index, devices.status().message().c_str());
    return;
  }
  for (const auto& [name, device] : *devices) std::printf("%zu %s %s\n", index, name.c_str(), device.c_str());
}

int run(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string flags = argv[2];
  PlacementOptions options;
  options.has_kernel = [](const Node& node, const std::string& type) {
    return builtin_ops()->find_kernel(node.op_name(), node.attrs(), type) != nullptr;
  };
  for (int i = 4; i < argc; ++i) {
    const std::string job = argv[i];
    const std::size_t at = job.find('=');
    for (int task = 0; task < std::atoi(job.c_str() + at + 1); ++task) {
      options.devices.push_back(
          DeviceName::parse(str_cat("/job:", job.substr(0, at), "/replica:0/task:", task, "/device:CPU:0"))
              .value_or_throw());
    }
  }
  sort_for_placement(options.devices, DeviceName::parse(argv[3]).value_or_throw());
  for (std::size_t i = 0; i < flags.size(); ++i) {
    options.allow_soft_placement = flags[i] == 's';
    place_one(i, str_cat(argv[1], "/", i, ".pb"), options, flags[i] == 'c');
  }
  return 0;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) { return tutti::interop::run(argc, argv); }
