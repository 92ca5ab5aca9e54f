#include "tutti/distributed/worker.h"

#include <optional>
#include <unordered_set>
#include <utility>

#include "tutti/core/cancel_when.h"
#include "tutti/core/device_name.h"
#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/derived_status.h"
#include "tutti/distributed/internal/received_values.h"
#include "tutti/distributed/internal/request_ids.h"
#include "tutti/distributed/internal/run_graph_call.h"
#include "tutti/distributed/internal/step_table.h"
#include "tutti/distributed/internal/worker_sessions.h"
#include "tutti/graph/variant_data.h"
#include "tutti/kernels/guard.h"

namespace tutti {
namespace {

using internal::Step;
using internal::WorkerSessionPtr;
using internal::WorkerSessions;

// When a task no longer waits for a value, the step has failed somewhere. For so long the cause may arrive here by
// itself before the step is given up without it.
constexpr std::chrono::seconds kTimeForTheCause{1};

constexpr std::size_t kMostGoodKeys = 16'384;

std::uint64_t seed_of(const WorkerOptions& options) {
  return options.devices.empty() ? 1 : options.devices.front().incarnation;
}

TaskGraphOptions options_for(const RegisterGraphRequest& request, const Cancellation* caller) {
  TaskGraphOptions options{.allow_soft_placement = request.allow_soft_placement, .caller = caller};
  if (!request.optimize) {
    options.passes = {.fold_constants = false,
                      .merge_common_subexpressions = false,
                      .drop_unread = false,
                      .hoist = false,
                      .open_gates = false,
                      .fuse = false,
                      .inline_functions = false};
  }
  return options;
}

// That a value of several can be written into their answer, which could not say which of them cannot.
Status check_sendable(const std::string& key, const Tensor& value) {
  if (value.dtype() != DType::kVariant) return {};
  const Status status = check_writable(value);
  return status.ok() ? status : status.with_context(internal::name_in(key));
}

// What ends a wait for a value: the call's own cancellation, joined with its deadline where it has one.
class Wait {
 public:
  Wait(const CallOptions& options, Clock& clock) : given_(options.cancellation) {
    if (given_ != nullptr && !options.deadline) return;
    own_ = std::make_shared<Cancellation>();
    cancel_when_.emplace(own_);
    if (given_ != nullptr) cancel_when_->cancelled(*given_);
    if (options.deadline) {
      cancel_when_->reached(clock, *options.deadline, deadline_exceeded("RecvTensor took longer than it was given"));
    }
  }
  Cancellation& cancellation() const { return own_ ? *own_ : *given_; }
  void stop() {
    if (cancel_when_) cancel_when_->stop();
  }

 private:
  Cancellation* const given_;
  std::shared_ptr<Cancellation> own_;
  std::optional<CancelWhen> cancel_when_;
};

template <typename Request>
WorkerSessions::Name session_of(const Request& request) {
  return {request.session_handle, request.create_worker_session_called};
}

}  // namespace

class Worker::Impl {
 public:
  explicit Impl(WorkerOptions options)
      : options_(std::move(options)),
        request_ids_(seed_of(options_)),
        sessions_(options_.task, options_.make_session),
        steps_(std::make_shared<internal::StepTable>(internal::StepTable::Options{.task = options_.task,
                                                                                  .peers = options_.peers,
                                                                                  .request_ids = &request_ids_,
                                                                                  .clock = options_.clock,
                                                                                  .step_bytes = options_.step_bytes,
                                                                                  .remembered = options_.remembered})) {
  }

  void stop(const Status& cause);
  bool forget_task(const std::string& task, const Status& cause, std::uint64_t incarnation);
  std::size_t open_steps() const { return steps_->size(); }

