// The serving ends of the two services: from bytes to a master or a worker and back.
#pragma once

#include <memory>

#include "tutti/distributed/master_interface.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti {

// Answers "/tensorflow.MasterService/..." and "/tensorflow.WorkerService/..."; kUnimplemented, with the method, for
// anything else. Both must outlive it.
std::unique_ptr<CallHandler> make_task_services(MasterInterface& master, WorkerInterface& worker);

}  // namespace tutti
