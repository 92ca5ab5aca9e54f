// The graph of a master's session: grown by the client, placed over the tasks' devices, cut for each signature.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/distributed/messages.h"
#include "tutti/graph/graph.h"
#include "tutti/graph/partition.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/op_table.h"

namespace tutti::internal {

struct FeedInfo {
  std::string name;
  DType dtype;
  PartialShape shape;
};

// A signature, cut.
struct CutStep {
  struct TaskPart {
    std::string task;
    std::string graph_def;
    std::vector<Part::Terminal> feeds;
    std::vector<Part::Terminal> fetches;
  };
  std::vector<TaskPart> parts;
  std::vector<FeedInfo> feeds;
  std::vector<std::vector<int>> needs;  // for each fetch, the feeds behind it
};

// Not thread-safe.
class MasterGraph {
 public:
  struct Options {
    std::shared_ptr<const OpTable> ops;
    std::vector<DeviceInfo> devices;  // the master's own first
    std::string client_device;        // where feeds enter and fetches leave
    bool allow_soft_placement = false;
    std::function<void(const std::string& line)> log_placement;  // null: nothing is said
  };
  explicit MasterGraph(Options options);

  // Adds a GraphDef's nodes and functions and places the whole; stateful nodes stay where they are. All or nothing.
  // kInvalidArgument: a name that is taken, another producer version than before, no device for a node.
  Status add(const std::string& graph_def);
  // REQUIRES: `names` as canonical() gives them.
  Result<CutStep> cut(const Signature& names);

 private:
  Status check_versions(const std::string& graph_def, int* producer) const;
  Status place_nodes(Graph& graph) const;
  void say_placement(int first_id) const;

  const Options options_;
  std::map<std::string, std::uint64_t> incarnations_;  // by device
  Graph graph_;
  std::int64_t next_number_ = 0;  // of nodes that cuts add
  int producer_ = 0;              // of the first GraphDef that told one
};

}  // namespace tutti::internal
