// The messages of TensorFlow's master and worker services that we act on, as plain values. codec.h has their bytes;
// what we do not act on is skipped there.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/graph/subgraph.h"
#include "tutti/runtime/step_stats.h"

namespace tutti {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct DeviceInfo {
  std::string name;  // full
  std::string type;
  std::int64_t memory_limit = 0;
  std::uint64_t incarnation = 0;  // never 0
  std::string description;
  bool operator==(const DeviceInfo&) const = default;
};

// job -> task index -> "host:port", as in ClusterDef.
using ClusterTasks = std::map<std::string, std::map<int, std::string>>;

// What we honour of a ConfigProto.
struct SessionConfig {
  std::vector<std::string> device_filters;
  bool allow_soft_placement = false;
  bool log_device_placement = false;
  std::chrono::milliseconds operation_timeout{0};  // 0: none
  bool isolate_session_state = false;
  ClusterTasks cluster;  // not empty: cluster spec propagation, which a master refuses
  bool optimize = true;  // false: opt_level L0; rewrites that a client may turn off are off
  // Asked for, but not on a remote master, as in TensorFlow: creating the session is kInvalidArgument.
  bool per_session_threads = false;
};

// What we honour of RunOptions.
struct StepOptions {
  std::chrono::milliseconds timeout{0};  // 0: the session's
  bool trace = false;                    // FULL_TRACE or another level
  bool partition_graphs = false;
};

// What a step tells about itself: RunMetadata.
struct StepReport {
  StepStats step_stats;
  std::vector<std::string> partition_graphs;  // GraphDefs
};

// --- MasterService ---

struct CreateSessionRequest {
  std::string graph_def;
  SessionConfig config;
  std::string target;
  // By Tutti's clients: a task that is not there ends it, with kUnavailable; else it is waited for.
  bool fail_fast = false;
};
struct CreateSessionReply {
  std::string session_handle;
  std::int64_t graph_version = 0;
};

struct ExtendSessionRequest {
  std::string session_handle;
  std::string graph_def;
  std::int64_t current_graph_version = 0;
};
struct ExtendSessionReply {
  std::int64_t new_graph_version = 0;
};

struct RunStepRequest {
  std::string session_handle;
  NamedTensors feeds;
  std::vector<std::string> fetches;
  std::vector<std::string> targets;
  StepOptions options;
  std::string partial_run_handle;
  bool store_errors_in_response_body = false;
  std::int64_t request_id = 0;
};
struct RunStepReply {
  NamedTensors tensors;  // under the names that were asked for
  StepReport report;
  Status status;  // of the step, where errors go into the body
};

struct PartialRunSetupRequest {
  std::string session_handle;
  Signature signature;
  std::int64_t request_id = 0;
};
struct PartialRunSetupReply {
  std::string partial_run_handle;
};

struct CloseSessionRequest {
  std::string session_handle;
};

struct ListDevicesRequest {
  std::string session_handle;  // may be empty
};
struct ListDevicesReply {
  std::vector<DeviceInfo> local;
  std::vector<DeviceInfo> remote;
};

struct ResetRequest {
  std::vector<std::string> containers;
  std::vector<std::string> device_filters;
};

struct MakeCallableRequest {
  std::string session_handle;
  Signature signature;
  StepOptions options;
  std::int64_t request_id = 0;
};
struct MakeCallableReply {
  std::int64_t handle = 0;
};

struct RunCallableRequest {
  std::string session_handle;
  std::int64_t handle = 0;
  std::vector<Tensor> feeds;
  std::int64_t request_id = 0;
};
struct RunCallableReply {
  std::vector<Tensor> fetches;
  StepReport report;
};

struct ReleaseCallableRequest {
  std::string session_handle;
  std::int64_t handle = 0;
};

// --- WorkerService ---

struct GetStatusReply {
  std::vector<DeviceInfo> devices;
};

struct CreateWorkerSessionRequest {
  std::string session_handle;
  ClusterTasks cluster;  // filled under cluster spec propagation only
  std::string job;
  int task = 0;
  bool isolate_session_state = false;
  std::vector<DeviceInfo> cluster_devices;
  std::string master_task;
  std::uint64_t master_incarnation = 0;
};

struct DeleteWorkerSessionRequest {
  std::string session_handle;
};

struct RegisterGraphRequest {
  std::string session_handle;
  bool create_worker_session_called = false;
  std::string graph_def;
  bool optimize = true;
  bool allow_soft_placement = false;
};
struct RegisterGraphReply {
  std::string graph_handle;
  bool takes_ended_steps = false;  // RunGraphRequest::ended_steps is heeded; never of TensorFlow's workers
};

struct DeregisterGraphRequest {
  std::string session_handle;
  bool create_worker_session_called = false;
  std::string graph_handle;
};

struct RunGraphRequest {
  std::string session_handle;
  bool create_worker_session_called = false;
  std::string graph_handle;
  std::int64_t step_id = 0;
  NamedTensors sends;                  // by rendezvous key
  std::vector<std::string> recv_keys;  // rendezvous keys
  bool trace = false;
  bool partition_graphs = false;
  bool is_partial = false;
  bool is_last_partial_run = false;
  bool store_errors_in_response_body = false;
  std::int64_t request_id = 0;
  std::vector<std::int64_t> ended_steps;  // to be cleaned up, as by CleanupGraph
};
struct RunGraphReply {
  NamedTensors recvs;
  StepReport report;
  Status status;  // where errors go into the body
};

struct CleanupGraphRequest {
  std::int64_t step_id = 0;
};

struct CleanupAllRequest {
  std::vector<std::string> containers;
};

struct RecvTensorRequest {
  std::int64_t step_id = 0;
  std::string rendezvous_key;
  std::int64_t request_id = 0;
};
struct RecvTensorReply {
  Tensor tensor;
  bool is_dead = false;
  std::int64_t send_start_micros = 0;
};

// Between Tutti's workers: several values in one go. What of them is there is answered, as soon as there is something;
// the rest is asked for again.
struct RecvTensorsRequest {
  std::int64_t step_id = 0;
  std::int64_t request_id = 0;
  std::vector<std::string> rendezvous_keys;  // of the first request for them
  std::int64_t continues = 0;                // of later ones: the first one's request_id
  std::vector<std::int64_t> unhurried;       // of the first: keys, by index, that may as well come with later ones
};
struct ReceivedTensor {
  std::int64_t index = 0;  // of the key
  Tensor tensor;           // none: dead
};
struct RecvTensorsReply {
  std::vector<ReceivedTensor> values;
};

struct EmptyMessage {};

}  // namespace tutti
