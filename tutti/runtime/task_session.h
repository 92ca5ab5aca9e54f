// What a task keeps and runs for one session of a master: the parts of its graph that were registered here.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/status.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/kernels/services.h"
#include "tutti/ops/op_table.h"
#include "tutti/runtime/local_runtime.h"
#include "tutti/runtime/step_stats.h"

namespace tutti {

// A registered part, compiled. Immutable; shared by concurrent steps.
class TaskGraph {
 public:
  virtual ~TaskGraph() = default;
  // What is run, as the passes left it: a serialised GraphDef.
  virtual std::string graph_def() const = 0;
  // Rendezvous keys that every step of it asks for, whatever its values are.
  virtual const std::vector<std::string>& received() const {
    static const std::vector<std::string> unknown;
    return unknown;
  }
  // Of each of those, whether it may as well come with the others of its sender: before all of these are there, nothing
  // leaves the graph that needs it, and nothing long begins. Fewer: false.
  virtual const std::vector<bool>& unhurried() const {
    static const std::vector<bool> none;
    return none;
  }
};

struct TaskStep {
  std::int64_t id = 0;
  Rendezvous* rendezvous = nullptr;      // never null; outlives the step
  Cancellation* cancellation = nullptr;  // never null; outlives the step
  StepStats* stats = nullptr;            // null: not recorded
};

struct TaskGraphOptions {
  PassOptions passes;
  // In bodies of functions, which are placed here, as the master places everything else.
  bool allow_soft_placement = false;
  // Compiling ends early, with its cause, when this is cancelled; null: never. Outlives the call.
  const Cancellation* caller = nullptr;
};

// Thread-safe.
class TaskSession {
 public:
  using Done = std::function<void(Status)>;

  virtual ~TaskSession() = default;
  // Compiles a GraphDef whose nodes all name devices of this task, or none. Functions are shared by the session's
  // graphs: an equal one may come again. So are stateful kernels, by node name. Errors name task and node.
  virtual Result<std::shared_ptr<const TaskGraph>> add_graph(std::string_view graph_def,
                                                             const TaskGraphOptions& options) = 0;
  // Nobody wants the session any more: graphs that are being compiled fail with `cause`, soon. Steps go on.
  virtual void stop(const Status& /*cause*/) {}
  // Runs all of it, starting on the calling thread, or on the runtime's when another caller's runs a step already.
  // `done` runs exactly once; the session may be destroyed in it. Errors name the node, first as `MatMul
  // "dense/product": ` and last as TensorFlow's clients look for it:
  // "\n\t [[{{node dense/product}}]]". Who reports them puts the task before that.
  virtual void run(const std::shared_ptr<const TaskGraph>& graph, const TaskStep& step, Done done) = 0;
  // Calls `deliver`, which ends waits of steps. Those go on as run() starts them: on this thread, when it may run
  // steps, before this returns.
  virtual void resume(const std::function<void()>& deliver) { deliver(); }
};

struct TaskSessionOptions {
  std::shared_ptr<const OpTable> ops = builtin_ops();
  // Variables, queues and tables of its own, gone with the session, instead of the task's.
  bool isolated = false;
  bool parallel_nodes = false;
  // Where kernels put what they send straight to another task; null: where they put everything. Outlives the steps.
  Allocator* sent_values = nullptr;
};

// `runtime` must outlive it and its steps. Steps that run when it is destroyed go on.
std::unique_ptr<TaskSession> make_task_session(LocalRuntime& runtime, const TaskSessionOptions& options = {});

}  // namespace tutti
