#include "tutti/distributed/internal/session_config.h"

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

}  // namespace tutti::internal
