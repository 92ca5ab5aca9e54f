#include "tutti/distributed/remote_session.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <set>
#include <unordered_map>

#include "tutti/distributed/internal/graph_sender.h"
#include "tutti/distributed/internal/id_source.h"
#include "tutti/distributed/internal/retrying_call.h"
#include "tutti/distributed/internal/step_signature.h"
#include "tutti/graph/graph_def.h"

namespace tutti {
namespace {

using internal::CallWatch;
using internal::RetryingCall;

// A step's timeout is the master's to keep, since it knows who is late; the call itself ends so much later.
constexpr std::chrono::milliseconds kGrace(500);
// Less for a new session: a master that is not there cannot keep its limit, and the caller waits for all of this.
constexpr std::chrono::milliseconds kConnectGrace(200);
constexpr std::chrono::seconds kCloseTimeout(10);

Status closed_error() { return cancelled("Session::Close: the session is closed"); }

using Await = std::function<void(const std::atomic<bool>& answered)>;

// Waits for one reply.
template <typename T>
class Waiter {
 public:
  ReplyDone<T> done() {
    return [this](Result<T> reply) {
      MutexLock lock(mu_);
      reply_ = std::move(reply);
      answered_.store(true, std::memory_order_release);
      changed_.notify_one();
    };
  }
  Result<T> wait(const Await& await) {
    if (await) await(answered_);
    MutexLock lock(mu_);
    while (!reply_) changed_.wait(mu_);
    return *std::move(reply_);
  }

 private:
  std::atomic<bool> answered_{false};  // written under mu_; without it a hint
  Mutex mu_;
  CondVar changed_;
  std::optional<Result<T>> reply_ TUTTI_GUARDED_BY(mu_);
};

// How long steps take of late, which says whether a thread should sleep while it waits for one. Thread-safe.
class StepTimes {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  // Longer ones are slept through: a wake-up then costs little beside them.
  Nanoseconds patience() const {
    const std::int64_t average = average_.load(std::memory_order_relaxed);
    return Nanoseconds(average <= kShort.count() ? 2 * average : 0);
  }
  void add(Nanoseconds time) {
    const std::int64_t average = average_.load(std::memory_order_relaxed);
    average_.store(average + (std::min(time, 4 * kShort).count() - average) / 8, std::memory_order_relaxed);
  }

 private:
  static constexpr Nanoseconds kShort{300'000};
  std::atomic<std::int64_t> average_{kShort.count() / 2};  // of the last few; an update that is lost does no harm
};

// Waits for one step.
class StepWaiter {
 public:
  Session::Done done() {
    return [this](Status status, std::vector<Tensor> values) {
      MutexLock lock(mu_);
      status_ = std::move(status);
      values_ = std::move(values);
      called_.store(true, std::memory_order_release);
      changed_.notify_one();
    };
  }
  const std::atomic<bool>& called() const { return called_; }
  Result<std::vector<Tensor>> wait() {
    MutexLock lock(mu_);
    while (!called_.load(std::memory_order_relaxed)) changed_.wait(mu_);
    if (!status_.ok()) return std::move(status_);
    return std::move(values_);
  }

 private:
  std::atomic<bool> called_{false};  // written under mu_; without it a hint
  Mutex mu_;
  CondVar changed_;
  Status status_ TUTTI_GUARDED_BY(mu_);
  std::vector<Tensor> values_ TUTTI_GUARDED_BY(mu_);
};

// A signature that the master knows under a handle.
struct Callable {
  Signature signature;  // as the master has it: what is fed is not fetched
  std::int64_t handle = 0;
  // For each fetch: its index in the signature's, or, where what is fed is fetched, -1 - the feed's index.
  std::vector<int> fetches;
  bool runs = true;  // false: it only gives feeds back
};

class RemoteSession : public Session {
 public:
  RemoteSession(std::shared_ptr<MasterInterface> master, Graph& graph, RemoteSessionOptions options)
      : master_(std::move(master)),
        options_(std::move(options)),
        own_clock_(options_.clock == nullptr ? make_system_clock() : nullptr),
        clock_(options_.clock == nullptr ? *own_clock_ : *options_.clock),
        ids_(options_.seed),
        graph_(graph),
        sender_(graph) {}
  ~RemoteSession() override { static_cast<void>(close()); }

