// From "2 ps and 2 workers" to the processes that this means.
#pragma once

#include <string>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::tools {

struct LaunchOptions {
  int ps = 0;
  int workers = 1;
  bool chief = false;
  bool evaluator = false;
  // Parameter servers run `tutti server` instead of the program.
  bool ps_server = false;
  // The program is told by --ps_hosts, --worker_hosts, --job_name and --task_index as well.
  bool host_flags = false;
  // That each task computes with; 0: the cores are shared out.
  int threads = 0;
  // Seconds that a task may be silent before the others take it for dead; 0: as TUTTI_LEASE says, or the default.
  double lease_seconds = 0;
  // The job's join token, which keeps other users of the machine from running graphs on its tasks; empty: they can.
  std::string join_token;
  // Without a secret: the directories that the tasks' graphs may read and write.
  std::vector<std::string> data_directories;
  std::vector<std::string> command;  // the program and its arguments
};

struct TaskPlan {
  std::string job;
  int index = 0;
  std::vector<std::string> command;
  std::vector<std::string> environment;  // all of it, "NAME=value"
  bool serves = false;                   // ended when the workers are done

  std::string name() const { return str_cat(job, " ", index); }
};

// What the machine gives.
struct LaunchPlace {
  std::vector<std::string> environment;  // of the launcher
  std::string tutti;                     // path of this program
  int cores = 1;
};

// How many addresses the plan needs: the evaluator is outside of the cluster.
int num_addresses(const LaunchOptions& options);

// `ports` of the loopback, one each for ps, chief and workers in this order; tasks are in it too. Every task gets
// TF_CONFIG; TUTTI_THREADS and what other programs read in its place are set where the user has not. Errors: no worker,
// no program, flags that do not go together.
Result<std::vector<TaskPlan>> plan_tasks(const LaunchOptions& options, const std::vector<int>& ports,
                                         const LaunchPlace& place);

// Of `path`, of the folders in PATH, of this program's own folder: the first that may be run. kNotFound.
Result<std::string> find_program(const std::string& name, const LaunchPlace& place);

// Threads of each of `tasks`, given one core more as long as there are any left over; at least one.
int thread_share(int cores, int tasks, int number);

}  // namespace tutti::tools