  Result<GetStatusReply> get_status();
  Result<EmptyMessage> create_session(const CreateWorkerSessionRequest& request, const Cancellation* caller);
  // That a message which names our devices means us, and not who had our name before.
  Status check_incarnation(const CreateWorkerSessionRequest& request) const;
  Result<EmptyMessage> delete_session(const DeleteWorkerSessionRequest& request);
  Result<RegisterGraphReply> register_graph(const RegisterGraphRequest& request, const Cancellation* caller);
  Result<EmptyMessage> deregister_graph(const DeregisterGraphRequest& request);
  void run_graph(RunGraphRequest request, const CallOptions& options, const ReplyDone<RunGraphReply>& done);
  Result<EmptyMessage> cleanup_graph(const CleanupGraphRequest& request);
  Result<EmptyMessage> cleanup_all(const CleanupAllRequest& request);
  void recv_tensor(const RecvTensorRequest& request, const CallOptions& options, ReplyDone<RecvTensorReply> done);
  void recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done);

  // Every call is counted from its beginning until it was answered, and every graph until it has run.
  Status enter();
  void enter_again();
  void leave();
  // An answer that is worked out at once.
  template <typename Reply, typename Work>
  void answer(const ReplyDone<Reply>& done, Work work) {
    if (Status entered = enter(); !entered.ok()) return done(std::move(entered));
    done(work());
    leave();
  }

  // One that is computed for long.
  template <typename Reply, typename Work>
  void answer_later(ReplyDone<Reply> done, Work work) {
    if (!options_.run) return answer(done, std::move(work));
    if (Status entered = enter(); !entered.ok()) return done(std::move(entered));
    options_.run([this, done = std::move(done), work = std::move(work)] {
      done(guarded(work));
      leave();
    });
  }

 private:
  Result<std::shared_ptr<Step>> step_for(const RecvTensorRequest& request);
  struct Asked {
    std::shared_ptr<Step> step;
    std::shared_ptr<internal::AskedValues> values;
  };
  Result<Asked> asked_for(RecvTensorsRequest request);
  Result<Asked> asked_before(const RecvTensorsRequest& request);
  Status check_key(const std::string& text);
  Status check_new_key(const std::string& text) const;
  void end_sessions(const std::vector<WorkerSessionPtr>& sessions, const Status& cause);
  void end_session(internal::WorkerSession& session, const Status& cause);
  void clean_up(std::int64_t step_id);
  void abandon_later(const Step& step);
  void log(const std::string& line) const {
    if (options_.log) options_.log(str_cat(options_.task, ": ", line));
  }

  const WorkerOptions options_;
  internal::RequestIds request_ids_;
  internal::RecentRequests run_requests_;
  internal::RecentRequests recv_requests_;
  WorkerSessions sessions_;
  // Shared with timers, which may come after the worker has gone.
  const std::shared_ptr<internal::StepTable> steps_;

  Mutex keys_mu_;
  // Those that were checked: they are long, and the same in every step.
  std::unordered_set<std::string> good_keys_ TUTTI_GUARDED_BY(keys_mu_);

  Mutex mu_;
  CondVar left_;
  Status stopped_ TUTTI_GUARDED_BY(mu_);
  int inside_ TUTTI_GUARDED_BY(mu_) = 0;
};

Status Worker::Impl::enter() {
  MutexLock lock(mu_);
  if (stopped_.ok()) ++inside_;
  return stopped_;
}

void Worker::Impl::enter_again() {
  MutexLock lock(mu_);
  ++inside_;
}

void Worker::Impl::leave() {
  MutexLock lock(mu_);
  if (--inside_ == 0) left_.notify_all();
}

void Worker::Impl::stop(const Status& cause) {
  Status status;
  {
    MutexLock lock(mu_);
    stopped_.update(cause.with_context(options_.task));
    status = stopped_;
  }
  steps_->stop(status);
  for (const WorkerSessionPtr& session : sessions_.remove_all()) session->task->stop(status);
  MutexLock lock(mu_);
  while (inside_ > 0) left_.wait(mu_);
}

void Worker::Impl::end_sessions(const std::vector<WorkerSessionPtr>& sessions, const Status& cause) {
  for (const WorkerSessionPtr& session : sessions) {
    log(str_cat("session ", printable(session->handle), " ends: ", cause.message()));
    end_session(*session, cause);
  }
}

void Worker::Impl::end_session(internal::WorkerSession& session, const Status& cause) {
  session.task->stop(cause);
  steps_->end_all_of(&session, cause);
}