  // Waits for the cluster. The graph follows with the first run, as with TensorFlow's client.
  Status create();

  Result<CallableId> make_callable(const Signature& signature) override;
  Result<std::vector<Tensor>> run_callable(CallableId callable, std::vector<Tensor> feeds,
                                           const RunOptions& options) override;
  void run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                          Done done) override {
    start(callable, std::move(feeds), options, nullptr, std::move(done));
  }
  Status release_callable(CallableId callable) override;
  Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options) override;
  Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                          const std::vector<TensorName>& fetches) override;
  Status extend(std::string_view graph_def) override;
  std::vector<std::string> list_devices() override;
  Status close() override;

 private:
  // One that runs: ended by its caller or by close().
  struct Running {
    Running(Clock& clock, Cancellation* caller) : watch(clock, caller, std::nullopt) {}
    Cancellation cancellation;
    CallWatch watch;
    const void* waiter = nullptr;  // of CallOptions
  };

  // What may end a partial run before its last call. The master knows nothing of it: each call brings it along.
  struct PartialLimits {
    std::optional<TimePoint> deadline;
    Cancellation* cancellation = nullptr;  // null: none
    std::size_t open = 0;                  // feeds and fetches to come
  };

  CallOptions call_options(Running& running, std::chrono::milliseconds timeout) const;
  PartialLimits limits_of(const std::string& handle);
  void count_partial(const std::string& handle, std::size_t done, const Status& status);
  Result<std::shared_ptr<Running>> begin(Cancellation* caller);
  void end(const std::shared_ptr<Running>& running);
  // Makes one call and waits for it. `retry`: it may be repeated, being recognised by its request id. `caller`: may end
  // it; null: only close() does.
  template <typename T>
  Result<T> call(bool retry, std::chrono::milliseconds timeout, typename RetryingCall<T>::Call make,
                 Cancellation* caller = nullptr);
  Status send_graph();
  // `waiter`: who sleeps until `done`; null: nobody.
  void start(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options, const void* waiter, Done done);
  void run_by_handle(const Callable& callable, std::vector<Tensor> feeds, const std::shared_ptr<Running>& running,
                     Done done);
  void run_by_names(const Callable& callable, std::vector<Tensor> feeds, const RunOptions& options,
                    const std::shared_ptr<Running>& running, Done done);

  const std::shared_ptr<MasterInterface> master_;
  const RemoteSessionOptions options_;
  const std::unique_ptr<Clock> own_clock_;
  Clock& clock_;
  internal::IdSource ids_;
  StepTimes step_times_;
  std::string handle_;  // constant once created

  Mutex graph_mu_;  // of what was sent; taken before mu_
  Graph& graph_ TUTTI_GUARDED_BY(graph_mu_);
  internal::GraphSender sender_ TUTTI_GUARDED_BY(graph_mu_);
  std::int64_t version_ TUTTI_GUARDED_BY(graph_mu_) = 0;

  Mutex mu_;
  CondVar ended_;
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  bool told_ TUTTI_GUARDED_BY(mu_) = false;  // the master knows that it is closed
  std::set<std::shared_ptr<Running>> running_ TUTTI_GUARDED_BY(mu_);
  CallableId next_callable_ TUTTI_GUARDED_BY(mu_) = 1;
  std::unordered_map<CallableId, std::shared_ptr<const Callable>> callables_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, PartialLimits> partials_ TUTTI_GUARDED_BY(mu_);  // those that have limits
};

