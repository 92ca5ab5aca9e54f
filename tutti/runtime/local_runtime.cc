#include "tutti/runtime/local_runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace tutti {
namespace {

// Threads that wait cost their stacks only. So many files on a network disk that hangs, or so many graphs that take
// for ever to compile, leave room for others.
constexpr int kMaxFileThreads = 32;
constexpr int kMaxCompileThreads = 32;

int threads_or_cores(int threads) {
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

LocalRuntime::LocalRuntime(const RuntimeOptions& options)
    : devices_{DeviceName{.job = options.job, .replica = 0, .task = options.task, .type = "CPU", .id = 0}},
      task_name_(DeviceName{.job = options.job, .replica = 0, .task = options.task}.to_string()),
      files_(options.files ? *options.files : local_file_system()),
      own_clock_(options.clock ? nullptr : make_system_clock()),
      clock_(options.clock ? *options.clock : *own_clock_),
      memory_(std::make_shared<MemoryBudget>(options.memory_limit_bytes != 0 ? options.memory_limit_bytes
                                                                             : available_memory() / 5 * 4)),
      team_(threads_or_cores(options.intra_op_threads), options.loop_cut),
      pool_("tutti_step", threads_or_cores(options.inter_op_threads), ThreadWork::kComputes),
      file_threads_("tutti_files", kMaxFileThreads),
      compile_threads_("tutti_compile", kMaxCompileThreads) {}

}  // namespace tutti
