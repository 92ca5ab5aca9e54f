// Tasks in one process that run the parts of a cut graph, without a master, worker or network between them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tutti/graph/partition.h"
#include "tutti/graph/placement.h"
#include "tutti/graph/subgraph.h"
#include "tutti/runtime/local_runtime.h"
#include "tutti/runtime/session.h"

namespace tutti::testing {

class CutCluster {
 public:
  // Of one task each: {"ps", "worker"}. The client's device is the first one's.
  explicit CutCluster(const std::vector<std::string>& jobs);
  ~CutCluster();

  // "/job:ps/replica:0/task:0/device:CPU:0"
  const std::string& device(std::size_t task) const { return devices_[task]; }

  // What running it in one piece gives. The graph is extracted, placed, cut, exported, imported and compiled anew.
  Result<std::vector<Tensor>> run(Graph& graph, const Feeds& feeds, const std::vector<Output>& fetches,
                                  const std::vector<Node*>& targets = {});
  // Of the last run.
  const Partitioning& parts() const { return parts_; }

 private:
  struct Task;
  Result<FunctionBody> place_and_extract(Graph& graph, const Signature& signature);
  Status run_parts(const Feeds& feeds, std::vector<Tensor>* results);

  std::map<std::string, std::unique_ptr<Task>> tasks_;  // by name
  std::vector<std::string> devices_;
  Partitioning parts_;
  std::int64_t next_number_ = 0;
};

}  // namespace tutti::testing
