// A whole cluster within one process: for tests, and to try things out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/distributed/server.h"

namespace tutti {

struct InProcessClusterOptions {
  int workers = 1;
  int ps = 0;
  // Of each task; cluster, job, task and listen are set by the cluster.
  ServerOptions server;
};

// Servers on free ports of the loopback. Stopped in the destructor.
class InProcessCluster {
 public:
  // Everything listens, and all tasks know each other, when this returns.
  static Result<std::unique_ptr<InProcessCluster>> start(InProcessClusterOptions options);
  ~InProcessCluster();  // as stop()

  // With the ports that the tasks got.
  const ClusterSpec& cluster() const { return cluster_; }
  Server& worker(int index) { return *workers_.at(static_cast<std::size_t>(index)); }
  Server& ps(int index) { return *ps_.at(static_cast<std::size_t>(index)); }
  // Of worker 0, or of ps 0 when there are no workers.
  const std::string& target() const;
  void stop();

 private:
  InProcessCluster() = default;
  ClusterSpec cluster_;
  std::vector<std::unique_ptr<Server>> ps_;
  std::vector<std::unique_ptr<Server>> workers_;
};

}  // namespace tutti
