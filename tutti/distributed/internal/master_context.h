// What a master's sessions have in common.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/distributed/internal/id_source.h"
#include "tutti/distributed/task_log.h"
#include "tutti/ops/op_table.h"

namespace tutti::internal {

// Shared by a master and its sessions; constant but for the ids.
struct MasterContext {
  std::shared_ptr<const OpTable> ops;
  Clock* clock;  // outlives everything that waits
  TaskLog log;
  std::function<void(std::function<void()>)> run;  // of the master's options
  IdSource ids;

  void compute(std::function<void()> work) const { run ? run(std::move(work)) : work(); }
};

}  // namespace tutti::internal
