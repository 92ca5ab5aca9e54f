#include "tutti/runtime/task_session.h"

#include "tutti/core/device_name.h"
#include "tutti/graph/graph_def.h"
#include "tutti/kernels/guard.h"
#include "tutti/runtime/held_work.h"
#include "tutti/runtime/internal/arena_pool.h"
#include "tutti/runtime/internal/local_step.h"
#include "tutti/runtime/internal/received_keys.h"
#include "tutti/runtime/internal/resume.h"
#include "tutti/runtime/internal/session_compiler.h"

namespace tutti {
namespace {

using internal::LocalStep;
using internal::SessionCompiler;

// What steps need of the session; lives as long as the last of its graphs.
struct SessionState {
  SessionState(LocalRuntime& r, const TaskSessionOptions& options)
      : runtime(r),
        sent_values(options.sent_values),
        own_resources(options.isolated ? std::make_unique<LocalResourceStore>() : nullptr),
        memory(std::make_shared<MemoryAccount>(runtime.memory())),
        functions(options.ops),
        compiler(functions, {.ops = options.ops,
                             .runtime = &runtime,
                             .resources = own_resources.get(),
                             .memory = memory,
                             .parallel_nodes = options.parallel_nodes,
                             .mark_nodes = true}),
        arenas(memory) {}

  LocalRuntime& runtime;
  Allocator* const sent_values;
  const std::unique_ptr<LocalResourceStore> own_resources;  // null: the task's are used
  const std::shared_ptr<MemoryAccount> memory;
  Graph functions;  // has no nodes
  SessionCompiler compiler;
  internal::ArenaPool arenas;
};

class CompiledGraph : public TaskGraph {
 public:
  CompiledGraph(std::shared_ptr<SessionState> session, std::shared_ptr<const Executable> executable)
      : session_(std::move(session)),
        executable_(std::move(executable)),
        received_(internal::received_by(executable_->graph())) {}

  std::string graph_def() const override {
    std::lock_guard lock(session_->compiler.mutex());  // the functions may grow meanwhile
    return export_graph_def(executable_->graph());
  }
  const std::vector<std::string>& received() const override { return received_.keys; }
  const std::vector<bool>& unhurried() const override { return received_.unhurried; }
  SessionState& session() const { return *session_; }
  const std::shared_ptr<const Executable>& executable() const { return executable_; }

 private:
  const std::shared_ptr<SessionState> session_;
  const std::shared_ptr<const Executable> executable_;
  const internal::ReceivedKeys received_;
};

Status check_device(const Node& node, const DeviceName& task) {
  Result<DeviceName> device = DeviceName::parse(node.requested_device());
  if (!device.ok()) return device.status().with_context(node.describe());
  if (device->compatible_with(task)) return {};
  return invalid_argument(node.describe(), ": its device \"", printable(node.requested_device()),
                          "\" is none of this task's");
}

// All nodes run. It is enough to name those that nothing follows: passes may then do as they like with the others.
std::vector<Node*> last_nodes(const Graph& graph) {
  std::vector<Node*> last;
  const std::vector<std::vector<Node*>> consumers = graph.consumers();
  for (Node* node : graph.nodes()) {
    if (consumers[node->id()].empty()) last.push_back(node);
  }
  return last;
}

// A thread of a caller, usually of a transport, that runs steps. One at a time may: the others are needed for the
// messages that come meanwhile, heartbeats among them.
class CallerInSteps {
 public:
  explicit CallerInSteps(std::shared_ptr<std::atomic<int>> callers)
      : callers_(std::move(callers)), nested_(inside_ > 0) {
    if (!nested_) admitted_ = callers_->fetch_add(1, std::memory_order_relaxed) == 0;
    ++inside_;
  }
  ~CallerInSteps() {
    --inside_;
    if (!nested_) callers_->fetch_sub(1, std::memory_order_relaxed);
  }
  CallerInSteps(const CallerInSteps&) = delete;
  CallerInSteps& operator=(const CallerInSteps&) = delete;
  // Also a thread that is in a step already, and starts the next in that one's `done`.
  bool admitted() const { return nested_ || admitted_; }
  bool nested() const { return nested_; }

