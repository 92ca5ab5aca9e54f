// Hooks: what is told about a monitored session's life and may take part in its steps. The ready-made ones are in
// hooks/.
#pragma once

#include <chrono>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/tensor.h"
#include "tutti/runtime/session.h"

namespace tutti {

class Cancellation;
class Clock;
class Coordinator;
class EventWriters;
class FileSystem;

// Where lines for people go, one at a time. Called from any thread.
using LogFunction = std::function<void(const std::string& line)>;

// What a hook gets to work with. Everything outlives the monitored session's hooks' calls.
struct HookContext {
  Graph& graph;  // still growing in begin(), not afterwards
  Clock& clock;
  FileSystem& files;
  EventWriters& events;
  LogFunction log;  // never null
  // Ends steps and what else waits; null: nothing does. For what a hook runs besides steps and may wait long.
  Cancellation* cancellation = nullptr;
  // Tells the job's other tasks that this one fails with an error, before its session is closed. On a chief those who
  // wait for it end, too; else it has no effect. Never null in a monitored session.
  std::function<void(Session& session, const Status& error)> announce_failure = nullptr;
};

// What a hook adds to a step.
struct RunArgs {
  std::vector<TensorName> fetches = {};
  Feeds feeds = {};  // what nobody else feeds: kInvalidArgument otherwise
  std::vector<NodeName> targets = {};
  bool trace = false;                    // asks for RunValues::metadata
  std::chrono::milliseconds timeout{0};  // of the step: the longest that anybody asks for holds
};

// What came of it.
struct RunValues {
  std::vector<Tensor> results;  // of the hook's own fetches, in order
  RunOptions options;           // the step ran with
  const RunMetadata* metadata;  // null when nobody asked for it
};

// What the caller of run() asked for.
struct OriginalArgs {
  const Feeds& feeds;
  const std::vector<TensorName>& fetches;
  const std::vector<NodeName>& targets;
};

// One step, as hooks see it.
class RunContext {
 public:
  RunContext(Session& session, OriginalArgs original) : session_(session), original_(original) {}

  // To run something of one's own, without hooks.
  Session& session() const { return session_; }
  const OriginalArgs& original() const { return original_; }
  // No further step: should_stop() is true when this one is over.
  void request_stop() { stop_requested_ = true; }
  bool stop_requested() const { return stop_requested_; }

 private:
  Session& session_;
  const OriginalArgs original_;
  bool stop_requested_ = false;
};

// Called on the thread that drives the monitored session, in this order:
//
//   begin                     once, before the graph is closed: the place to add nodes
//   after_create_session      for each session: the first one, and again after each recovery
//   before_run, after_run     around each step; not after_run when the step failed
//   end                       once, while the session is still open; not when an error ends the job
//   failed                    then instead, when there is a session (it may be broken). Must not throw
//   after_close_session       for each session: closed and about to go. Must wait for what uses it, and not throw
//
// A hook may throw Error: kAborted and kUnavailable make the session recover, others end the job. One hook serves one
// monitored session at a time.
class SessionRunHook {
 public:
  virtual ~SessionRunHook() = default;

  virtual void begin(HookContext& /*context*/) {}
  virtual void after_create_session(Session& /*session*/, Coordinator& /*coordinator*/) {}
  virtual std::optional<RunArgs> before_run(RunContext& /*context*/) { return std::nullopt; }
  virtual void after_run(RunContext& /*context*/, const RunValues& /*values*/) {}
  virtual void end(Session& /*session*/) {}
  virtual void failed(Session& /*session*/, const Status& /*error*/) {}
  virtual void after_close_session(Session& /*session*/) {}
};

// A hook, shared: made of a hook, or of a pointer to one that is to be asked something later.
class Hook {
 public:
  template <std::derived_from<SessionRunHook> H>
  Hook(H hook) : hook_(std::make_shared<H>(std::move(hook))) {}  // NOLINT: implicit: hooks = {StopAtStepHook(...)}
  template <std::derived_from<SessionRunHook> H>
  Hook(std::shared_ptr<H> hook) : hook_(std::move(hook)) {  // NOLINT: implicit likewise
    if (hook_ == nullptr) throw_error(invalid_argument("Hook: the pointer is null"));
  }

  SessionRunHook* operator->() const { return hook_.get(); }
  SessionRunHook& operator*() const { return *hook_; }

 private:
  std::shared_ptr<SessionRunHook> hook_;
};

}  // namespace tutti
