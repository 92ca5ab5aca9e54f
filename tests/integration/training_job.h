// A job of `tutti run` and distributed_mnist whose processes a test kills or stops, and whose lines it reads.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tests/support/child_process.h"

namespace tutti {

// What one line of the job's output says.
struct JobReport {
  int worker = -1;
  std::int64_t step = -1;
  bool begins = false;  // a session, at that step
  double loss = 0;
};

// One thread at a time.
class TrainingJob {
 public:
  // `tutti run RUN_FLAGS distributed_mnist PROGRAM_FLAGS`
  TrainingJob(const std::vector<std::string>& run_flags, const std::vector<std::string>& program_flags);

  // Sends the signal to the processes of these tasks, "worker 0" and so on, all of which must be there.
  void signal_tasks(const std::set<std::string>& tasks, int signal);
  // The next line that tells of a step; nothing when the job ended or was silent for `limit`.
  std::optional<JobReport> next(std::chrono::seconds limit);
  bool wait_for_line(const std::string& text, std::chrono::seconds limit) {
    return !process_.wait_for_line(text, limit).empty();
  }
  // The last step that a worker has reported; 0 before.
  std::int64_t last_step(int worker) const;
  // Of the first ten reports, or of the last ten.
  double mean_loss(bool first) const;
  ChildProcess& process() { return process_; }

 private:
  const TempDirectory marker_;  // its name, in their environment, marks the job's processes
  const std::string mark_;
  ChildProcess process_;
  std::vector<double> losses_;
  std::map<int, std::int64_t> last_steps_;
};

}  // namespace tutti
