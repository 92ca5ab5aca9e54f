#include "tutti/train/run_config.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tutti/train/internal/saver_in.h"
#include "tutti/train/saver.h"

namespace tutti {
namespace {

bool has_job(const ClusterSpec& cluster, const std::string& job) { return cluster.tasks().contains(job); }

int count(const ClusterSpec& cluster, const std::string& job) {
  return has_job(cluster, job) ? static_cast<int>(cluster.tasks().at(job).size()) : 0;
}

std::string chief_job(const ClusterSpec& cluster) {
  for (const char* job : {"chief", "master"}) {
    if (has_job(cluster, job)) return job;
  }
  return "worker";
}

}  // namespace

RunConfig RunConfig::of_task(const TaskConfig& task) {
  RunConfig config;
  config.cluster = task.cluster;
  config.task_type = task.type;
  config.task_id = task.index;
  return config;
}

RunConfig RunConfig::from_env() {
  const std::optional<TaskConfig> task = TaskConfig::from_env().value_or_throw();
  return task ? of_task(*task) : RunConfig();
}

bool RunConfig::is_chief() const { return cluster.empty() || (task_type == chief_job(cluster) && task_id == 0); }

std::string RunConfig::master() const {
  if (cluster.empty()) return "";
  return "grpc://" + cluster.task_address(task_type, task_id).value_or_throw();
}

int RunConfig::num_ps_replicas() const { return count(cluster, "ps"); }

int RunConfig::num_worker_replicas() const {
  if (cluster.empty()) return 1;
  return count(cluster, "worker") + count(cluster, "chief") + count(cluster, "master");
}

int RunConfig::global_id_in_cluster() const {
  if (cluster.empty()) return 0;
  std::vector<std::string> jobs = {chief_job(cluster)};
  for (const std::string& job : cluster.jobs()) {
    if (job != jobs[0] && job != "ps") jobs.push_back(job);
  }
  std::sort(jobs.begin() + 1, jobs.end());
  jobs.push_back("ps");
  int before = 0;
  for (const std::string& job : jobs) {
    if (job == task_type) return before + task_id;
    before += count(cluster, job);
  }
  throw_error(invalid_argument("RunConfig: the cluster has no job \"", printable(task_type), "\""));
}

MonitoredTrainingSessionOptions RunConfig::session_options(Graph& graph) const {
  MonitoredTrainingSessionOptions options;
  options.master = master();
  options.is_chief = is_chief();
  options.checkpoint_dir = model_dir;
  options.save_summaries_steps = save_summary_steps;
  options.save_checkpoint_secs = save_checkpoints_secs;
  options.save_checkpoint_steps = save_checkpoints_steps;
  options.log_step_count_steps = log_step_count_steps;
  options.max_wait_secs = session_creation_timeout_secs;
  options.stop_grace_period_secs = stop_grace_period_secs;
  options.config = session_config;
  if (!cluster.empty() && options.config.cluster.device_filters.empty()) {
    options.config.cluster.device_filters = {"/job:ps", str_cat("/job:", task_type, "/task:", task_id)};
    options.config.cluster.allow_soft_placement = true;
  }
  SaverOptions saver;
  saver.max_to_keep = keep_checkpoint_max;
  saver.keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours;
  saver.sharded = true;
  saver.allow_empty = true;
  saver.save_in_background = save_in_background;
  saver.holder = "chief";
  options.scaffold = std::make_shared<Scaffold>();
  options.scaffold->saver = internal::saver_in(environment, graph, saver);
  options.environment = environment;
  return options;
}

}  // namespace tutti
