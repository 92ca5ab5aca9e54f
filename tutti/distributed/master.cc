#include "tutti/distributed/master.h"

#include <algorithm>
#include <set>

#include "tutti/distributed/internal/call_watch.h"
#include "tutti/distributed/internal/discovery.h"
#include "tutti/distributed/internal/gather.h"
#include "tutti/distributed/internal/master_context.h"
#include "tutti/distributed/internal/master_session.h"
#include "tutti/distributed/internal/session_config.h"
#include "tutti/distributed/internal/session_table.h"

namespace tutti {
namespace {

using internal::Discovery;
using internal::FoundTask;
using internal::Gather;
using internal::MasterContext;
using internal::MasterSession;

Status not_found_session(const std::string& handle, const std::string& task) {
  return aborted("Session ", printable(handle), " is not found. Possibly, this master (", task, ") was restarted.");
}

Status closed_by_client() { return cancelled("Step was cancelled by an explicit call to `Session::Close()`."); }

}  // namespace

class Master::Impl : public std::enable_shared_from_this<Master::Impl> {
 public:
  using SessionPointer = std::shared_ptr<MasterSession>;

  explicit Impl(MasterOptions options)
      : options_(std::move(options)),
        context_(new MasterContext{.ops = options_.ops,
                                   .clock = options_.clock,
                                   .log = options_.log,
                                   .run = options_.run,
                                   .ids = internal::IdSource(options_.seed)}),
        workers_(std::shared_ptr<void>(), options_.workers) {}

  void watch_idle_sessions();
  void stop(const Status& cause);
  bool lose_task(const std::string& task, const Status& cause);

  void create_session(CreateSessionRequest request, const CallOptions& options, ReplyDone<CreateSessionReply> done);
  void list_all_devices(const CallOptions& options, ReplyDone<ListDevicesReply> done);
  void reset(const ResetRequest& request, const CallOptions& options, ReplyDone<EmptyMessage> done);
  void close(const std::string& handle, const Status& cause, ReplyDone<EmptyMessage> done);
  // kAborted when there is no such session.
  Result<SessionPointer> find(const std::string& handle);

 private:
  // A question to all tasks that no session asks.
  struct Listing {
    Listing(Clock& clock, const CallOptions& options) : watch(clock, options.cancellation, options.deadline) {}
    internal::CallWatch watch;
    std::shared_ptr<Discovery> discovery;  // once it is listed: under the master's mu_
  };
  Result<MasterSession::Setup> make_setup(const CreateSessionRequest& request);
  Status refused() const;
  // Why no session can be added.
  Status full() TUTTI_REQUIRES(mu_);
  void collect_idle_sessions();
  void end_listing(const std::shared_ptr<Listing>& listing);

  const MasterOptions options_;
  const std::shared_ptr<MasterContext> context_;
  const std::shared_ptr<WorkerDirectory> workers_;  // not owned
  internal::SessionTable sessions_;
  std::atomic<bool> stopped_{false};  // set under mu_; read without it where being late by a moment is fine

