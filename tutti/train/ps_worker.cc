#include "tutti/train/ps_worker.h"

#include <utility>

#include "tutti/core/strings.h"
#include "tutti/ops/builders.h"
#include "tutti/strategies/replica_device_setter.h"

namespace tutti {
namespace {

PSWorkerOptions completed(PSWorkerOptions options) {
  const std::string address = options.cluster.task_address(options.job_name, options.task_index).value_or_throw();
  if (options.session.master.empty()) options.session.master = "grpc://" + address;
  return options;
}

}  // namespace

PSWorker::PSWorker(PSWorkerOptions options)
    : options_(completed(std::move(options))),
      graph_(builtin_ops()),
      cancellation_(options_.session.environment.cancellation == nullptr
                        ? Cancellation()
                        : Cancellation(*options_.session.environment.cancellation)),
      coordinator_(*options_.session.environment.clock) {}

PSWorker::~PSWorker() {
  MutexLock lock(mu_);
  TUTTI_CHECK(state_ != State::kRunning, name(), ": destroyed while it runs: its destructor must call finish()");
}

std::string PSWorker::name() const { return task_name(options_.job_name, options_.task_index); }

DeviceFunction PSWorker::device() const {
  ReplicaDeviceSetterOptions options;
  options.cluster = options_.cluster;
  options.worker_device = str_cat("/job:", options_.job_name, "/task:", options_.task_index);
  return replica_device_setter(options);
}

// Without the lock: what builds and what is told of the session's making may call the worker.
void PSWorker::start() {
  begin_start();
  try {
    build(graph_);
    session_ = make_session();
  } catch (...) {
    end_start(State::kNew);
    throw;
  }
  end_start(State::kRunning);
}

void PSWorker::begin_start() {
  MutexLock lock(mu_);
  if (state_ != State::kNew) throw_error(failed_precondition(name(), ": was started before"));
  state_ = State::kStarting;
  starter_ = std::this_thread::get_id();
}

void PSWorker::end_start(State state) {
  MutexLock lock(mu_);
  state_ = state;
  started_.notify_all();
  if (state == State::kRunning) coordinator_.start_thread(name(), [this] { run_steps(); });
}

std::unique_ptr<Session> PSWorker::make_session() {
  SessionCreatorOptions options = options_.session;
  options.environment.cancellation = &cancellation_;
  if (options_.is_chief) {
    creator_ = std::make_unique<ChiefSessionCreator>(graph_, std::move(options));
  } else {
    creator_ = std::make_unique<WorkerSessionCreator>(graph_, std::move(options));
  }
  return creator_->create_session();
}

void PSWorker::run_steps() {
  RunOptions options;
  options.cancellation = &cancellation_;
  try {
    while (!coordinator_.should_stop() && step(*session_, options)) {
    }
  } catch (const Error&) {
    // A step that was cancelled because of the stop did not fail.
    if (!cancellation_.cancelled()) throw;
  }
  coordinator_.request_stop();
}

void PSWorker::stop() {
  // Without the lock: whoever holds it is waiting for what this ends.
  coordinator_.request_stop();
  cancellation_.cancel(cancelled(name(), ": the worker was stopped"));
  end();
}

void PSWorker::join() { end(); }

bool PSWorker::runs() {
  MutexLock lock(mu_);
  return state_ == State::kRunning;
}

void PSWorker::end() {
  MutexLock lock(mu_);
  while (state_ == State::kStarting) {
    if (starter_ == std::this_thread::get_id()) return;
    started_.wait(mu_);
  }
  if (state_ != State::kRunning) return;
  Status error;
  try {
    coordinator_.join({.stop_grace_period = options_.stop_grace_period});
  } catch (const Error& failed) {
    error = failed.status();
  }
  error.update(session_->close());
  if (coordinator_.running().empty()) state_ = State::kEnded;
  throw_if_error(error);
}

void PSWorker::finish() noexcept {
  try {
    stop();
  } catch (const Error&) {
    // Whoever wanted to know has called stop().
  }
  try {
    // Without the lock: who is told may call this.
    if (runs()) {
      options_.session.environment.say(
          str_cat(name(), ": waiting for a step that has outlived the grace period of its stop"));
    }
  } catch (...) {
    // What a log throws changes nothing here.
  }
  wait_for_last_step();
}

// A step that has outlived its grace uses what is about to go.
void PSWorker::wait_for_last_step() {
  MutexLock lock(mu_);
  if (state_ != State::kRunning) return;
  while (!coordinator_.running().empty()) {
    try {
      coordinator_.join({.stop_grace_period = std::chrono::hours(1)});
    } catch (const Error&) {
      // stop() has told.
    }
  }
  state_ = State::kEnded;
}

}  // namespace tutti