CallOptions RemoteSession::call_options(Running& running, std::chrono::milliseconds timeout) const {
  CallOptions options;
  // A master that is gone has taken the session with it: there is nothing to wait for.
  options.wait_for_ready = false;
  options.cancellation = &running.cancellation;
  options.waiter = running.waiter;
  if (timeout.count() > 0) options.deadline = internal::deadline_after(clock_.now(), timeout);
  if (options.deadline) *options.deadline += kGrace;
  return options;
}

Result<std::shared_ptr<RemoteSession::Running>> RemoteSession::begin(Cancellation* caller) {
  auto running = std::make_shared<Running>(clock_, caller);
  {
    MutexLock lock(mu_);
    if (closed_) return closed_error();
    running_.insert(running);
  }
  if (caller != nullptr) {
    running->watch.start([running](Status cause) { running->cancellation.cancel(std::move(cause)); }, [] {});
  }
  return running;
}

void RemoteSession::end(const std::shared_ptr<Running>& running) {
  MutexLock lock(mu_);
  running_.erase(running);
  ended_.notify_all();
}

template <typename T>
Result<T> RemoteSession::call(bool retry, std::chrono::milliseconds timeout, typename RetryingCall<T>::Call make,
                              Cancellation* caller) {
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<Running> running, begin(caller));
  Waiter<T> waiter;
  const CallOptions options = call_options(*running, timeout);
  if (retry) {
    std::make_shared<RetryingCall<T>>(clock_, options, std::move(make), waiter.done())->start();
  } else {
    make(options, waiter.done());
  }
  Result<T> reply = waiter.wait(options_.await);
  running->watch.stop();
  end(running);
  return reply;
}

Status RemoteSession::create() {
  const bool own = options_.create_timeout.count() > 0;
  Result<CreateSessionReply> reply = call<CreateSessionReply>(
      true, own ? options_.create_timeout : options_.config.operation_timeout,
      [this](CallOptions options, ReplyDone<CreateSessionReply> done) {
        options.wait_for_ready = options_.wait_for_ready;
        if (options.deadline) *options.deadline -= kGrace - kConnectGrace;
        master_->create_session({.graph_def = {},
                                 .config = options_.config,
                                 .target = options_.target,
                                 .fail_fast = !options_.wait_for_ready},
                                options, std::move(done));
      },
      options_.create_cancellation);
  if (!reply.ok()) return reply.status();
  handle_ = reply->session_handle;
  MutexLock lock(graph_mu_);
  version_ = reply->graph_version;
  return {};
}

Status RemoteSession::send_graph() {
  MutexLock lock(graph_mu_);
  if (sender_.up_to_date()) return {};
  TUTTI_ASSIGN_OR_RETURN(std::string graph_def, sender_.additions());
  Result<ExtendSessionReply> reply = call<ExtendSessionReply>(
      false, options_.config.operation_timeout,
      [&, version = version_](const CallOptions& options, ReplyDone<ExtendSessionReply> done) {
        master_->extend_session({handle_, std::move(graph_def), version}, options, std::move(done));
      });
  if (!reply.ok()) return reply.status();
  version_ = reply->new_graph_version;
  sender_.sent();
  return {};
}

Result<Session::CallableId> RemoteSession::make_callable(const Signature& signature) {
  auto callable = std::make_shared<Callable>();
  callable->signature = {signature.feeds, {}, signature.targets};
  std::vector<std::string> feeds;
  for (const std::string& feed : signature.feeds) feeds.push_back(internal::tensor_name(feed));
  for (const std::string& fetch : signature.fetches) {
    auto fed = std::find(feeds.begin(), feeds.end(), internal::tensor_name(fetch));
    if (fed != feeds.end()) {
      callable->fetches.push_back(-1 - static_cast<int>(fed - feeds.begin()));
      continue;
    }
    callable->fetches.push_back(static_cast<int>(callable->signature.fetches.size()));
    callable->signature.fetches.push_back(fetch);
  }
  callable->runs = !callable->signature.fetches.empty() || !callable->signature.targets.empty();
  TUTTI_RETURN_IF_ERROR(send_graph());
  if (callable->runs) {
    const MakeCallableRequest request{handle_, callable->signature, {}, ids_.request_id()};
    TUTTI_ASSIGN_OR_RETURN(const MakeCallableReply reply,
                           call<MakeCallableReply>(true, options_.config.operation_timeout,
                                                   [&](const CallOptions& options, ReplyDone<MakeCallableReply> done) {
                                                     master_->make_callable(request, options, std::move(done));
                                                   }));
    callable->handle = reply.handle;
  }
  MutexLock lock(mu_);
  callables_[next_callable_] = std::move(callable);
  return next_callable_++;
}