 private:
  static thread_local int inside_;
  const std::shared_ptr<std::atomic<int>> callers_;
  const bool nested_;
  bool admitted_ = false;
};

thread_local int CallerInSteps::inside_ = 0;

class LocalTaskSession : public TaskSession {
 public:
  LocalTaskSession(LocalRuntime& runtime, const TaskSessionOptions& options)
      : session_(std::make_shared<SessionState>(runtime, options)), task_(task_name(runtime)) {}

  Result<std::shared_ptr<const TaskGraph>> add_graph(std::string_view graph_def,
                                                     const TaskGraphOptions& options) override {
    Result<std::shared_ptr<const Executable>> executable =
        guarded(session_->memory.get(), [&] { return compile(graph_def, options); });
    if (!executable.ok()) return executable.status().with_context(session_->runtime.task_name());
    return std::shared_ptr<const TaskGraph>(std::make_shared<CompiledGraph>(session_, *std::move(executable)));
  }

  void run(const std::shared_ptr<const TaskGraph>& graph, const TaskStep& step, Done done) override {
    const auto& compiled = static_cast<const CompiledGraph&>(*graph);
    SessionState& session = compiled.session();
    auto local = std::make_shared<LocalStep>(step.id, *step.cancellation, session.compiler.services(),
                                             session.arenas.take(), session.runtime.team(), step.stats);
    local->rendezvous = step.rendezvous;
    local->sent_values = session.sent_values;
    auto start = [local, graph, &session, done = std::move(done)]() mutable {
      local->start(static_cast<const CompiledGraph&>(*graph).executable(), {}, session.runtime.pool(),
                   [graph, &session, done = std::move(done)](LocalStep& ended, Status status, std::vector<Tensor>) {
                     session.arenas.give_back(ended.detach());
                     done(std::move(status));
                   });
    };
    CallerInSteps caller(session.runtime.callers_in_steps());
    if (caller.admitted()) {
      start();
    } else {
      session.runtime.pool().schedule([start = std::move(start)]() mutable {
        const HeldWork held;
        start();
      });
    }
  }

  void stop(const Status& cause) override { session_->compiler.stop(cause); }

  void resume(const std::function<void()>& deliver) override {
    CallerInSteps caller(session_->runtime.callers_in_steps());
    // Inside of a step's work, or of another delivery, nothing is gathered.
    if (caller.nested()) return deliver();
    internal::ResumeHere here(caller.admitted());
    deliver();
  }

 private:
  static DeviceName task_name(const LocalRuntime& runtime) {
    DeviceName name = runtime.devices()[0];
    name.type.reset();
    name.id.reset();
    return name;
  }

  Result<std::shared_ptr<const Executable>> compile(std::string_view graph_def, const TaskGraphOptions& options) {
    SessionCompiler& compiler = session_->compiler;
    std::lock_guard lock(compiler.mutex());
    FunctionBody body;
    body.graph = std::make_unique<Graph>(session_->functions.shared_ops(), session_->functions.shared_library());
    TUTTI_RETURN_IF_ERROR(import_graph_def(graph_def, *body.graph));
    for (const Node* node : body.graph->nodes()) {
      TUTTI_RETURN_IF_ERROR(node->check_known());
      TUTTI_RETURN_IF_ERROR(check_device(*node, task_));
    }
    body.targets = last_nodes(*body.graph);
    compiler.forget_failures();
    compiler.set_allow_soft_placement(options.allow_soft_placement);
    return compiler.compile_body(std::move(body), options.passes, options.caller);
  }

  const std::shared_ptr<SessionState> session_;
  const DeviceName task_;
};

}  // namespace

std::unique_ptr<TaskSession> make_task_session(LocalRuntime& runtime, const TaskSessionOptions& options) {
  return std::make_unique<LocalTaskSession>(runtime, options);
}

}  // namespace tutti
