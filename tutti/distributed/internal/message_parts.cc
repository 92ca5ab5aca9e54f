#include "tutti/distributed/internal/message_parts.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tutti {
namespace {

struct Job {
  std::string name;
  std::vector<std::pair<std::int32_t, std::string>> tasks;
};

template <typename F>
void job_fields(F& f, Is<Job> auto& job) {
  f.field(1, "name", job.name);
  f.repeated(2, "tasks", "TasksEntry", job.tasks, [](auto& inner, auto& task) {
    inner.field(1, "key", task.first);
    inner.field(2, "value", task.second);
  });
}

template <typename F>
void cluster_fields(F& f, Is<std::vector<Job>> auto& jobs) {
  f.repeated(1, "job", "JobDef", jobs, [](auto& inner, auto& job) { job_fields(inner, job); });
}

// NodeExecStats
struct NodeTimes {
  std::string name;
  std::int64_t start_micros = 0;
  std::int64_t end_rel_micros = 0;
  std::string label;
  std::uint32_t thread = 0;
  std::int64_t start_nanos = 0;
  std::int64_t end_rel_nanos = 0;
};

struct DeviceTimes {
  std::string device;
  std::vector<NodeTimes> nodes;
};

// An op starts when its node does here, and its node ends when it does. Reading takes the node's times; those of the op
// are read for nobody.
template <typename F>
void node_times_fields(F& f, Is<NodeTimes> auto& node) {
  std::int64_t op_end_rel_micros = node.end_rel_micros;
  std::int64_t op_end_rel_nanos = node.end_rel_nanos;
  std::int64_t scheduled_micros = node.start_micros;
  std::int64_t scheduled_nanos = node.start_nanos;
  f.field(1, "node_name", node.name);
  f.field(2, "all_start_micros", node.start_micros);
  f.field(4, "op_end_rel_micros", op_end_rel_micros);
  f.field(5, "all_end_rel_micros", node.end_rel_micros);
  f.field(8, "timeline_label", node.label);
  f.field(9, "scheduled_micros", scheduled_micros);
  f.field(10, "thread_id", node.thread);
  f.field(13, "all_start_nanos", node.start_nanos);
  f.field(15, "op_end_rel_nanos", op_end_rel_nanos);
  f.field(16, "all_end_rel_nanos", node.end_rel_nanos);
  f.field(17, "scheduled_nanos", scheduled_nanos);
}

template <typename F>
void step_times_fields(F& f, Is<std::vector<DeviceTimes>> auto& devices) {
  f.repeated(1, "dev_stats", "DeviceStepStats", devices, [](auto& inner, auto& device) {
    inner.field(1, "device", device.device);
    inner.repeated(2, "node_stats", "NodeExecStats", device.nodes,
                   [](auto& node_fields, auto& node) { node_times_fields(node_fields, node); });
  });
}

template <typename Fields>
std::string wire_bytes(const Fields& fields) {
  Result<Payload> bytes = encode_fields(fields);
  return bytes.ok() ? bytes->flatten() : std::string();  // nothing in these parts can fail
}

template <typename Fields>
Status read_wire(WireReader bytes, std::string_view message, const Fields& fields) {
  ExpansionBudget budget;
  return FieldReader(bytes, message, budget).read(fields);
}

// Readers of traces take the op from the label: "name = Op(inputs)".
std::string label_of(const NodeStats& node) { return str_cat(node.name, " = ", node.op, "()"); }

std::string op_of(const NodeTimes& node) {
  static constexpr std::string_view kEquals = " = ";
  std::string_view label = node.label;
  if (label.starts_with(node.name)) label.remove_prefix(node.name.size());  // a name may have anything in it
  const std::size_t equals = label.find(kEquals);
  if (equals == std::string_view::npos) return {};
  label.remove_prefix(equals + kEquals.size());
  return std::string(label.substr(0, label.find('(')));
}

constexpr std::int64_t kNanosInMicro = 1000;

// Numbers come from outside: everything saturates.
std::int64_t nanos_of(std::int64_t micros) {
  std::int64_t nanos;
  if (!__builtin_mul_overflow(micros, kNanosInMicro, &nanos)) return nanos;
  return micros > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

std::int64_t saturating_subtract(std::int64_t a, std::int64_t b) {
  std::int64_t difference;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a > b ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

std::int64_t start_nanos(const NodeTimes& node) {
  return node.start_nanos != 0 ? node.start_nanos : nanos_of(node.start_micros);
}

std::int64_t duration_nanos(const NodeTimes& node) {
  return node.end_rel_nanos != 0 ? node.end_rel_nanos : nanos_of(node.end_rel_micros);
}

NodeTimes times_of(const NodeStats& node, std::int64_t step_start_micros) {
  const std::int64_t start = saturating_add(nanos_of(step_start_micros), node.start_nanos);
  const std::int64_t duration = saturating_subtract(node.end_nanos, node.start_nanos);
  return {.name = node.name,
          .start_micros = start / kNanosInMicro,
          .end_rel_micros = duration / kNanosInMicro,
          .label = label_of(node),
          .thread = static_cast<std::uint32_t>(node.thread ^ node.thread >> 32),
          .start_nanos = start,
          .end_rel_nanos = duration};
}

}  // namespace

std::string WireForm<ClusterTasks>::write(const ClusterTasks& cluster) {
  std::vector<Job> jobs;
  for (const auto& [name, tasks] : cluster) jobs.push_back({name, {tasks.begin(), tasks.end()}});
  return wire_bytes([&jobs](auto& f) { cluster_fields(f, std::as_const(jobs)); });
}

Status WireForm<ClusterTasks>::read(WireReader bytes, ClusterTasks& cluster) {
  std::vector<Job> jobs;
  TUTTI_RETURN_IF_ERROR(read_wire(bytes, "ClusterDef", [&jobs](auto& f) { cluster_fields(f, jobs); }));
  for (Job& job : jobs) {
    std::map<int, std::string>& tasks = cluster[job.name];
    for (auto& [index, address] : job.tasks) {
      if (index < 0) return invalid_argument("ClusterDef: task ", index, " of job \"", printable(job.name), "\"");
      tasks[index] = std::move(address);
    }
  }
  return {};
}

std::string WireForm<StepStats>::write(const StepStats& stats) {
  if (stats.nodes.empty()) return {};
  std::vector<DeviceTimes> devices;
  std::unordered_map<std::string_view, std::size_t> index;
  for (const NodeStats& node : stats.nodes) {
    const auto [place, is_new] = index.emplace(node.device, devices.size());
    if (is_new) devices.push_back({.device = node.device, .nodes = {}});
    devices[place->second].nodes.push_back(times_of(node, stats.start_micros));
  }
  return wire_bytes([&devices](auto& f) { step_times_fields(f, std::as_const(devices)); });
}

Status WireForm<StepStats>::read(WireReader bytes, StepStats& stats) {
  std::vector<DeviceTimes> devices;
  TUTTI_RETURN_IF_ERROR(read_wire(bytes, "StepStats", [&devices](auto& f) { step_times_fields(f, devices); }));
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const DeviceTimes& device : devices) {
    // Every node will carry it.
    constexpr std::size_t kMaxDeviceName = 1024;
    if (device.device.size() > kMaxDeviceName) {
      return invalid_argument("StepStats: the name of a device has ", device.device.size(), " bytes");
    }
    for (const NodeTimes& node : device.nodes) first = std::min(first, start_nanos(node));
  }
  if (first == std::numeric_limits<std::int64_t>::max()) return {};
  stats.start_micros = first / kNanosInMicro;
  const std::int64_t step_start = nanos_of(stats.start_micros);
  for (DeviceTimes& device : devices) {
    for (NodeTimes& node : device.nodes) {
      const std::int64_t start = saturating_subtract(start_nanos(node), step_start);
      std::string op = op_of(node);
      stats.nodes.push_back({.name = std::move(node.name),
                             .op = std::move(op),
                             .device = device.device,
                             .start_nanos = start,
                             .end_nanos = saturating_add(start, duration_nanos(node)),
                             .thread = node.thread});
    }
  }
  return {};
}

Status check_present(std::string_view message, const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.has_value()) return invalid_argument(message, ": \"", printable(name), "\" has no tensor");
  }
  return {};
}

}  // namespace tutti
