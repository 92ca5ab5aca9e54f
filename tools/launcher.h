// Runs the processes of a job: the supervisor's hands.
#pragma once

#include <string>
#include <vector>

#include "launch_plan.h"
#include "supervisor.h"

namespace tutti::tools {

struct LauncherOptions {
  SupervisorOptions supervisor;
  bool coloured = false;
};

// Starts the tasks, shows their output on the own standard output and error, line by line, and gives the job's exit
// code when nothing of it runs any more. SIGINT, SIGTERM, SIGHUP and kParentGone must be blocked (run_guarded does);
// they end the job. One thread; children of this process are the launcher's.
int launch(const std::vector<TaskPlan>& plans, const LauncherOptions& options);

}  // namespace tutti::tools
