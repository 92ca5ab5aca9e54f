#include "tutti/strategies/replica_device_setter.h"

#include <memory>
#include <utility>

#include "tutti/core/device_name.h"

namespace tutti {
namespace {

int count_ps_tasks(const ReplicaDeviceSetterOptions& options, const DeviceName& ps_device) {
  if (options.ps_tasks > 0 || !ps_device.job) return options.ps_tasks;
  const auto job = options.cluster.tasks().find(*ps_device.job);
  return job == options.cluster.tasks().end() ? 0 : static_cast<int>(job->second.size());
}

// Without a parameter server the variables of each worker would be its own.
Status check_shared(const ReplicaDeviceSetterOptions& options, const DeviceName& ps_device) {
  std::size_t workers = 0;
  for (const auto& [job, tasks] : options.cluster.tasks()) {
    if (job == "chief" || job == "worker" || job == "master") workers += tasks.size();
  }
  if (workers <= 1) return {};
  return invalid_argument("replica_device_setter: the cluster has ", workers, " workers and no task of job \"",
                          ps_device.job.value_or(""),
                          "\", so the workers would not share their variables; start at least "
                          "one parameter server (tutti run --ps 1), or one worker only");
}

// Shared by the copies of a device function, so that they count together.
struct Setter {
  DeviceName ps_device;
  DeviceName worker_device;
  bool merge_devices;
  std::set<std::string> ps_ops;
  PsStrategy ps_strategy;
  int ps_tasks;

  int choose_task(const NodeSpec& node) const {
    const int task = ps_strategy(node);
    if (task < 0 || task >= ps_tasks) {
      throw Error(invalid_argument("the strategy chose parameter server ", task, " of ", ps_tasks));
    }
    return task;
  }

  std::string operator()(const NodeSpec& node) const {
    if (!merge_devices && !node.device.empty()) return node.device;
    const DeviceName current = DeviceName::parse(node.device).value_or_throw();
    DeviceName device = worker_device;
    if (ps_ops.contains(node.op)) {
      device = ps_device;
      if (device.job && (!current.job || current.job == device.job)) device.task = choose_task(node);
    }
    device.override_with(current);
    return device.to_string();
  }
};

}  // namespace

PsStrategy round_robin(int num_tasks) {
  TUTTI_CHECK(num_tasks > 0, "tasks: ", num_tasks);
  return [num_tasks, next = std::make_shared<int>(0)](const NodeSpec&) {
    return std::exchange(*next, (*next + 1) % num_tasks);
  };
}

DeviceFunction replica_device_setter(const ReplicaDeviceSetterOptions& options) {
  const DeviceName ps_device = DeviceName::parse(options.ps_device).value_or_throw();
  const int ps_tasks = count_ps_tasks(options, ps_device);
  if (ps_tasks <= 0) {
    throw_if_error(check_shared(options, ps_device));
    return nullptr;
  }
  auto setter = std::make_shared<const Setter>(
      Setter{.ps_device = ps_device,
             .worker_device = DeviceName::parse(options.worker_device).value_or_throw(),
             .merge_devices = options.merge_devices,
             .ps_ops = options.ps_ops,
             .ps_strategy = options.ps_strategy ? options.ps_strategy : round_robin(ps_tasks),
             .ps_tasks = ps_tasks});
  return [setter](const NodeSpec& node) { return (*setter)(node); };
}

}  // namespace tutti
