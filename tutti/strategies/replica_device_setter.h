// Between-graph replication: variables go to parameter servers, everything else to the worker.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "tutti/distributed/cluster_spec.h"
#include "tutti/graph/graph.h"

namespace tutti {

// Chooses the parameter server, by its index, that a node goes to.
using PsStrategy = std::function<int(const NodeSpec&)>;

// 0, 1, ..., num_tasks - 1, 0, ... in the order of calls. REQUIRES: num_tasks > 0.
PsStrategy round_robin(int num_tasks);

struct ReplicaDeviceSetterOptions {
  // Parameter servers; when 0, as many as the job of `ps_device` has in `cluster`.
  int ps_tasks = 0;
  ClusterSpec cluster;
  std::string ps_device = "/job:ps";
  std::string worker_device = "/job:worker";
  // False: a node that has a device already is left as it is. (TensorFlow keeps this for old programs.)
  bool merge_devices = true;
  // Ops that go to parameter servers.
  std::set<std::string> ps_ops = {"Variable",
                                  "VariableV2",
                                  "AutoReloadVariable",
                                  "MutableHashTable",
                                  "MutableHashTableV2",
                                  "MutableHashTableOfTensors",
                                  "MutableHashTableOfTensorsV2",
                                  "MutableDenseHashTable",
                                  "MutableDenseHashTableV2",
                                  "VarHandleOp"};
  PsStrategy ps_strategy;  // empty: round_robin
};

// For Graph::device_scope. What a node asks for itself is stronger: its job and task stay, and its type of device is
// put beside the chosen task. The strategy is asked only for nodes that may go to the job of `ps_device`. Empty, which
// is a scope without effect, when there are no parameter servers. Throws Error on a bad device name and for a cluster
// of several workers without a parameter server (TensorFlow lets each of them train alone); the function does when the
// strategy gives no task's index.
DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options);

}  // namespace tutti
