#include "tutti/distributed/explain.h"

#include "tutti/core/device_name.h"
#include "tutti/distributed/internal/kernel_finder.h"
#include "tutti/graph/explain.h"

namespace tutti {
namespace {

// REQUIRES: the cluster has a task.
std::string first_master(const ClusterSpec& cluster) {
  const auto& jobs = cluster.tasks();
  const auto workers = jobs.find("worker");
  const auto& [job, tasks] = workers == jobs.end() ? *jobs.begin() : *workers;
  return task_name(job, tasks.begin()->first);
}

}  // namespace

Result<std::string> explain(const ClusterSpec& cluster, const Graph& graph, const Signature& signature,
                            const ClusterExplainOptions& options) {
  const auto addresses = task_addresses(cluster);
  if (addresses.empty()) return invalid_argument("explain: the cluster has no tasks");
  const std::string master = options.master.empty() ? first_master(cluster) : options.master;
  if (!addresses.contains(master)) {
    return invalid_argument("explain: the master ", printable(master), " is not a task of ", cluster.to_string());
  }
  ExplainOptions explained;
  explained.client_device = str_cat(master, "/device:CPU:0");
  explained.placement.allow_soft_placement = options.allow_soft_placement;
  for (const auto& [task, address] : addresses) {
    TUTTI_ASSIGN_OR_RETURN(DeviceName device, DeviceName::parse(str_cat(task, "/device:CPU:0")));
    explained.placement.devices.push_back(std::move(device));
  }
  TUTTI_ASSIGN_OR_RETURN(const DeviceName local, DeviceName::parse(explained.client_device));
  sort_for_placement(explained.placement.devices, local);
  explained.placement.has_kernel = internal::kernel_finder(*options.ops, graph);
  return explain(graph, signature, explained);
}

}  // namespace tutti
