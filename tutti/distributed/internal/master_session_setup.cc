// A session's beginning and end.
#include <algorithm>

#include "tutti/core/device_name.h"
#include "tutti/distributed/internal/gather.h"
#include "tutti/distributed/internal/master_session.h"
#include "tutti/kernels/guard.h"

namespace tutti::internal {
namespace {

// As TensorFlow's: a worker that hangs must not keep a client from leaving.
constexpr std::chrono::seconds kDeleteTimeout(10);

}  // namespace

MasterSession::MasterSession(std::shared_ptr<MasterContext> context, Setup setup)
    : context_(std::move(context)), setup_(std::move(setup)) {
  touch();
}

void MasterSession::create(std::string graph_def, const CallOptions& options, std::function<void(Status)> done) {
  auto self = shared_from_this();
  {
    MutexLock lock(mu_);
    ++active_;
  }
  graph_def_ = std::move(graph_def);
  created_ = std::move(done);
  const TimePoint start = context_->clock->now();
  // The caller's own limit does not come over the wire, and a master that keeps it can say who is missing.
  std::optional<TimePoint> deadline = options.deadline;
  const auto limit = setup_.config.operation_timeout;
  if (!deadline && limit.count() > 0) deadline = deadline_after(start, limit);
  creation_watch_ = std::make_unique<CallWatch>(*context_->clock, options.cancellation, deadline);
  creation_watch_->start([self](const Status& cause) { self->abort_creation(cause); },
                         [self, start] {
                           const std::string missing = self->missing();
                           self->abort_creation(deadline_exceeded("CreateSession did not end within ",
                                                                  milliseconds(self->context_->clock->now() - start),
                                                                  missing.empty() ? "" : ": no answer from ", missing));
                         });
  discover();
}

void MasterSession::discover() {
  Result<std::vector<FoundTask>> tasks = select_tasks(*setup_.directory, setup_.config.device_filters, setup_.task);
  if (!tasks.ok()) return end_creation(tasks.status());
  auto discovery = std::make_shared<Discovery>(
      context_, *std::move(tasks), setup_.fail_fast ? Discovery::Absent::kError : Discovery::Absent::kWaitedFor,
      [self = shared_from_this()](Status status, auto tasks) { self->found(std::move(status), std::move(tasks)); });
  {
    MutexLock lock(mu_);
    discovery_ = discovery;
  }
  if (creation_.cancelled()) discovery->cancel(creation_.status());
  discovery->start();
}

std::string MasterSession::missing() const {
  std::shared_ptr<Discovery> discovery;
  {
    MutexLock lock(mu_);
    discovery = discovery_;
  }
  return discovery == nullptr ? "" : discovery->missing();
}

void MasterSession::abort_creation(const Status& cause) {
  creation_.cancel(cause);
  std::shared_ptr<Discovery> discovery;
  {
    MutexLock lock(mu_);
    discovery = discovery_;
  }
  if (discovery != nullptr) discovery->cancel(cause);
}

void MasterSession::found(Status status, std::vector<FoundTask> tasks) {
  if (!status.ok()) return end_creation(std::move(status));
  bool again = false;
  {
    MutexLock lock(mu_);
    // One that was lost after it had answered may be another incarnation by now.
    again = std::any_of(tasks.begin(), tasks.end(), [this](const FoundTask& task) TUTTI_NO_THREAD_SAFETY_ANALYSIS {
      return lost_early_.contains(task.task);
    });
    lost_early_.clear();
    if (!again) {
      tasks_ = std::move(tasks);
      for (const FoundTask& task : tasks_) workers_[task.task] = task.worker;
    }
  }
  if (again) return discover();
  context_->compute([self = shared_from_this()] {
    Status added = guarded([&] { return self->add_graph(std::exchange(self->graph_def_, {})); });
    if (!added.ok()) return self->end_creation(std::move(added));
    self->create_worker_sessions();
  });
}

Status MasterSession::add_graph(std::string graph_def) {
  const std::vector<DeviceInfo>& own = tasks_.front().devices;
  if (own.empty()) return internal_error(setup_.task, " has no devices");
  MasterGraph::Options options{.ops = context_->ops,
                               .devices = devices(),
                               .client_device = own.front().name,
                               .allow_soft_placement = setup_.config.allow_soft_placement,
                               .log_placement = nullptr};
  if (setup_.config.log_device_placement) options.log_placement = context_->log;
  MutexLock lock(graph_mu_);
  graph_ = std::make_unique<MasterGraph>(std::move(options));
  return graph_->add(graph_def);
}

void MasterSession::create_worker_sessions() {
  if (creation_.cancelled()) return end_creation(creation_.status());
  workers_asked_ = true;
  const DeviceInfo& client = tasks_.front().devices.front();
  auto gather = std::make_shared<Gather>(tasks_.size(), [self = shared_from_this()](Status status) {
    if (!status.ok() && self->creation_.cancelled()) status = self->creation_.status();
    self->end_creation(std::move(status));
  });
  for (const FoundTask& found : tasks_) {
    Result<DeviceName> name = DeviceName::parse(found.task);
    CreateWorkerSessionRequest request{.session_handle = setup_.handle,
                                       .cluster = {},
                                       .job = name.ok() ? name->job.value_or("") : "",
                                       .task = name.ok() ? name->task.value_or(0) : 0,
                                       .isolate_session_state = setup_.config.isolate_session_state,
                                       // Its own: a task that was started anew since it was asked for them refuses.
                                       .cluster_devices = found.devices,
                                       .master_task = setup_.task,
                                       .master_incarnation = client.incarnation};
    found.worker->create_worker_session(std::move(request), {.cancellation = &creation_},
                                        [gather, task = found.task](const Result<EmptyMessage>& reply) {
                                          gather->answer(reply.status().with_context(task));
                                        });
  }
}

void MasterSession::end_creation(Status status) {
  creation_watch_->stop();
  bool take_back = false;
  {
    MutexLock lock(mu_);
    for (const auto& [task, cause] : lost_) status.update(cause);
    if (state_ != State::kCreating) status.update(creation_.cancelled() ? creation_.status() : check_open());
    if (state_ == State::kCreating) {
      state_ = status.ok() ? State::kOpen : State::kClosed;
      take_back = !status.ok() && workers_asked_;  // some may have been made, or may yet be
    }
  }
  if (take_back) tell_workers(nullptr);
  touch();
  std::exchange(created_, nullptr)(std::move(status));
  count_out();
}

bool MasterSession::lose_task(const std::string& task, const Status& cause) {
  std::vector<std::shared_ptr<MasterStep>> steps;
  std::vector<std::shared_ptr<PartialStep>> partials;
  std::vector<std::shared_ptr<CompiledStep>> compiled;
  bool creating = false;
  {
    MutexLock lock(mu_);
    if (!workers_.contains(task)) {
      // While its tasks are being looked for, a lost one is waited for like any other.
      const bool may_want_it = state_ == State::kCreating && workers_.empty();
      if (may_want_it) lost_early_.insert(task);
      return may_want_it;
    }
    const auto [lost, first] = lost_.emplace(task, cause);
    if (!first) {
      // One that was gone and is back has lost what it held: waiting for it is of no use any more.
      if (cause.code() == Code::kAborted) lost->second = cause;
      return true;
    }
    for (const auto& step : steps_) {
      if (step->uses(task)) steps.push_back(step);
    }
    std::erase_if(partials_, [&](const auto& entry) {
      if (entry.second->uses(task)) partials.push_back(entry.second);
      return entry.second->uses(task);
    });
    for (const auto& [key, step] : compiled_) {
      if (step->uses(task)) compiled.push_back(step);
    }
    creating = state_ == State::kCreating;
  }
  if (creating) creation_.cancel(cause);
  for (const auto& step : steps) step->cancel(cause);
  for (const auto& partial : partials) partial->cancel(cause);
  for (const auto& step : compiled) step->cancel(cause);
  return true;
}

void MasterSession::close(const Status& cause, bool wait_for_workers, std::function<void()> done) {
  std::vector<std::shared_ptr<MasterStep>> steps;
  std::vector<std::shared_ptr<PartialStep>> partials;
  std::vector<std::shared_ptr<CompiledStep>> compiled;
  bool first = false;
  bool closed = false;
  {
    MutexLock lock(mu_);
    closed = state_ == State::kClosed && active_ == 0;
    if (!closed) closed_.push_back(std::move(done));
    first = !closed && state_ != State::kClosing;
    if (first) {
      wait_for_workers_ = wait_for_workers;
      state_ = State::kClosing;
      ++active_;  // until everything was told to end
      steps.assign(steps_.begin(), steps_.end());
      for (const auto& [handle, partial] : partials_) partials.push_back(partial);
      for (const auto& [key, step] : compiled_) compiled.push_back(step);
    }
  }
  if (closed) return done();
  if (!first) return;
  abort_creation(cause);
  for (const auto& step : steps) step->cancel(cause);
  for (const auto& partial : partials) partial->cancel(cause);
  for (const auto& step : compiled) step->cancel(cause);
  count_out();
}

void MasterSession::count_out() {
  {
    MutexLock lock(mu_);
    if (--active_ > 0 || state_ != State::kClosing) return;
  }
  drained();
}

void MasterSession::drained() {
  bool wait = false;
  {
    MutexLock lock(mu_);
    wait = wait_for_workers_;
  }
  if (wait) return tell_workers([self = shared_from_this()] { self->end_closing(); });
  tell_workers(nullptr);
  end_closing();
}

void MasterSession::tell_workers(const std::function<void()>& answered) {
  std::vector<FoundTask> tasks;
  std::vector<FoundTask> silent;
  std::map<std::string, std::shared_ptr<EndedSteps>> ended_steps;
  {
    MutexLock lock(mu_);
    ended_steps = ended_steps_;
    for (const FoundTask& found : tasks_) {
      const auto lost = lost_.find(found.task);
      if (lost == lost_.end()) tasks.push_back(found);
      // One that was started anew knows nothing of the session; one that was only cut off still has it.
      if (lost != lost_.end() && lost->second.code() == Code::kUnavailable) silent.push_back(found);
    }
  }
  const TimePoint deadline = context_->clock->now() + kDeleteTimeout;
  // The end of the session ends its steps as well, unless one of the two messages is lost.
  for (const auto& [task, ended] : ended_steps) ended->tell({.deadline = deadline, .wait_for_ready = true});
  // Nobody waits for those: they are told when they come back in time.
  for (const FoundTask& found : silent) {
    found.worker->delete_worker_session({.session_handle = setup_.handle},
                                        {.deadline = deadline, .wait_for_ready = true},
                                        [](const Result<EmptyMessage>&) {});
  }
  if (tasks.empty()) {
    if (answered) answered();
    return;
  }
  auto gather = std::make_shared<Gather>(tasks.size(), [answered](const Status&) {
    if (answered) answered();
  });
  const CallOptions options{.deadline = deadline};
  for (const FoundTask& found : tasks) {
    found.worker->delete_worker_session({.session_handle = setup_.handle}, options,
                                        [gather](const Result<EmptyMessage>&) { gather->answer({}); });
  }
}

void MasterSession::end_closing() {
  std::vector<std::function<void()>> closed;
  {
    MutexLock lock(mu_);
    state_ = State::kClosed;
    closed.swap(closed_);
  }
  for (auto& done : closed) done();
}

std::vector<DeviceInfo> MasterSession::devices() const {
  std::vector<DeviceInfo> devices;
  for (const FoundTask& task : tasks_) devices.insert(devices.end(), task.devices.begin(), task.devices.end());
  return devices;
}

void MasterSession::touch() {
  last_used_.store(context_->clock->now().time_since_epoch().count(), std::memory_order_relaxed);
}

bool MasterSession::idle_since(TimePoint when) const {
  if (last_used_.load(std::memory_order_relaxed) > when.time_since_epoch().count()) return false;
  MutexLock lock(mu_);
  return state_ == State::kOpen && active_ == 0 && leases_ == 0;
}

void MasterSession::lease(bool held) {
  touch();
  MutexLock lock(mu_);
  leases_ += held ? 1 : -1;
}

}  // namespace tutti::internal