  mutable Mutex mu_;
  CondVar ended_;
  Status cause_ TUTTI_GUARDED_BY(mu_);  // of the stop
  int closing_ TUTTI_GUARDED_BY(mu_) = 0;
  std::set<SessionPointer> creating_ TUTTI_GUARDED_BY(mu_);
  std::set<std::shared_ptr<Listing>> listings_ TUTTI_GUARDED_BY(mu_);
  std::optional<Clock::TimerId> idle_timer_ TUTTI_GUARDED_BY(mu_);
};

Status Master::Impl::refused() const {
  if (!stopped_.load(std::memory_order_relaxed)) return {};
  MutexLock lock(mu_);
  return cause_;
}

Status Master::Impl::full() {
  if (options_.max_sessions <= 0) return {};
  if (creating_.size() + sessions_.size() < static_cast<std::size_t>(options_.max_sessions)) return {};
  return resource_exhausted(options_.task, ": ", options_.max_sessions,
                            " sessions are open, which is the most at a time (--max-sessions)");
}

Result<Master::Impl::SessionPointer> Master::Impl::find(const std::string& handle) {
  SessionPointer session = sessions_.find(handle);
  if (session != nullptr) return session;
  TUTTI_RETURN_IF_ERROR(refused());
  return not_found_session(handle, options_.task);
}

Result<MasterSession::Setup> Master::Impl::make_setup(const CreateSessionRequest& request) {
  MasterSession::Setup setup;
  setup.config = internal::merge_configs(options_.default_config, request.config);
  TUTTI_RETURN_IF_ERROR(internal::check_config(setup.config));
  setup.handle = context_->ids.handle();
  setup.task = options_.task;
  setup.directory = workers_;
  setup.fail_fast = request.fail_fast;
  if (!setup.config.cluster.empty()) {
    return unimplemented(options_.task, ": this server does not take a cluster from its clients (cluster_def)");
  }
  return setup;
}

void Master::Impl::create_session(CreateSessionRequest request, const CallOptions& options,
                                  ReplyDone<CreateSessionReply> done) {
  Result<MasterSession::Setup> setup = make_setup(request);
  if (!setup.ok()) return done(setup.status());
  auto session = std::make_shared<MasterSession>(context_, *std::move(setup));
  Status refusal;
  {
    MutexLock lock(mu_);
    refusal = cause_;
    refusal.update(full());
    if (refusal.ok()) creating_.insert(session);
  }
  if (!refusal.ok()) return done(std::move(refusal));
  std::weak_ptr<MasterSession> weak = session;  // which owns the callback
  session->create(
      std::move(request.graph_def), options,
      [self = shared_from_this(), weak, caller = options.cancellation, done = std::move(done)](Status status) {
        SessionPointer session = weak.lock();
        // One whose client has gone meanwhile would never be closed.
        const bool gone = status.ok() && caller != nullptr && caller->cancelled();
        if (gone) status = caller->status();
        {
          MutexLock lock(self->mu_);
          status.update(self->cause_);
          if (status.ok()) self->sessions_.insert(session->handle(), session);
          self->creating_.erase(session);
          self->ended_.notify_all();
        }
        if (gone) session->close(status, false, [session] {});
        if (!status.ok()) return done(std::move(status));
        self->context_->log.debug(str_cat("session ", session->handle(), " was created"));
        done(CreateSessionReply{.session_handle = session->handle(), .graph_version = 0});
      });
}

void Master::Impl::close(const std::string& handle, const Status& cause, ReplyDone<EmptyMessage> done) {
  SessionPointer session = sessions_.remove(handle);
  if (session == nullptr) return done(not_found_session(handle, options_.task));
  context_->log.debug(str_cat("session ", handle, " is closed: ", cause.message()));
  session->close(cause, true, [session, done = std::move(done)] { done(EmptyMessage{}); });
}

void Master::Impl::list_all_devices(const CallOptions& options, ReplyDone<ListDevicesReply> done) {
  Result<std::vector<FoundTask>> tasks = internal::select_tasks(*workers_, {}, options_.task);
  if (!tasks.ok()) return done(tasks.status());
  auto self = shared_from_this();
  auto listing = std::make_shared<Listing>(*context_->clock, options);
  listing->discovery =
      std::make_shared<Discovery>(context_, *std::move(tasks), Discovery::Absent::kWaitedFor,
                                  [self, listing, done](Status status, std::vector<FoundTask> found) {
                                    listing->watch.stop();
                                    ListDevicesReply reply;
                                    for (std::size_t i = 0; i < found.size(); ++i) {
                                      std::vector<DeviceInfo>& devices = i == 0 ? reply.local : reply.remote;
                                      devices.insert(devices.end(), found[i].devices.begin(), found[i].devices.end());
                                    }
                                    if (status.ok()) {
                                      done(std::move(reply));
                                    } else {
                                      done(std::move(status));
                                    }
                                    self->end_listing(listing);
                                  });
  const std::shared_ptr<Discovery> discovery = listing->discovery;
  Status stopped;
  {
    MutexLock lock(mu_);
    stopped = cause_;
    if (stopped.ok()) listings_.insert(listing);
  }
  if (!stopped.ok()) discovery->cancel(std::move(stopped));
  listing->watch.start(
      [discovery](Status cause) { discovery->cancel(std::move(cause)); },
      [discovery] { discovery->cancel(deadline_exceeded("ListDevices: no answer from ", discovery->missing())); });
  discovery->start();
}

void Master::Impl::end_listing(const std::shared_ptr<Listing>& listing) {
  std::shared_ptr<Discovery> discovery;  // destroyed without the lock
  MutexLock lock(mu_);
  discovery = std::move(listing->discovery);
  listings_.erase(listing);
  ended_.notify_all();
}

void Master::Impl::reset(const ResetRequest& request, const CallOptions& options, ReplyDone<EmptyMessage> done) {
  if (Status status = refused(); !status.ok()) return done(std::move(status));
  Result<std::vector<FoundTask>> tasks = internal::select_tasks(*workers_, request.device_filters, options_.task);
  if (!tasks.ok()) return done(tasks.status());
  auto clean_up = [tasks = *std::move(tasks), containers = request.containers, options, done = std::move(done)] {
    auto gather = std::make_shared<Gather>(tasks.size(), [done](Status status) {
      if (!status.ok()) return done(std::move(status));
      done(EmptyMessage{});
    });
    for (const FoundTask& found : tasks) {
      found.worker->cleanup_all({.containers = containers},
                                {.deadline = options.deadline, .cancellation = options.cancellation},
                                [gather, task = found.task](const Result<EmptyMessage>& reply) {
                                  gather->answer(reply.status().with_context(task));
                                });
    }
  };
  std::vector<SessionPointer> sessions;
  for (const SessionPointer& session : sessions_.all()) {
    if (sessions_.remove(session->handle()) != nullptr) sessions.push_back(session);
  }
  if (sessions.empty()) return clean_up();
  auto gather = std::make_shared<Gather>(sessions.size(), [clean_up](const Status&) { clean_up(); });
  for (const SessionPointer& session : sessions) {
    session->close(aborted("the session was ended by Reset"), true, [gather] { gather->answer({}); });
  }
}

bool Master::Impl::lose_task(const std::string& task, const Status& cause) {
  std::vector<SessionPointer> sessions;
  {
    MutexLock lock(mu_);
    sessions.assign(creating_.begin(), creating_.end());
  }
  // After those that are being created: one that gets ready in between is told twice instead of never.
  for (SessionPointer& session : sessions_.all()) sessions.push_back(std::move(session));
  bool used = false;
  for (const SessionPointer& session : sessions) used = session->lose_task(task, cause) || used;
  return used;
}

void Master::Impl::stop(const Status& cause) {
  std::vector<SessionPointer> sessions;
  std::vector<std::shared_ptr<Discovery>> discoveries;
  std::optional<Clock::TimerId> timer;
  {
    MutexLock lock(mu_);
    cause_.update(cause);
    stopped_.store(true, std::memory_order_relaxed);
    sessions.assign(creating_.begin(), creating_.end());
    for (const auto& listing : listings_) {
      if (listing->discovery != nullptr) discoveries.push_back(listing->discovery);
    }
    timer = std::exchange(idle_timer_, std::nullopt);
  }
  if (timer) context_->clock->cancel_timer(*timer);
  for (const SessionPointer& session : sessions_.all()) {
    sessions_.remove(session->handle());
    sessions.push_back(session);
  }
  {
    MutexLock lock(mu_);
    closing_ += static_cast<int>(sessions.size());
  }
  for (const SessionPointer& session : sessions) {
    session->close(cause, false, [this] {
      MutexLock lock(mu_);
      --closing_;
      ended_.notify_all();
    });
  }
  for (const auto& discovery : discoveries) discovery->cancel(cause);
  MutexLock lock(mu_);
  while (closing_ > 0 || !listings_.empty() || !creating_.empty()) ended_.wait(mu_);
}

void Master::Impl::watch_idle_sessions() {
  const auto limit = options_.session_idle_limit;
  if (limit.count() <= 0) return;
  // A session goes between one and one and a quarter limits after its last call.
  const Duration pause = std::max<Duration>(Duration(limit) / 4, std::chrono::milliseconds(1));
  MutexLock lock(mu_);
  if (!cause_.ok()) return;
  idle_timer_ = context_->clock->call_at(context_->clock->now() + pause, [weak = weak_from_this()] {
    if (auto self = weak.lock()) self->collect_idle_sessions();
  });
}

void Master::Impl::collect_idle_sessions() {
  const TimePoint limit = context_->clock->now() - options_.session_idle_limit;
  for (const SessionPointer& session : sessions_.all()) {
    if (!session->idle_since(limit) || sessions_.remove(session->handle()) == nullptr) continue;
    context_->log(str_cat("session ", session->handle(), " was not used for ", options_.session_idle_limit.count(),
                          " s and is closed"));
    session->close(cancelled("the session was not used for ", options_.session_idle_limit.count(), " s"), true,
                   [session] {});
  }
  watch_idle_sessions();
}

Master::Master(MasterOptions options) : impl_(std::make_shared<Impl>(std::move(options))) {
  impl_->watch_idle_sessions();
}
Master::~Master() { stop(unavailable("the master has stopped")); }

void Master::stop(const Status& cause) { impl_->stop(cause); }
bool Master::lose_task(const std::string& task, const Status& cause) { return impl_->lose_task(task, cause); }
void Master::lease_session(const std::string& session_handle, bool held) {
  if (Result<std::shared_ptr<MasterSession>> session = impl_->find(session_handle); session.ok()) {
    (*session)->lease(held);
  }
}
void Master::abandon_session(const std::string& session_handle) {
  impl_->close(session_handle, cancelled("the session's client has gone"), [](const Result<EmptyMessage>&) {});
}

void Master::create_session(CreateSessionRequest request, const CallOptions& options,
                            ReplyDone<CreateSessionReply> done) {
  impl_->create_session(std::move(request), options, std::move(done));
}

void Master::extend_session(ExtendSessionRequest request, const CallOptions&, ReplyDone<ExtendSessionReply> done) {
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->extend(std::move(request), std::move(done));
}

void Master::partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                               ReplyDone<PartialRunSetupReply> done) {
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->partial_run_setup(std::move(request), options, std::move(done));
}

