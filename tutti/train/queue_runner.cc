#include "tutti/train/queue_runner.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/runtime/session.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/internal/alarm.h"

namespace tutti {
namespace {

constexpr std::string_view kCollection = "queue_runners";

Node* add_close(Output queue, bool cancel, const std::string& name) {
  const bool resource = queue.dtype() == DType::kResource;
  const auto beside = queue.graph().colocate_with(*queue.node);
  return add_op(queue.graph(), resource ? "QueueCloseV2" : "QueueClose", {queue}, {{"cancel_pending_enqueues", cancel}},
                name);
}

// How long a step that is under way when everybody stops has to end by itself. Some wait for what will not come any
// more, and for something else than the queue: the gradients of workers that have gone.
constexpr std::chrono::seconds kTimeToFinish(1);

// What the threads of one runner share.
class Shared {
 public:
  Shared(Session& s, Coordinator& c, QueueRunner r)
      : session(s), coordinator(c), runner(std::move(r)), filling_(static_cast<int>(runner.enqueue.size())) {}

  // True for the last one.
  bool leave() {
    MutexLock lock(mu_);
    changed_.notify_all();
    return --filling_ == 0;
  }
  // Ends the steps of threads that stay.
  void end_steps() {
    const TimePoint deadline = coordinator.clock().now() + kTimeToFinish;
    {
      internal::Alarm alarm(coordinator.clock(), deadline, mu_, changed_);
      MutexLock lock(mu_);
      while (filling_ > 0 && coordinator.clock().now() < deadline) changed_.wait(mu_);
    }
    stopping.cancel(cancelled("queue runner \"", runner.name, "\" stops"));
  }

  Session& session;
  Coordinator& coordinator;
  const QueueRunner runner;
  Cancellation stopping;  // of the threads' steps

 private:
  Mutex mu_;
  CondVar changed_;
  int filling_ TUTTI_GUARDED_BY(mu_);
};

// True: the input has ended.
bool fill(Shared& shared, const std::string& node) {
  while (!shared.coordinator.should_stop()) {
    const Result<std::vector<Tensor>> result =
        shared.session.try_run({}, {}, {node}, {.cancellation = &shared.stopping});
    if (result.ok()) continue;
    const std::vector<Code>& closed = shared.runner.closed_codes;
    if (std::find(closed.begin(), closed.end(), result.status().code()) != closed.end()) return true;
    // Once everybody stops, the queue is cancelled and the session closed: what that does to an enqueue is no news.
    if (shared.coordinator.should_stop()) return false;
    throw_error(result.status().with_context(str_cat("queue runner \"", shared.runner.name, "\"")));
  }
  return false;
}

void run_thread(Shared& shared, const std::string& node) {
  bool ended = false;
  try {
    ended = fill(shared, node);
  } catch (...) {
    shared.leave();
    throw;
  }
  if (!shared.leave() || !ended) return;
  // The queue may be gone with its task; who dequeues is told that by the step itself.
  static_cast<void>(shared.session.try_run({}, {}, {shared.runner.close}));
}

std::string attribute(const Node& node, std::string_view name) {
  const AttrValue* value = node.find_attr(name);
  const std::string* text = value == nullptr ? nullptr : value->get<std::string>();
  if (text == nullptr) throw_error(invalid_argument(node.describe(), " is no queue runner: it lacks ", name));
  return *text;
}

QueueRunner read_runner(const Node& node) {
  QueueRunner runner;
  runner.name = attribute(node, "_queue");
  runner.close = attribute(node, "_close");
  runner.cancel = attribute(node, "_cancel");
  const AttrValue* enqueue = node.find_attr("_enqueue");
  const auto* names = enqueue == nullptr ? nullptr : enqueue->get<std::vector<std::string>>();
  if (names == nullptr) throw_error(invalid_argument(node.describe(), " is no queue runner: it lacks _enqueue"));
  runner.enqueue = *names;
  const AttrValue* codes = node.find_attr("_closed_codes");
  if (const auto* values = codes == nullptr ? nullptr : codes->get<std::vector<std::int64_t>>()) {
    runner.closed_codes.clear();
    for (const std::int64_t code : *values) runner.closed_codes.push_back(static_cast<Code>(code));
  }
  return runner;
}

}  // namespace

QueueRunner::QueueRunner(Output queue, const std::vector<Node*>& enqueue) {
  if (!queue || enqueue.empty()) throw_error(invalid_argument("QueueRunner: needs a queue and nodes that fill it"));
  if (queue.dtype() != DType::kResource && queue.dtype() != DType::kString) {
    throw_error(invalid_argument("QueueRunner: ", queue.name(), " is a ", dtype_name(queue.dtype()),
                                 ", not the handle of a queue"));
  }
  name = queue.node->name();
  for (const Node* node : enqueue) this->enqueue.push_back(node->name());
  const auto top = queue.graph().name_scope("");
  close = add_close(queue, false, name + "_Close")->name();
  cancel = add_close(queue, true, name + "_Close")->name();
}

void QueueRunner::start(Session& session, Coordinator& coordinator) const {
  auto shared = std::make_shared<Shared>(session, coordinator, *this);
  for (const std::string& node : enqueue) {
    coordinator.start_thread(str_cat("QueueRunnerThread-", name, "-", node),
                             [shared, node] { run_thread(*shared, node); });
  }
  coordinator.start_thread(str_cat("QueueRunnerThread-", name, "-close_on_stop"), [shared] {
    shared->coordinator.wait_for_stop();
    static_cast<void>(shared->session.try_run({}, {}, {shared->runner.cancel}));
    shared->end_steps();
  });
}

void add_queue_runner(Graph& graph, const QueueRunner& runner) {
  std::vector<std::int64_t> codes;
  for (const Code code : runner.closed_codes) codes.push_back(static_cast<std::int64_t>(code));
  const auto top = graph.name_scope("");
  Node* node = no_op(graph, runner.name + "_runner");
  graph.set_attr(*node, "_queue", runner.name);
  graph.set_attr(*node, "_enqueue", runner.enqueue);
  graph.set_attr(*node, "_close", runner.close);
  graph.set_attr(*node, "_cancel", runner.cancel);
  graph.set_attr(*node, "_closed_codes", std::move(codes));
  graph.add_to_collection(kCollection, *node);
}

std::vector<QueueRunner> queue_runners(const Graph& graph) {
  std::vector<QueueRunner> runners;
  for (const Node* node : graph.collection(kCollection)) runners.push_back(read_runner(*node));
  return runners;
}

void start_queue_runners(const Graph& graph, Session& session, Coordinator& coordinator) {
  for (const QueueRunner& runner : queue_runners(graph)) runner.start(session, coordinator);
}

}  // namespace tutti
