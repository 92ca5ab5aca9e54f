#include "tutti/distributed/in_process_cluster.h"

#include <algorithm>

#include "tutti/core/strings.h"

namespace tutti {
namespace {

// Bounds what a mistaken count costs: every task has threads.
constexpr int kMaxTasks = 1000;

// Each task listens before the ports are known: they are exchanged afterwards.
Status start_job(const InProcessClusterOptions& options, const ClusterSpec& unknown_ports, const std::string& job,
                 int count, std::vector<std::unique_ptr<Server>>& servers, ClusterSpec& cluster) {
  for (int i = 0; i < count; ++i) {
    ServerOptions server = options.server;
    server.cluster = unknown_ports;
    server.job = job;
    server.task = i;
    server.listen.clear();
    TUTTI_ASSIGN_OR_RETURN(std::unique_ptr<Server> started, Server::start(std::move(server)));
    cluster.set(job, i, started->target().substr(std::string_view("grpc://").size()));
    servers.push_back(std::move(started));
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<InProcessCluster>> InProcessCluster::start(InProcessClusterOptions options) {
  const bool in_range = options.workers >= 0 && options.ps >= 0 && options.workers <= kMaxTasks &&
                        options.ps <= kMaxTasks && options.workers + options.ps > 0;
  if (!in_range) {
    return invalid_argument("a cluster of ", options.workers, " workers and ", options.ps, " ps: each from 0 to ",
                            kMaxTasks, ", and at least one task");
  }
  ClusterSpec unknown_ports;
  for (int i = 0; i < options.ps; ++i) unknown_ports.set("ps", i, "127.0.0.1:0");
  for (int i = 0; i < options.workers; ++i) unknown_ports.set("worker", i, "127.0.0.1:0");
  std::unique_ptr<InProcessCluster> cluster(new InProcessCluster);
  ClusterSpec& spec = cluster->cluster_;
  TUTTI_RETURN_IF_ERROR(start_job(options, unknown_ports, "ps", options.ps, cluster->ps_, spec));
  TUTTI_RETURN_IF_ERROR(start_job(options, unknown_ports, "worker", options.workers, cluster->workers_, spec));
  for (auto* servers : {&cluster->ps_, &cluster->workers_}) {
    for (auto& server : *servers) TUTTI_RETURN_IF_ERROR(server->set_addresses(spec));
  }
  return cluster;
}

InProcessCluster::~InProcessCluster() { stop(); }

const std::string& InProcessCluster::target() const {
  return workers_.empty() ? ps_.front()->target() : workers_.front()->target();
}

void InProcessCluster::stop() {
  for (auto* servers : {&workers_, &ps_}) {
    for (auto& server : *servers) server->stop();
  }
}

}  // namespace tutti
