#include "tutti/runtime/local_runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tutti {
namespace {

// Enough that a save, a restore and a slow network disk do not queue up behind each other.
constexpr int kBlockingThreads = 4;

int threads_or_cores(int threads) {
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

void LocalRuntime::BlockingThreads::run(std::function<void()> work) {
  MutexLock lock(mu_);
  if (!threads_) threads_ = std::make_unique<ThreadPool>("tutti_files", kBlockingThreads);
  threads_->schedule(std::move(work));
}

LocalRuntime::LocalRuntime(const RuntimeOptions& options)
    : devices_{DeviceName{.job = options.job, .replica = 0, .task = options.task, .type = "CPU", .id = 0}},
      task_name_(DeviceName{.job = options.job, .replica = 0, .task = options.task}.to_string()),
      files_(options.files ? *options.files : local_file_system()),
      own_clock_(options.clock ? nullptr : make_system_clock()),
      clock_(options.clock ? *options.clock : *own_clock_),
      team_(threads_or_cores(options.intra_op_threads), options.loop_cut),
      pool_("tutti_step", threads_or_cores(options.inter_op_threads), ThreadWork::kComputes) {}

}  // namespace tutti