bool Worker::Impl::forget_task(const std::string& task, const Status& cause, std::uint64_t incarnation) {
  const auto ended = sessions_.remove_all_of(task, incarnation);
  end_sessions(ended, cause);
  steps_->end_all_waiting_for(task, incarnation, cause);
  return !ended.empty();
}

Result<GetStatusReply> Worker::Impl::get_status() { return GetStatusReply{options_.devices}; }

Result<EmptyMessage> Worker::Impl::create_session(const CreateWorkerSessionRequest& request,
                                                  const Cancellation* caller) {
  const std::string name = DeviceName{.job = request.job, .replica = 0, .task = request.task}.to_string();
  if (!request.cluster.empty() && name != options_.task) {
    return unimplemented(options_.task, ": a session's own cluster cannot make this task ", printable(name));
  }
  TUTTI_RETURN_IF_ERROR(check_incarnation(request));
  TUTTI_ASSIGN_OR_RETURN(std::vector<WorkerSessionPtr> old, sessions_.create(request));
  end_sessions(old, aborted("master ", printable(request.master_task), " has been started anew"));
  // A master that gave up has sent its DeleteWorkerSession, which may have come before.
  if (caller != nullptr && caller->cancelled()) {
    TUTTI_RETURN_IF_ERROR(delete_session({.session_handle = request.session_handle}).status());
    return caller->status();
  }
  return EmptyMessage{};
}

Status Worker::Impl::check_incarnation(const CreateWorkerSessionRequest& request) const {
  for (const DeviceInfo& meant : request.cluster_devices) {
    for (const DeviceInfo& own : options_.devices) {
      if (own.name != meant.name || own.incarnation == meant.incarnation) continue;
      return aborted("CreateWorkerSession expects incarnation ", meant.incarnation, " of ", own.name, ", which is ",
                     own.incarnation, ": the task was started anew");
    }
  }
  return {};
}

Result<EmptyMessage> Worker::Impl::delete_session(const DeleteWorkerSessionRequest& request) {
  if (WorkerSessionPtr session = sessions_.remove(request.session_handle)) {
    end_session(*session, cancelled("session ", printable(session->handle), " was closed"));
  }
  return EmptyMessage{};
}

Result<RegisterGraphReply> Worker::Impl::register_graph(const RegisterGraphRequest& request,
                                                        const Cancellation* caller) {
  TUTTI_ASSIGN_OR_RETURN(WorkerSessionPtr session, sessions_.find(session_of(request)));
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<const TaskGraph> graph,
                         session->task->add_graph(request.graph_def, options_for(request, caller)));
  TUTTI_ASSIGN_OR_RETURN(std::string handle, sessions_.add_graph(session, std::move(graph)));
  return RegisterGraphReply{.graph_handle = std::move(handle), .takes_ended_steps = true};
}

Result<EmptyMessage> Worker::Impl::deregister_graph(const DeregisterGraphRequest& request) {
  TUTTI_RETURN_IF_ERROR(sessions_.remove_graph(session_of(request), request.graph_handle));
  return EmptyMessage{};
}

void Worker::Impl::run_graph(RunGraphRequest request, const CallOptions& options,
                             const ReplyDone<RunGraphReply>& done) {
  if (Status entered = enter(); !entered.ok()) return done(std::move(entered));
  auto reply = [this, done](Result<RunGraphReply> result) {
    done(std::move(result));
    leave();
  };
  for (const std::int64_t step_id : request.ended_steps) clean_up(step_id);
  if (!run_requests_.is_new(request.request_id)) {
    return reply(aborted(options_.task, ": the same RunGraph request, ", request.request_id, ", came twice"));
  }
  Result<WorkerSessions::Part> part = sessions_.find_graph(session_of(request), request.graph_handle);
  if (!part.ok()) return reply(part.status());
  Result<std::shared_ptr<Step>> step = steps_->find_or_begin(request.step_id);
  if (!step.ok()) return reply(step.status());
  auto call = std::make_shared<internal::RunGraphCall>(std::move(request), *std::move(part), *std::move(step),
                                                       std::move(reply));
  call->start(
      options, *options_.clock, [this] { enter_again(); }, [this] { leave(); });
}

