#include "tutti/train/tf_cluster.h"

#include <string_view>
#include <vector>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

// Bounds what a mistaken count costs: every task has threads.
constexpr int kMostTasks = 1000;
constexpr std::string_view kUnknownPort = "127.0.0.1:0";
constexpr std::string_view kScheme = "grpc://";

void check_counts(const TFClusterOptions& options) {
  if (!options.cluster.empty()) return;
  const int workers = options.num_workers, ps = options.num_ps;
  if (workers < 0 || ps < 0 || workers > kMostTasks || ps > kMostTasks || workers + ps == 0) {
    throw_error(invalid_argument("TFCluster: ", workers, " workers and ", ps, " ps: each from 0 to ", kMostTasks,
                                 ", and at least one task"));
  }
}

}  // namespace

TFCluster::TFCluster(TFClusterOptions options) : options_(std::move(options)) {
  check_counts(options_);
  spec_ = fresh_spec();
}

TFCluster::~TFCluster() { TFCluster::shutdown(); }

ClusterSpec TFCluster::fresh_spec() const {
  ClusterSpec spec = options_.cluster;
  if (!spec.empty()) return spec;
  for (int i = 0; i < options_.num_ps; ++i) spec.set("ps", i, std::string(kUnknownPort));
  for (int i = 0; i < options_.num_workers; ++i) spec.set("worker", i, std::string(kUnknownPort));
  return spec;
}

void TFCluster::start_cluster() {
  {
    MutexLock lock(mu_);
    if (!servers_.empty()) throw_error(failed_precondition("TFCluster: ", servers_.size(), " tasks run already"));
  }
  const ClusterSpec spec = fresh_spec();
  try {
    for (const auto& [job, tasks] : spec.tasks()) {
      for (const auto& [index, address] : tasks) start_server(job, index);
    }
  } catch (...) {
    shutdown();
    throw;
  }
}

Server& TFCluster::join_cluster(const std::string& job_type, int task_index) {
  const ServerOptions options = task_options(job_type, task_index);
  MutexLock lock(mu_);
  const auto key = std::pair(job_type, task_index);
  if (servers_.contains(key)) {
    throw_error(already_exists("TFCluster: ", task_name(job_type, task_index), " runs here already"));
  }
  std::unique_ptr<Server> server = Server::start(options).value_or_throw();
  if (!knows_addresses()) spec_.set(job_type, task_index, server->target().substr(kScheme.size()));
  Server& started = *servers_.emplace(key, std::move(server)).first->second;
  throw_if_error(tell_addresses());
  return started;
}

// Servers on ports that the system picked learn the others' when all are known.
Status TFCluster::tell_addresses() {
  if (knows_addresses()) return {};
  for (const auto& [task, address] : task_addresses(spec_)) {
    if (address == kUnknownPort) return {};
  }
  for (const auto& [task, server] : servers_) TUTTI_RETURN_IF_ERROR(server->set_addresses(spec_));
  return {};
}

void TFCluster::shutdown() {
  MutexLock lock(mu_);
  // Those that use others end first: then nobody complains that a task has gone.
  for (const bool ps : {false, true}) {
    for (auto& [task, server] : servers_) {
      if ((task.first == "ps") == ps) server->stop();
    }
  }
  servers_.clear();
  spec_ = fresh_spec();
}

ClusterSpec TFCluster::cluster() const {
  MutexLock lock(mu_);
  return spec_;
}

std::string TFCluster::target(const std::string& job, int index) const {
  const std::string address = cluster().task_address(job, index).value_or_throw();
  if (!knows_addresses() && address == kUnknownPort) {
    throw_error(failed_precondition("TFCluster: ", task_name(job, index), " was not started yet"));
  }
  return str_cat(kScheme, address);
}

bool TFCluster::is_chief(const std::string& job, int index) const {
  const bool has_chief = cluster().tasks().contains("chief");
  return index == 0 && job == (has_chief ? "chief" : "worker");
}

ServerOptions TFCluster::task_options(const std::string& job, int index) const {
  ServerOptions options = options_.server;
  options.cluster = fresh_spec();
  options.job = job;
  options.task = index;
  options.listen.clear();
  return options;
}

}  // namespace tutti
