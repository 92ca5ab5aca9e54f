// What the sessions of one task share: devices, threads, state, time, files.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/device_name.h"
#include "tutti/core/file_system.h"
#include "tutti/core/memory_budget.h"
#include "tutti/core/team.h"
#include "tutti/core/thread_pool.h"
#include "tutti/kernels/services.h"
#include "tutti/runtime/resource_store.h"
#include "tutti/runtime/threads_on_demand.h"

namespace tutti {

struct RuntimeOptions {
  // Threads that one kernel may use; 0 = one a core.
  int intra_op_threads = 0;
  LoopCut loop_cut = LoopCut::kWhereItPays;  // of what those threads share
  // Threads that continue steps which waited, and that run independent expensive nodes side by side; 0 = one a core.
  int inter_op_threads = 0;
  // Job and task that device names carry.
  std::string job = "localhost";
  int task = 0;
  // What sessions may take together, and with all else that the process holds; 0: four fifths of what the machine, or
  // the process's control group, has. Over it, what asks for more fails with kResourceExhausted.
  std::size_t memory_limit_bytes = 0;
  FileSystem* files = nullptr;  // null: the local disk
  Clock* clock = nullptr;       // null: the machine's time
};

// Lives at least as long as its sessions. Thread-safe.
class LocalRuntime {
 public:
  explicit LocalRuntime(const RuntimeOptions& options = {});

  const std::vector<DeviceName>& devices() const { return devices_; }
  // "/job:localhost/replica:0/task:0"
  const std::string& task_name() const { return task_name_; }
  Team& team() { return team_; }
  ThreadPool& pool() { return pool_; }
  LocalResourceStore& resources() { return resources_; }
  const std::shared_ptr<MemoryBudget>& memory() const { return memory_; }
  Clock& clock() { return clock_; }
  FileSystem& files() { return files_; }
  // For work on files.
  BlockingRunner& blocking() { return file_threads_; }
  // For compiling graphs. Threads of their own, so that neither a disk that hangs nor a graph that takes long keeps
  // the other kind of work from its turn.
  BlockingRunner& compiling() { return compile_threads_; }
  // How many threads of callers run steps of this task now. Outlives the runtime while such a thread has it.
  const std::shared_ptr<std::atomic<int>>& callers_in_steps() const { return callers_in_steps_; }

  // Destroys the state in these containers, of all of them when none is named.
  void reset(const std::vector<std::string>& containers = {}) { resources_.reset(containers); }

 private:
  const std::shared_ptr<std::atomic<int>> callers_in_steps_ = std::make_shared<std::atomic<int>>(0);
  const std::vector<DeviceName> devices_;
  const std::string task_name_;
  FileSystem& files_;
  const std::unique_ptr<Clock> own_clock_;  // null when the options brought one
  Clock& clock_;
  const std::shared_ptr<MemoryBudget> memory_;
  LocalResourceStore resources_;
  Team team_;
  ThreadPool pool_;
  // Last: their threads end first, and give what they have done to the pool.
  ThreadsOnDemand file_threads_;
  ThreadsOnDemand compile_threads_;
};

}  // namespace tutti
