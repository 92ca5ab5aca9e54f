// How a training program runs, said once: where its files go and how often, and which task of a cluster it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/distributed/cluster_spec.h"
#include "tutti/train/monitored_training_session.h"

namespace tutti {

// A value. Times in seconds, intervals as MonitoredTrainingSession has them.
struct RunConfig {
  std::string model_dir = "";  // checkpoints and summaries; empty: nothing is written
  std::int64_t save_summary_steps = 100;
  // At most one of them; neither: every 600 seconds. 0: never.
  std::optional<double> save_checkpoints_secs = std::nullopt;
  std::optional<std::int64_t> save_checkpoints_steps = std::nullopt;
  int keep_checkpoint_max = 5;  // 0: all
  double keep_checkpoint_every_n_hours = 10000;
  bool save_in_background = true;  // checkpoints are written while training goes on
  std::int64_t log_step_count_steps = 100;
  double session_creation_timeout_secs = 7200;
  double stop_grace_period_secs = 120;
  SessionSettings session_config = {};

  // Time, files and the log, of the saver too.
  Environment environment = {};

  // The task; a cluster without tasks is a program on its own.
  ClusterSpec cluster = {};
  std::string task_type = "";
  int task_id = 0;

  // With the task that TF_CONFIG names; without TF_CONFIG a program on its own. Throws Error on a bad one.
  static RunConfig from_env();
  static RunConfig of_task(const TaskConfig& task);

  // Task 0 of "chief", "master" or, where the cluster has neither, of "worker"; who is on its own.
  bool is_chief() const;
  // "grpc://host:port" of the own task; "" for who is on its own. Throws when the cluster lacks the task.
  std::string master() const;
  // Of all tasks that train: the chief 0, then the others by job and index, parameter servers last.
  int global_id_in_cluster() const;
  int num_ps_replicas() const;
  // Chief and workers.
  int num_worker_replicas() const;

  // What a session of this task wants. On a cluster it sees the parameter servers and itself: a worker that dies is no
  // matter to the others. Hooks and scaffold are the program's to add; `graph`'s saver keeps what keep_checkpoint_...
  // say, so make the variables before.
  MonitoredTrainingSessionOptions session_options(Graph& graph) const;
};

}  // namespace tutti