Result<std::vector<Tensor>> RemoteSession::run_callable(CallableId callable, std::vector<Tensor> feeds,
                                                        const RunOptions& options) {
  if (!options_.help && !options_.await) return Session::run_callable(callable, std::move(feeds), options);
  StepWaiter waiter;
  if (options_.await) {
    start(callable, std::move(feeds), options, nullptr, waiter.done());
    options_.await(waiter.called());
    return waiter.wait();
  }
  const auto begin = std::chrono::steady_clock::now();
  start(callable, std::move(feeds), options, &waiter, waiter.done());
  if (const auto patience = step_times_.patience(); patience.count() > 0) {
    options_.help(&waiter, waiter.called(), patience);
  }
  Result<std::vector<Tensor>> values = waiter.wait();
  step_times_.add(std::chrono::steady_clock::now() - begin);
  return values;
}

void RemoteSession::start(CallableId id, std::vector<Tensor> feeds, const RunOptions& options, const void* waiter,
                          Done done) {
  std::shared_ptr<const Callable> callable;
  {
    MutexLock lock(mu_);
    auto it = callables_.find(id);
    if (it != callables_.end()) callable = it->second;
  }
  if (callable == nullptr) return done(invalid_argument("callable ", id, " is unknown or released"), {});
  if (feeds.size() != callable->signature.feeds.size()) {
    return done(
        invalid_argument("the callable takes ", callable->signature.feeds.size(), " feeds, but got ", feeds.size()),
        {});
  }
  Result<std::shared_ptr<Running>> running = begin(options.cancellation);
  if (!running.ok()) return done(running.status(), {});
  (*running)->waiter = waiter;
  std::vector<Tensor> fed;  // what is given back
  if (callable->signature.fetches.size() < callable->fetches.size()) fed = feeds;
  Done finish = [this, callable, running = *running, fed = std::move(fed), done = std::move(done)](
                    Status status, std::vector<Tensor> fetched) {
    running->watch.stop();
    std::vector<Tensor> values;
    if (status.ok()) {
      values.reserve(callable->fetches.size());
      for (int index : callable->fetches) values.push_back(index < 0 ? fed[-1 - index] : std::move(fetched[index]));
    }
    done(std::move(status), std::move(values));
    end(running);
  };
  if (!callable->runs) return finish({}, {});
  // A call by handle has no place for options.
  if (options.timeout.count() > 0 || options.metadata != nullptr) {
    return run_by_names(*callable, std::move(feeds), options, *running, std::move(finish));
  }
  run_by_handle(*callable, std::move(feeds), *running, std::move(finish));
}

void RemoteSession::run_by_handle(const Callable& callable, std::vector<Tensor> feeds,
                                  const std::shared_ptr<Running>& running, Done done) {
  RunCallableRequest request{handle_, callable.handle, std::move(feeds), ids_.request_id()};
  // Without owning the master, which may own the clock that ends the last of this: close() waits for the call.
  std::make_shared<RetryingCall<RunCallableReply>>(
      clock_, call_options(*running, options_.config.operation_timeout),
      [master = master_.get(), request = std::move(request)](const CallOptions& options,
                                                             ReplyDone<RunCallableReply> reply) {
        master->run_callable(request, options, std::move(reply));
      },
      [expected = callable.signature.fetches.size(), done = std::move(done)](Result<RunCallableReply> reply) {
        if (!reply.ok()) return done(reply.status(), {});
        if (reply->fetches.size() != expected) {
          return done(internal_error("the master gave ", reply->fetches.size(), " of ", expected, " fetches"), {});
        }
        done({}, std::move(reply->fetches));
      })
      ->start();
}