void Worker::Impl::clean_up(std::int64_t step_id) {
  steps_->end(step_id, make_derived(aborted("step ", step_id, " was cleaned up in ", options_.task)));
}

Result<EmptyMessage> Worker::Impl::cleanup_graph(const CleanupGraphRequest& request) {
  clean_up(request.step_id);
  return EmptyMessage{};
}

Result<EmptyMessage> Worker::Impl::cleanup_all(const CleanupAllRequest& request) {
  options_.reset_containers(request.containers);
  return EmptyMessage{};
}

Status Worker::Impl::check_key(const std::string& text) {
  {
    MutexLock lock(keys_mu_);
    if (good_keys_.contains(text)) return {};
  }
  TUTTI_RETURN_IF_ERROR(check_new_key(text));
  MutexLock lock(keys_mu_);
  if (good_keys_.size() >= kMostGoodKeys) good_keys_.clear();
  good_keys_.insert(text);
  return {};
}

Status Worker::Impl::check_new_key(const std::string& text) const {
  TUTTI_ASSIGN_OR_RETURN(const RendezvousKey key, RendezvousKey::parse(text));
  for (const DeviceInfo& device : options_.devices) {
    if (device.name != key.send_device) continue;
    if (device.incarnation == key.send_incarnation) return {};
    return aborted("RecvTensor expects incarnation ", key.send_incarnation, " of ", device.name, ", which is ",
                   device.incarnation, ": the task was started anew");
  }
  return aborted("RecvTensor expects a value of ", printable(key.send_device), ", but this is ", options_.task);
}

Result<std::shared_ptr<Step>> Worker::Impl::step_for(const RecvTensorRequest& request) {
  TUTTI_RETURN_IF_ERROR(check_key(request.rendezvous_key));
  if (!recv_requests_.is_new(request.request_id)) {
    return aborted(options_.task, ": the same RecvTensor request, ", request.request_id, ", came twice");
  }
  return steps_->find_or_begin(request.step_id);
}

void Worker::Impl::abandon_later(const Step& step) {
  options_.clock->call_at(options_.clock->now() + kTimeForTheCause, [steps = std::weak_ptr(steps_), id = step.id()] {
    if (auto table = steps.lock()) table->abandon(id);
  });
}

void Worker::Impl::recv_tensor(const RecvTensorRequest& request, const CallOptions& options,
                               ReplyDone<RecvTensorReply> done) {
  if (Status entered = enter(); !entered.ok()) return done(std::move(entered));
  Result<std::shared_ptr<Step>> found = step_for(request);
  if (!found.ok()) {
    done(found.status());
    return leave();
  }
  std::shared_ptr<Step> step = *std::move(found);
  auto wait = std::make_shared<Wait>(options, *options_.clock);
  step->rendezvous().recv_local(request.rendezvous_key, wait->cancellation(),
                                [this, step, wait, done = std::move(done)](Status status, Tensor value, bool dead) {
                                  wait->stop();
                                  if (status.ok()) {
                                    done(RecvTensorReply{std::move(value), dead, options_.clock->wall_micros()});
                                  } else {
                                    if (wait->cancellation().cancelled()) abandon_later(*step);
                                    done(std::move(status));
                                  }
                                  leave();
                                });
}

// Begins no step: what was asked of a task before it was started anew is unknown to its successor, and nobody would end
// the step there.
Result<Worker::Impl::Asked> Worker::Impl::asked_before(const RecvTensorsRequest& request) {
  std::shared_ptr<Step> step = steps_->find(request.step_id);
  if (!step) return make_derived(aborted("step ", request.step_id, " has ended in ", options_.task));
  if (auto values = step->find_asked(request.continues)) return Asked{std::move(step), std::move(values)};
  return aborted(options_.task, ": RecvTensors goes on with request ", request.continues, " of step ", request.step_id,
                 ", which is unknown");
}

