// Which tasks a cluster has and where they listen.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/status.h"

namespace tutti {

// Jobs with their tasks, dense (a list) or sparse (by index). A value.
class ClusterSpec {
 public:
  using Tasks = std::map<int, std::string>;

  ClusterSpec() = default;
  ClusterSpec(
      std::map<std::string, std::vector<std::string>> jobs);  // NOLINT: {{"ps", {"a:1"}}, {"worker", ...}} reads well
  ClusterSpec(std::map<std::string, Tasks> jobs);             // NOLINT: likewise
  // {"ps": ["host:port", ...], "worker": {"3": "host:port"}}; errors say where in the text.
  static Result<ClusterSpec> from_json(std::string_view text);
  // "host:port,host:port": the flags of the seeds. Empty lists make no job.
  static Result<ClusterSpec> from_flags(std::string_view ps_hosts, std::string_view worker_hosts);

  bool empty() const { return jobs_.empty(); }
  bool operator==(const ClusterSpec&) const = default;
  std::vector<std::string> jobs() const;
  // kInvalidArgument when there is no such job, or no such task: names both.
  Result<int> num_tasks(std::string_view job) const;
  Result<std::vector<int>> task_indices(std::string_view job) const;
  Result<std::string> task_address(std::string_view job, int index) const;
  // With nothing in the gaps of a sparse job.
  Result<std::vector<std::optional<std::string>>> job_tasks(std::string_view job) const;
  const std::map<std::string, Tasks>& tasks() const { return jobs_; }
  // Adds or moves one task.
  void set(const std::string& job, int index, std::string address) { jobs_[job][index] = std::move(address); }
  std::string to_json() const;
  // "ClusterSpec({'ps': ['a:1'], 'worker': {3: 'b:2'}})", jobs in order.
  std::string to_string() const;

 private:
  Result<const Tasks*> find(std::string_view job) const;
  std::map<std::string, Tasks> jobs_;
};

// "/job:ps/replica:0/task:1"
std::string task_name(std::string_view job, int index);

// Of each task, by its name.
std::map<std::string, std::string> task_addresses(const ClusterSpec& cluster);

// What TF_CONFIG says: the cluster and which task this process is.
struct TaskConfig {
  ClusterSpec cluster;
  std::string type;  // "worker", "ps", "chief", "evaluator"; empty when the text names none
  int index = 0;
  std::string environment;  // "cloud", "local" or empty
  // Errors quote the place: not JSON, a task that the cluster lacks (an evaluator may be outside of it).
  static Result<TaskConfig> from_json(std::string_view text);
  // Of the environment variable TF_CONFIG. Empty when it is not set.
  static Result<std::optional<TaskConfig>> from_env();
};

}  // namespace tutti