// The tensors of a reply in the order of `fetches`.
Result<std::vector<Tensor>> take_fetches(RunStepReply& reply, const std::vector<std::string>& fetches) {
  if (!reply.status.ok()) return reply.status;
  std::vector<Tensor> values;
  for (const std::string& name : fetches) {
    auto it = std::find_if(reply.tensors.begin(), reply.tensors.end(), [&](const auto& t) { return t.first == name; });
    if (it == reply.tensors.end()) return internal_error("the master did not give fetch \"", printable(name), "\"");
    values.push_back(it->second);
  }
  return values;
}

void RemoteSession::run_by_names(const Callable& callable, std::vector<Tensor> feeds, const RunOptions& options,
                                 const std::shared_ptr<Running>& running, Done done) {
  RunStepRequest request;
  request.session_handle = handle_;
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    request.feeds.emplace_back(callable.signature.feeds[i], std::move(feeds[i]));
  }
  request.fetches = callable.signature.fetches;
  request.targets = callable.signature.targets;
  request.options = {.timeout = options.timeout,
                     .trace = options.metadata != nullptr,
                     .partition_graphs = options.metadata != nullptr && options.partition_graphs};
  request.store_errors_in_response_body = true;
  request.request_id = ids_.request_id();
  const auto timeout = options.timeout.count() > 0 ? options.timeout : options_.config.operation_timeout;
  std::make_shared<RetryingCall<RunStepReply>>(
      clock_, call_options(*running, timeout),
      [master = master_.get(), request = std::move(request)](const CallOptions& call, ReplyDone<RunStepReply> reply) {
        master->run_step(request, call, std::move(reply));
      },
      [fetches = callable.signature.fetches, metadata = options.metadata,
       done = std::move(done)](Result<RunStepReply> reply) {
        if (!reply.ok()) return done(reply.status(), {});
        Result<std::vector<Tensor>> values = take_fetches(*reply, fetches);
        if (!values.ok()) return done(values.status(), {});
        if (metadata != nullptr) {
          *metadata = {std::move(reply->report.step_stats), std::move(reply->report.partition_graphs)};
        }
        done({}, *std::move(values));
      })
      ->start();
}

Status RemoteSession::release_callable(CallableId id) {
  std::shared_ptr<const Callable> callable;
  {
    MutexLock lock(mu_);
    auto it = callables_.find(id);
    if (it == callables_.end()) return invalid_argument("callable ", id, " is unknown or released");
    callable = it->second;
    callables_.erase(it);
  }
  if (!callable->runs) return {};
  return call<EmptyMessage>(false, options_.config.operation_timeout,
                            [&](const CallOptions& options, ReplyDone<EmptyMessage> done) {
                              master_->release_callable({handle_, callable->handle}, options, std::move(done));
                            })
      .status();
}

Result<std::string> RemoteSession::partial_run_setup(const Signature& signature, const RunOptions& limits) {
  PartialLimits partial{
      .deadline = {}, .cancellation = limits.cancellation, .open = signature.feeds.size() + signature.fetches.size()};
  if (limits.timeout.count() > 0) partial.deadline = internal::deadline_after(clock_.now(), limits.timeout);
  TUTTI_RETURN_IF_ERROR(send_graph());
  const PartialRunSetupRequest request{handle_, signature, ids_.request_id()};
  TUTTI_ASSIGN_OR_RETURN(
      PartialRunSetupReply reply,
      call<PartialRunSetupReply>(true, options_.config.operation_timeout,
                                 [&](const CallOptions& options, ReplyDone<PartialRunSetupReply> done) {
                                   master_->partial_run_setup(request, options, std::move(done));
                                 }));
  if (partial.deadline || partial.cancellation != nullptr) {
    MutexLock lock(mu_);
    partials_[reply.partial_run_handle] = partial;
  }
  return std::move(reply.partial_run_handle);
}

