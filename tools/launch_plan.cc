#include "launch_plan.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

namespace tutti::tools {
namespace {

// More processes than this on one machine are a slip of the finger.
constexpr int kMostTasks = 1000;

std::string variable_of(const std::vector<std::string>& environment, std::string_view name) {
  for (const auto& entry : environment) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

void set_variable(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(str_cat(name, "=")); });
  environment.push_back(str_cat(name, "=", value));
}

void set_or_remove(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  if (!value.empty()) return set_variable(environment, name, value);
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(str_cat(name, "=")); });
}

void set_unless_there(std::vector<std::string>& environment, std::string_view name, std::string_view value) {
  if (variable_of(environment, name).empty()) set_variable(environment, name, value);
}

Status check(const LaunchOptions& options) {
  if (options.workers < 0 || options.ps < 0) return invalid_argument("a negative number of tasks");
  if (options.workers + (options.chief ? 1 : 0) < 1)
    return invalid_argument("no worker and no chief: nothing to wait for");
  if (options.workers > kMostTasks || options.ps > kMostTasks) {
    return invalid_argument(options.ps, " ps and ", options.workers, " workers: at most ", kMostTasks, " of each");
  }
  if (options.command.empty()) return invalid_argument("no program to run");
  if (options.host_flags && options.chief) {
    return invalid_argument("--host-flags has no way to name a chief: give up one of the two");
  }
  return {};
}

ClusterSpec make_cluster(const LaunchOptions& options, const std::vector<int>& ports) {
  ClusterSpec cluster;
  std::size_t next = 0;
  const auto add = [&](const std::string& job, int count) {
    for (int i = 0; i < count; ++i) cluster.set(job, i, str_cat("127.0.0.1:", ports[next++]));
  };
  add("ps", options.ps);
  add("chief", options.chief ? 1 : 0);
  add("worker", options.workers);
  return cluster;
}

std::string hosts(const ClusterSpec& cluster, const std::string& job) {
  std::vector<std::string> addresses;
  if (const auto tasks = cluster.job_tasks(job); tasks.ok()) {
    for (const auto& address : *tasks) addresses.push_back(*address);
  }
  return str_join(addresses, ",");
}

class Planner {
 public:
  Planner(const LaunchOptions& options, const std::vector<int>& ports, const LaunchPlace& place, std::string program)
      : options_(options), place_(place), program_(std::move(program)), cluster_(make_cluster(options, ports)) {}

  std::vector<TaskPlan> plan() {
    // The workers first: they get what is left over of the cores.
    add("chief", options_.chief ? 1 : 0);
    add("worker", options_.workers);
    add("ps", options_.ps);
    add("evaluator", options_.evaluator ? 1 : 0);
    const int count = static_cast<int>(tasks_.size());
    for (int i = 0; i < count; ++i) {
      TaskPlan& task = tasks_[static_cast<std::size_t>(i)];
      set_environment(task, options_.threads > 0 ? options_.threads : thread_share(place_.cores, count, i));
    }
    // Started in this order: the servers that all others need come first.
    std::stable_partition(tasks_.begin(), tasks_.end(), [](const TaskPlan& task) { return task.job == "ps"; });
    return std::move(tasks_);
  }

 private:
  void add(const std::string& job, int count) {
    for (int i = 0; i < count; ++i) {
      tasks_.push_back(
          {.job = job, .index = i, .command = command(job, i), .serves = job == "ps" || job == "evaluator"});
    }
  }

  std::vector<std::string> command(const std::string& job, int index) const {
    if (job == "ps" && options_.ps_server) return {place_.tutti, "server"};
    std::vector<std::string> command = options_.command;
    command[0] = program_;
    if (options_.host_flags) {
      command.push_back("--ps_hosts=" + hosts(cluster_, "ps"));
      command.push_back("--worker_hosts=" + hosts(cluster_, "worker"));
      command.push_back("--job_name=" + job);
      command.push_back(str_cat("--task_index=", index));
    }
    return command;
  }

  void set_environment(TaskPlan& task, int threads) const {
    task.environment = place_.environment;
    set_variable(task.environment, "TF_CONFIG",
                 str_cat(R"({"cluster": )", cluster_.to_json(), R"(, "task": {"type": ")", task.job, R"(", "index": )",
                         task.index, "}}"));
    for (const char* name : {"TUTTI_THREADS", "OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"}) {
      set_unless_there(task.environment, name, str_cat(threads));
    }
    set_or_remove(task.environment, "TUTTI_JOIN_TOKEN", options_.join_token);
    if (options_.join_token.empty()) {
      set_variable(task.environment, "TUTTI_DATA_DIRS", str_join(options_.data_directories, ":"));
    }
    if (options_.lease_seconds > 0) set_variable(task.environment, "TUTTI_LEASE", str_cat(options_.lease_seconds));
    set_unless_there(task.environment, "PYTHONUNBUFFERED", "1");  // lines are shown when they are written
  }

  const LaunchOptions& options_;
  const LaunchPlace& place_;
  const std::string program_;
  const ClusterSpec cluster_;
  std::vector<TaskPlan> tasks_;
};

bool may_be_run(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

int num_addresses(const LaunchOptions& options) { return options.ps + (options.chief ? 1 : 0) + options.workers; }

Result<std::vector<TaskPlan>> plan_tasks(const LaunchOptions& options, const std::vector<int>& ports,
                                         const LaunchPlace& place) {
  TUTTI_RETURN_IF_ERROR(check(options));
  if (static_cast<int>(ports.size()) != num_addresses(options)) {
    return internal_error(ports.size(), " ports for ", num_addresses(options), " tasks");
  }
  TUTTI_ASSIGN_OR_RETURN(std::string program, find_program(options.command[0], place));
  return Planner(options, ports, place, std::move(program)).plan();
}

Result<std::string> find_program(const std::string& name, const LaunchPlace& place) {
  if (name.find('/') != name.npos) {
    if (may_be_run(name)) return name;
    return not_found(name, ": no program there that may be run");
  }
  const std::string path = variable_of(place.environment, "PATH");
  for (const auto folder : str_split(path, ':')) {
    const std::string candidate = str_cat(folder.empty() ? "." : folder, "/", name);
    if (!name.empty() && may_be_run(candidate)) return candidate;
  }
  const std::string beside = std::filesystem::path(place.tutti).parent_path() / name;
  if (!name.empty() && may_be_run(beside)) return beside;
  return not_found(name, ": no such program in PATH, nor beside ", place.tutti);
}

int thread_share(int cores, int tasks, int number) {
  return std::max(1, cores / tasks + (number < cores % tasks ? 1 : 0));
}

}  // namespace tutti::tools
