#include "tutti/distributed/internal/session_config.h"

#include "tutti/distributed/cluster_spec.h"

namespace tutti::internal {

SessionConfig merge_configs(const SessionConfig& server, const SessionConfig& request) {
  SessionConfig merged = server;
  merged.device_filters.insert(merged.device_filters.end(), request.device_filters.begin(),
                               request.device_filters.end());
  merged.allow_soft_placement |= request.allow_soft_placement;
  merged.log_device_placement |= request.log_device_placement;
  if (request.operation_timeout.count() != 0) merged.operation_timeout = request.operation_timeout;
  merged.isolate_session_state |= request.isolate_session_state;
  for (const auto& [job, tasks] : request.cluster) {
    for (const auto& [index, address] : tasks) merged.cluster[job][index] = address;
  }
  merged.optimize = server.optimize && request.optimize;
  merged.per_session_threads |= request.per_session_threads;
  return merged;
}

Status check_config(const SessionConfig& config) {
  if (!config.per_session_threads) return {};
  return invalid_argument("Distributed session does not support session thread pool options.");
}

Result<std::string> find_own_task(const ClusterTasks& cluster, const std::string& target, const std::string& booted) {
  std::string address = target;
  if (const std::size_t prefix = target.find("://"); target.starts_with("grpc") && prefix != std::string::npos) {
    address = target.substr(prefix + 3);
  }
  std::string own;
  for (const auto& [job, tasks] : cluster) {
    for (const auto& [index, where] : tasks) {
      if (where != address) continue;
      const std::string name = task_name(job, index);
      if (!own.empty()) {
        return invalid_argument("cluster_def: both ", own, " and ", printable(name), " are at ", printable(address),
                                ", the session's target");
      }
      own = name;
    }
  }
  if (own.empty()) {
    return invalid_argument("cluster_def: no task is at ", printable(address),
                            ", the session's target: the master is not part of the given cluster");
  }
  if (own == booted) {
    return invalid_argument("cluster_def: the master would be ", own,
                            ", as it was started; a propagated cluster must give it another job or task");
  }
  return own;
}

}  // namespace tutti::internal
