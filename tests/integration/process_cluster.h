// Clusters of real processes: `tutti server` for each task.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/child_process.h"
#include "tests/support/held_ports.h"
#include "tutti/distributed/server.h"

namespace tutti {

// "tutti COMMAND" with these flags.
std::vector<std::string> tutti_command(const std::string& command, const std::vector<std::string>& flags);
std::vector<std::string> server_command(const std::vector<std::string>& flags);

// The tasks of a cluster as processes of this host, which end with it. One thread at a time.
class ProcessCluster {
 public:
  // Picks ports, which stay the cluster's; nothing is started yet. Every task gets `flags`.
  ProcessCluster(int ps, int workers, std::vector<std::string> flags = {});

  // Starts a task, again when it was started before, and waits until it listens. `flags` are added.
  void start(const std::string& job, int index, const std::vector<std::string>& flags = {});
  void start_all();

  ChildProcess& child(const std::string& job, int index) { return children_.at({job, index}); }
  std::string target(const std::string& job, int index) const;
  int port(const std::string& job, int index) const;
  std::vector<std::string> task_flags(const std::string& job, int index) const;
  const ClusterSpec& spec() const { return spec_; }

 private:
  std::string hosts(const std::string& job) const;

  const HeldPorts ports_;
  ClusterSpec spec_;
  const std::vector<std::string> flags_;
  std::map<std::pair<std::string, int>, ChildProcess> children_;
};

// No limit waits for longer than this.
ConnectOptions within(std::chrono::milliseconds limit = std::chrono::seconds(60));

// What a process holds of the system.
struct ProcessCounts {
  int threads = 0;
  std::map<std::string, int> threads_by_name;
  int files = 0;
  int mappings = 0;
  std::int64_t resident_bytes = 0;
  std::string to_string() const;
};
// Zeros when there is no such process.
ProcessCounts process_counts(pid_t process);

// The names in the abstract socket namespace under which a process listens.
std::set<std::string> abstract_sockets(pid_t process);
// Of all processes.
std::set<std::string> abstract_sockets();

// What TUTTI_STRESS asks for; 1 when it is not set.
int stress_factor();

}  // namespace tutti