Result<Worker::Impl::Asked> Worker::Impl::asked_for(RecvTensorsRequest request) {
  for (const std::string& key : request.rendezvous_keys) TUTTI_RETURN_IF_ERROR(check_key(key));
  if (!recv_requests_.is_new(request.request_id)) {
    return aborted(options_.task, ": the same RecvTensors request, ", request.request_id, ", came twice");
  }
  if (request.continues != 0) return asked_before(request);
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Step> step, steps_->find_or_begin(request.step_id));
  auto values = step->add_asked(request);
  const auto keys = std::make_shared<const std::vector<std::string>>(std::move(request.rendezvous_keys));
  for (std::size_t i = 0; i < keys->size(); ++i) {
    step->rendezvous().recv_local((*keys)[i], values->cancellation(),
                                  [values, keys, i](Status status, Tensor value, bool dead) {
                                    if (dead) value.reset();
                                    status.update(check_sendable((*keys)[i], value));
                                    values->add(i, status, std::move(value));
                                  });
  }
  return Asked{std::move(step), std::move(values)};
}

void Worker::Impl::recv_tensors(RecvTensorsRequest request, const CallOptions& options,
                                ReplyDone<RecvTensorsReply> done) {
  if (Status entered = enter(); !entered.ok()) return done(std::move(entered));
  Result<Asked> asked = asked_for(std::move(request));
  if (!asked.ok()) {
    done(asked.status());
    return leave();
  }
  auto wait = std::make_shared<Wait>(options, *options_.clock);
  asked->values->ask(wait->cancellation(),
                     [this, step = asked->step, wait, done = std::move(done)](Result<RecvTensorsReply> reply) {
                       wait->stop();
                       if (!reply.ok() && wait->cancellation().cancelled()) abandon_later(*step);
                       done(std::move(reply));
                       leave();
                     });
}

Worker::Worker(WorkerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Worker::~Worker() { impl_->stop(cancelled("the worker has ended")); }

void Worker::stop(const Status& cause) { impl_->stop(cause); }
bool Worker::forget_task(const std::string& task, const Status& cause, std::uint64_t incarnation) {
  return impl_->forget_task(task, cause, incarnation);
}

std::size_t Worker::open_steps() const { return impl_->open_steps(); }

void Worker::get_status(const CallOptions&, ReplyDone<GetStatusReply> done) {
  impl_->answer(done, [this] { return impl_->get_status(); });
}
void Worker::create_worker_session(CreateWorkerSessionRequest request, const CallOptions& options,
                                   ReplyDone<EmptyMessage> done) {
  impl_->answer(done, [&] { return impl_->create_session(request, options.cancellation); });
}
void Worker::delete_worker_session(DeleteWorkerSessionRequest request, const CallOptions&,
                                   ReplyDone<EmptyMessage> done) {
  impl_->answer(done, [&] { return impl_->delete_session(request); });
}
void Worker::register_graph(RegisterGraphRequest request, const CallOptions& options,
                            ReplyDone<RegisterGraphReply> done) {
  impl_->answer_later(std::move(done), [this, request = std::move(request), caller = options.cancellation] {
    return impl_->register_graph(request, caller);
  });
}
void Worker::deregister_graph(DeregisterGraphRequest request, const CallOptions&, ReplyDone<EmptyMessage> done) {
  impl_->answer(done, [&] { return impl_->deregister_graph(request); });
}
void Worker::run_graph(RunGraphRequest request, const CallOptions& options, ReplyDone<RunGraphReply> done) {
  impl_->run_graph(std::move(request), options, done);
}
void Worker::cleanup_graph(CleanupGraphRequest request, const CallOptions&, ReplyDone<EmptyMessage> done) {
  impl_->answer(done, [&] { return impl_->cleanup_graph(request); });
}
void Worker::cleanup_all(CleanupAllRequest request, const CallOptions&, ReplyDone<EmptyMessage> done) {
  impl_->answer(done, [&] { return impl_->cleanup_all(request); });
}
void Worker::recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) {
  impl_->recv_tensor(request, options, std::move(done));
}
void Worker::recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done) {
  impl_->recv_tensors(std::move(request), options, std::move(done));
}

}  // namespace tutti