RemoteSession::PartialLimits RemoteSession::limits_of(const std::string& handle) {
  MutexLock lock(mu_);
  auto it = partials_.find(handle);
  return it == partials_.end() ? PartialLimits() : it->second;
}

// What the master refuses, of which kInvalidArgument tells, does not end the run.
void RemoteSession::count_partial(const std::string& handle, std::size_t done, const Status& status) {
  MutexLock lock(mu_);
  auto it = partials_.find(handle);
  if (it == partials_.end()) return;
  if (status.ok()) it->second.open -= std::min(it->second.open, done);
  if (it->second.open == 0 || (!status.ok() && status.code() != Code::kInvalidArgument)) partials_.erase(it);
}

Result<std::vector<Tensor>> RemoteSession::partial_run(const std::string& handle, const Feeds& feeds,
                                                       const std::vector<TensorName>& fetches) {
  RunStepRequest request;
  request.session_handle = handle_;
  for (const auto& [name, value] : feeds) request.feeds.emplace_back(name.str(), value);
  for (const TensorName& name : fetches) request.fetches.push_back(name.str());
  request.partial_run_handle = handle;
  request.store_errors_in_response_body = true;
  request.request_id = ids_.request_id();
  const PartialLimits limits = limits_of(handle);
  auto timeout = options_.config.operation_timeout;
  if (limits.deadline) {
    // A call that comes too late is made all the same, so that the master ends the step.
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(*limits.deadline - clock_.now());
    timeout = std::max(left, std::chrono::milliseconds(1));
    request.options.timeout = timeout;
  }
  Result<RunStepReply> reply = call<RunStepReply>(
      true, timeout,
      [&](const CallOptions& options, ReplyDone<RunStepReply> done) {
        master_->run_step(request, options, std::move(done));
      },
      limits.cancellation);
  Result<std::vector<Tensor>> values = reply.ok() ? take_fetches(*reply, request.fetches) : reply.status();
  count_partial(handle, request.feeds.size() + request.fetches.size(), values.status());
  return values;
}

Status RemoteSession::extend(std::string_view graph_def) {
  {
    MutexLock lock(graph_mu_);
    TUTTI_RETURN_IF_ERROR(import_graph_def(graph_def, graph_));
  }
  return send_graph();
}

std::vector<std::string> RemoteSession::list_devices() {
  ListDevicesReply reply = call<ListDevicesReply>(true, options_.config.operation_timeout,
                                                  [&](const CallOptions& options, ReplyDone<ListDevicesReply> done) {
                                                    master_->list_devices({handle_}, options, std::move(done));
                                                  })
                               .value_or_throw();
  std::vector<std::string> names;
  for (const DeviceInfo& device : reply.local) names.push_back(device.name);
  for (const DeviceInfo& device : reply.remote) names.push_back(device.name);
  return names;
}

Status RemoteSession::close() {
  std::set<std::shared_ptr<Running>> running;
  {
    MutexLock lock(mu_);
    closed_ = true;
    running = running_;
  }
  for (const auto& call : running) call->cancellation.cancel(closed_error());
  running.clear();
  {
    MutexLock lock(mu_);
    while (!running_.empty()) ended_.wait(mu_);
    if (told_ || handle_.empty()) return {};
    told_ = true;
  }
  Waiter<EmptyMessage> waiter;
  master_->close_session({handle_}, {.deadline = clock_.now() + kCloseTimeout}, waiter.done());
  return waiter.wait(options_.await).status();
}

}  // namespace

Result<std::unique_ptr<Session>> make_remote_session(std::shared_ptr<MasterInterface> master, Graph& graph,
                                                     RemoteSessionOptions options) {
  auto session = std::make_unique<RemoteSession>(std::move(master), graph, std::move(options));
  TUTTI_RETURN_IF_ERROR(session->create());
  return std::unique_ptr<Session>(std::move(session));
}

}  // namespace tutti