void Master::run_step(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) {
  if (request.store_errors_in_response_body) {
    done = [done = std::move(done)](Result<RunStepReply> reply) {
      if (reply.ok()) return done(std::move(reply));
      RunStepReply failed;
      failed.status = reply.status();
      done(std::move(failed));
    };
  }
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->run(std::move(request), options, std::move(done));
}

void Master::close_session(CloseSessionRequest request, const CallOptions&, ReplyDone<EmptyMessage> done) {
  impl_->close(request.session_handle, closed_by_client(), std::move(done));
}

void Master::list_devices(ListDevicesRequest request, const CallOptions& options, ReplyDone<ListDevicesReply> done) {
  if (request.session_handle.empty()) return impl_->list_all_devices(options, std::move(done));
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok() && session.status().code() != Code::kAborted) return done(session.status());
  if (!session.ok()) return done(invalid_argument(session.status().message()));
  done(ListDevicesReply{.local = (*session)->devices(), .remote = {}});
}

void Master::reset(ResetRequest request, const CallOptions& options, ReplyDone<EmptyMessage> done) {
  impl_->reset(request, options, std::move(done));
}

void Master::make_callable(MakeCallableRequest request, const CallOptions& options, ReplyDone<MakeCallableReply> done) {
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->make_callable(std::move(request), options, std::move(done));
}

void Master::run_callable(RunCallableRequest request, const CallOptions& options, ReplyDone<RunCallableReply> done) {
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->run_callable(std::move(request), options, std::move(done));
}

void Master::release_callable(ReleaseCallableRequest request, const CallOptions&, ReplyDone<EmptyMessage> done) {
  Result<std::shared_ptr<MasterSession>> session = impl_->find(request.session_handle);
  if (!session.ok()) return done(session.status());
  (*session)->release_callable(request.handle);
  done(EmptyMessage{});
}

}  // namespace tutti
