// Places graphs for check_placement.py: placement_tool FOLDER SOFT LOCAL_TASK JOB=TASKS... For FOLDER/N.pb prints a line
// "N node device" for each node, or "N ! error". SOFT has a digit for each graph: whether it may be placed softly.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "tutti/graph/graph_def.h"
#include "tutti/graph/placement.h"
#include "tutti/ops/op_table.h"

namespace tutti::interop {
namespace {

void place_one(int index, const std::string& path, const PlacementOptions& options) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  Graph graph(builtin_ops());
  Status status = import_graph_def(bytes.str(), graph);
  if (status.ok()) status = place(graph, options);
  if (!status.ok()) {
    std::printf("%d ! %s\n", index, status.message().c_str());
    return;
  }
  for (const Node* node : graph.nodes()) {
    std::printf("%d %s %s\n", index, node->name().c_str(), node->assigned_device().c_str());
  }
}

int run(int argc, char** argv) {
  if (argc < 5) return 2;
  const std::string soft = argv[2];
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
  for (std::size_t i = 0; i < soft.size(); ++i) {
    options.allow_soft_placement = soft[i] == '1';
    place_one(static_cast<int>(i), str_cat(argv[1], "/", i, ".pb"), options);
  }
  return 0;
}

}  // namespace
}  // namespace tutti::interop

int main(int argc, char** argv) { return tutti::interop::run(argc, argv); }
