// A cluster brought up and down by one object: the base of a program's own kind of cluster.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "tutti/core/mutex.h"
#include "tutti/distributed/server.h"

namespace tutti {

struct TFClusterOptions {
  int num_workers = 1;
  int num_ps = 0;
  // Where the tasks listen, those of other processes too. Empty: all tasks are this process's own, on free ports of the
  // loopback; num_workers and num_ps say how many.
  ClusterSpec cluster;
  // Of each task that is started here; cluster, job, task and listen are set for it.
  ServerOptions server;
};

// Tasks of a cluster as servers of this process. A subclass changes how tasks are set up (task_options), what starting
// and joining means (start_cluster, join_cluster), or what else comes and goes with the cluster.
//
//   TFCluster cluster({.num_workers = 2, .num_ps = 1});
//   cluster.start_cluster();                          everything listens
//   connect(cluster.target("worker", 0), graph)
//   cluster.shutdown();                               no thread and no port is left
//
// A process that is one task of a cluster of many joins it instead: join_cluster(job, index), with the addresses in
// TFClusterOptions::cluster. Thread-safe. What fails throws Error.
class TFCluster {
 public:
  explicit TFCluster(TFClusterOptions options);
  // Ends what is left. A subclass that overrides shutdown calls it in its own destructor.
  virtual ~TFCluster();
  TFCluster(const TFCluster&) = delete;
  TFCluster& operator=(const TFCluster&) = delete;

  // Starts every task, by start_server; when one fails, shuts down those before it. kFailedPrecondition when some run.
  virtual void start_cluster();
  // Starts one task here. Without addresses, tasks know each other from when all have joined. Errors: kInvalidArgument
  // for a task that the cluster lacks, kAlreadyExists for one that runs here, kUnknown when its port is taken.
  virtual Server& join_cluster(const std::string& job_type, int task_index);
  Server& start_server(const std::string& job_name, int task_index) { return join_cluster(job_name, task_index); }
  // Ends the tasks that run here, workers first, and waits for them. The cluster may be started again, under other
  // ports when they were free ones. Idempotent.
  virtual void shutdown();

  // With the ports that tasks got so far.
  ClusterSpec cluster() const;
  // Of a task that runs here or elsewhere: "grpc://host:port". kFailedPrecondition while its port is not known.
  std::string target(const std::string& job = "worker", int index = 0) const;
  // The task that initialises, saves and looks after the job: the chief, else worker 0.
  bool is_chief(const std::string& job, int index) const;

 protected:
  // What a task is started with. The default: TFClusterOptions::server for that task.
  virtual ServerOptions task_options(const std::string& job, int index) const;

 private:
  bool knows_addresses() const { return !options_.cluster.empty(); }
  ClusterSpec fresh_spec() const;
  Status tell_addresses() TUTTI_REQUIRES(mu_);

  const TFClusterOptions options_;
  mutable Mutex mu_;
  ClusterSpec spec_ TUTTI_GUARDED_BY(mu_);  // port 0: not known yet
  std::map<std::pair<std::string, int>, std::unique_ptr<Server>> servers_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
