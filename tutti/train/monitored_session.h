// Sessions that look after a job: hooks around every step, threads that end together, and, when a task is lost, a new
// session that goes on where the last checkpoint ended.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/runtime/session.h"
#include "tutti/train/hooks.h"
#include "tutti/train/session_creator.h"

namespace tutti {

struct MonitoredSessionOptions {
  std::vector<Hook> hooks = {};
  // For threads (of queue runners and hooks) to end at close(), which then returns without them, saying who they are.
  // The session's destructor waits for those that are still there: they use it.
  double stop_grace_period_secs = 120;
  // How long to try for a new session after one was lost, or a first one could not be made.
  double max_wait_secs = 7200;
};

// What a function given to run_step_fn works with.
class StepContext {
 public:
  // Without hooks.
  Session& session() const { return session_; }
  // As MonitoredSession::run, but without recovery: that runs the function again.
  std::vector<Tensor> run_with_hooks(const Feeds& feeds, const std::vector<TensorName>& fetches,
                                     const std::vector<NodeName>& targets = {}, const RunOptions& options = {}) {
    return run_(feeds, fetches, targets, options);
  }
  // should_stop() is true from now on; the function goes on to its end.
  void request_stop() { stop_requested_ = true; }

 private:
  friend class MonitoredSession;
  using Run = std::function<std::vector<Tensor>(const Feeds&, const std::vector<TensorName>&,
                                                const std::vector<NodeName>&, const RunOptions&)>;
  StepContext(Session& session, Run run) : session_(session), run_(std::move(run)) {}
  Session& session_;
  const Run run_;
  bool stop_requested_ = false;
};

// In the order of events:
//
//   made      hooks begin; a session is created (the scaffold closed, variables restored, initialised or waited for);
//             queue runners start; hooks learn of the session
//   run       hooks before, the step, hooks after. kAborted and kUnavailable, from the step or a hook: the session is
//             closed, another is created, hooks learn of it, and the step runs again
//   close     hooks end, in a new session when the last one was lost; threads stop and are waited for; the session is
//             closed
//
// From being made to close the graph must not grow. One thread at a time; threads of queue runners and hooks go through
// the coordinator that hooks get. Everything throws Error.
class MonitoredSession {
 public:
  MonitoredSession(std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options = {});
  // As close(), with errors logged instead of thrown. When an error passes through, or the last run failed, hooks do
  // not end: that error is what counts. kOutOfRange, the end of the input, is no error here.
  virtual ~MonitoredSession();
  MonitoredSession(const MonitoredSession&) = delete;
  MonitoredSession& operator=(const MonitoredSession&) = delete;

  // As Session::run, with hooks and recovery. kFailedPrecondition after close(), after a stop was requested, and when
  // the graph has grown. When a thread of the coordinator failed, its error is thrown: the step's is a consequence.
  std::vector<Tensor> run(const Feeds& feeds, const std::vector<TensorName>& fetches,
                          const std::vector<NodeName>& targets = {}, const RunOptions& options = {});
  // Runs targets only.
  void run(const std::vector<NodeName>& targets, const RunOptions& options = {}) { run({}, {}, targets, options); }
  // Calls `step(StepContext&)` and gives what it returns; again when a task was lost meanwhile.
  template <typename Step>
  auto run_step_fn(Step&& step) -> std::invoke_result_t<Step&, StepContext&> {
    using Value = std::invoke_result_t<Step&, StepContext&>;
    if constexpr (std::is_void_v<Value>) {
      run_step([&](StepContext& context) { step(context); });
    } else {
      std::optional<Value> value;
      run_step([&](StepContext& context) { value.emplace(step(context)); });
      return *std::move(value);
    }
  }

  // Whether a hook or a thread asked for the end, or the session was closed. A thread's error is thrown, unless it says
  // that a task was lost: that is recovered from.
  bool should_stop();
  // Runs `body` until should_stop(), or until it throws kOutOfRange, and closes: a whole training loop.
  void loop(const std::function<void()>& body);
  // Throws what hooks and threads threw; the session is closed all the same. kFailedPrecondition the second time, and
  // when hooks could not end, because the session was lost and the last run got no other.
  void close();

  bool closed() const;
  Graph& graph();
  // Sessions made so far: one more for each recovery.
  int sessions_created() const;

 protected:
  MonitoredSession(std::unique_ptr<SessionCreator> creator, MonitoredSessionOptions options, bool recovers);
  Session& live_session();

 private:
  class Impl;
  void run_step(const std::function<void(StepContext&)>& step);
  const std::unique_ptr<Impl> impl_;
};

// The same on one machine: nothing is recovered from, so that the session underneath stays the same.
class SingularMonitoredSession : public MonitoredSession {
 public:
  SingularMonitoredSession(Graph& graph, SessionCreatorOptions creator = {}, MonitoredSessionOptions options = {});
  // For what goes without hooks: saving, restoring, evaluating. REQUIRES: not closed.
  Session& raw_session() { return live_session(); }
};

}  // namespace tutti
