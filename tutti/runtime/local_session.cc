#include "tutti/runtime/local_session.h"

#include <atomic>
#include <deque>
#include <unordered_map>

#include "tutti/graph/graph_def.h"
#include "tutti/runtime/internal/arena_pool.h"
#include "tutti/runtime/internal/local_step.h"
#include "tutti/runtime/internal/partial_run.h"
#include "tutti/runtime/internal/session_compiler.h"

namespace tutti {
namespace {

using internal::LocalStep;

// A compiled signature.
struct Callable {
  std::shared_ptr<const Executable> executable;
  std::vector<std::string> feeds;
  std::vector<DType> feed_types;
  std::vector<PartialShape> feed_shapes;

  Status check(const std::vector<Tensor>& values) const {
    if (values.size() != feeds.size()) {
      return invalid_argument("the callable takes ", feeds.size(), " feeds, but got ", values.size());
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (values[i].dtype() != feed_types[i]) {
        return invalid_argument("feed \"", printable(feeds[i]), "\": expected ", dtype_name(feed_types[i]), ", got ",
                                dtype_name(values[i].dtype()));
      }
      if (!feed_shapes[i].compatible_with(values[i].shape())) {
        return invalid_argument("feed \"", printable(feeds[i]), "\": shape ", values[i].shape(), " does not fit ",
                                feed_shapes[i]);
      }
    }
    return {};
  }
};

void set_timeout(LocalStep& step, std::chrono::milliseconds timeout, Clock& clock) {
  const TimePoint now = clock.now();
  // One that lies beyond what the clock can count never comes. In the timeout's own unit, which cannot overflow.
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(TimePoint::max() - now);
  if (timeout.count() <= 0 || timeout >= left) return;
  step.cancel_when().reached(
      clock, now + timeout,
      deadline_exceeded("step ", step.step_id, " took longer than its limit of ", timeout.count(), " ms"));
}

Status closed_error() { return cancelled("Session::Close: the session is closed"); }

}  // namespace

class LocalSession::Impl {
 public:
  Impl(Graph& graph, SessionOptions options)
      : graph_(graph),
        runtime_(options.runtime ? options.runtime : std::make_shared<LocalRuntime>(options.threads)),
        same_ops_(options.ops->registry() == graph.shared_ops()),
        passes_(options.passes),
        memory_(std::make_shared<MemoryAccount>(runtime_->memory())),
        compiler_(graph, {.ops = options.ops,
                          .runtime = runtime_.get(),
                          .memory = memory_,
                          .passes = options.passes,
                          .allow_soft_placement = options.allow_soft_placement,
                          .parallel_nodes = options.parallel_nodes}),
        arenas_(memory_) {}
  ~Impl() { static_cast<void>(close()); }

  Result<CallableId> make_callable(const Signature& signature);
  void run_callable(CallableId id, std::vector<Tensor> feeds, const RunOptions& options, Done done);
  Status release_callable(CallableId id);
  Result<std::string> partial_run_setup(const Signature& signature, const RunOptions& options);
  Result<std::vector<Tensor>> partial_run(const std::string& handle, const Feeds& feeds,
                                          const std::vector<TensorName>& fetches);
  Status extend(std::string_view graph_def);
  Status close();
  LocalRuntime& runtime() { return *runtime_; }

 private:
  Result<FunctionBody> extract(const Signature& signature);
  // Counts the step in; an error once the session is closed.
  Result<std::shared_ptr<LocalStep>> begin_step(const RunOptions& options);
  void count_out();

  void drop_failed(const std::string& handle, const Status& cause);

  Graph& graph_;
  const std::shared_ptr<LocalRuntime> runtime_;
  const bool same_ops_;
  const PassOptions passes_;
  const std::shared_ptr<MemoryAccount> memory_;
  internal::SessionCompiler compiler_;
  internal::ArenaPool arenas_;
  Cancellation cancellation_;
  std::atomic<std::int64_t> next_step_{1};

  Mutex mu_;
  CondVar step_ended_;
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  int steps_ TUTTI_GUARDED_BY(mu_) = 0;
  CallableId next_callable_ TUTTI_GUARDED_BY(mu_) = 1;
  std::unordered_map<CallableId, std::shared_ptr<const Callable>> callables_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::string, std::shared_ptr<internal::PartialRun>> partial_runs_ TUTTI_GUARDED_BY(mu_);
  std::deque<std::pair<std::string, Status>> failed_partial_runs_ TUTTI_GUARDED_BY(mu_);  // the latest last
};

Result<FunctionBody> LocalSession::Impl::extract(const Signature& signature) {
  if (!same_ops_) return failed_precondition("the graph was built with other ops than the session's");
  return extract_subgraph(graph_, signature);
}

Result<Session::CallableId> LocalSession::Impl::make_callable(const Signature& signature) {
  auto callable = std::make_shared<Callable>();
  callable->feeds = signature.feeds;
  {
    std::lock_guard lock(compiler_.mutex());
    TUTTI_ASSIGN_OR_RETURN(FunctionBody body, extract(signature));
    for (const Node* arg : body.args) {
      callable->feed_types.push_back(arg->output_types()[0].dtype);
      callable->feed_shapes.push_back(arg->output_shape(0));
    }
    TUTTI_ASSIGN_OR_RETURN(callable->executable, compiler_.compile_body(std::move(body), passes_));
  }
  MutexLock lock(mu_);
  const CallableId id = next_callable_++;
  callables_.emplace(id, std::move(callable));
  return id;
}

Result<std::shared_ptr<LocalStep>> LocalSession::Impl::begin_step(const RunOptions& options) {
  {
    MutexLock lock(mu_);
    if (closed_) return closed_error();
    ++steps_;
  }
  StepStats* stats = options.metadata == nullptr ? nullptr : &options.metadata->step_stats;
  auto step = std::make_shared<LocalStep>(next_step_.fetch_add(1, std::memory_order_relaxed), cancellation_,
                                          compiler_.services(), arenas_.take(), runtime_->team(), stats);
  if (options.cancellation != nullptr) step->cancel_when().cancelled(*options.cancellation);
  set_timeout(*step, options.timeout, runtime_->clock());
  return step;
}

void LocalSession::Impl::count_out() {
  MutexLock lock(mu_);
  if (--steps_ == 0) step_ended_.notify_all();
}

void LocalSession::Impl::run_callable(CallableId id, std::vector<Tensor> feeds, const RunOptions& options, Done done) {
  std::shared_ptr<const Callable> callable;
  bool closed = false;
  {
    MutexLock lock(mu_);
    closed = closed_;
    auto it = callables_.find(id);
    if (it != callables_.end()) callable = it->second;
  }
  if (closed) return done(closed_error(), {});
  if (!callable) return done(invalid_argument("there is no callable ", id), {});
  Status checked = callable->check(feeds);
  if (!checked.ok()) return done(std::move(checked), {});
  Result<std::shared_ptr<LocalStep>> step = begin_step(options);
  if (!step.ok()) return done(step.status(), {});
  if (options.metadata != nullptr) {
    options.metadata->partition_graphs.clear();
    if (options.partition_graphs) {
      options.metadata->partition_graphs.push_back(export_graph_def(callable->executable->graph()));
    }
  }
  (*step)->start(callable->executable, std::move(feeds), runtime_->pool(),
                 [this, done = std::move(done)](LocalStep& ended, Status status, std::vector<Tensor> results) {
                   arenas_.give_back(ended.detach());
                   done(std::move(status), std::move(results));
                   count_out();
                 });
}

Status LocalSession::Impl::release_callable(CallableId id) {
  MutexLock lock(mu_);
  if (callables_.erase(id) == 0) return invalid_argument("there is no callable ", id);
  return {};
}

Result<std::string> LocalSession::Impl::partial_run_setup(const Signature& signature, const RunOptions& options) {
  std::shared_ptr<const Executable> executable;
  std::unique_ptr<internal::PartialRun> partial;
  {
    std::lock_guard lock(compiler_.mutex());
    TUTTI_ASSIGN_OR_RETURN(FunctionBody body, extract(signature));
    TUTTI_ASSIGN_OR_RETURN(partial, internal::PartialRun::create(signature, body, runtime_->devices()[0].to_string()));
    TUTTI_ASSIGN_OR_RETURN(executable, compiler_.compile_body(std::move(body), passes_));
  }
  TUTTI_ASSIGN_OR_RETURN(std::shared_ptr<LocalStep> step, begin_step(options));
  std::shared_ptr<internal::PartialRun> shared = std::move(partial);
  const std::string handle = str_cat("partial_run_", step->step_id);
  {
    MutexLock lock(mu_);
    partial_runs_.emplace(handle, shared);
  }
  step->rendezvous = &shared->rendezvous();
  shared->watch(*step->cancellation);
  step->start(std::move(executable), {}, runtime_->pool(),
              [this, shared, handle](LocalStep& ended, Status status, const std::vector<Tensor>&) {
                if (!status.ok()) drop_failed(handle, status);
                shared->end(*ended.cancellation, std::move(status));
                arenas_.give_back(ended.detach());
                count_out();
              });
  return handle;
}

Result<std::vector<Tensor>> LocalSession::Impl::partial_run(const std::string& handle, const Feeds& feeds,
                                                            const std::vector<TensorName>& fetches) {
  std::shared_ptr<internal::PartialRun> partial;
  {
    MutexLock lock(mu_);
    auto it = partial_runs_.find(handle);
    if (it != partial_runs_.end()) partial = it->second;
    for (const auto& [failed, cause] : failed_partial_runs_) {
      if (failed == handle) return cause;
    }
  }
  if (!partial) return invalid_argument("there is no partial run \"", printable(handle), "\", or it has ended");
  Result<std::vector<Tensor>> results = partial->run(feeds, fetches);
  if (partial->over()) {
    MutexLock lock(mu_);
    partial_runs_.erase(handle);
  }
  return results;
}

// A run that has failed goes at once, whether or not somebody asks for it again; its cause stays a while for who does.
void LocalSession::Impl::drop_failed(const std::string& handle, const Status& cause) {
  constexpr std::size_t kRemembered = 64;
  MutexLock lock(mu_);
  partial_runs_.erase(handle);
  failed_partial_runs_.emplace_back(handle, cause);
  if (failed_partial_runs_.size() > kRemembered) failed_partial_runs_.pop_front();
}

Status LocalSession::Impl::extend(std::string_view graph_def) {
  std::lock_guard lock(compiler_.mutex());
  compiler_.forget_failures();
  return import_graph_def(graph_def, graph_);
}

Status LocalSession::Impl::close() {
  {
    MutexLock lock(mu_);
    closed_ = true;
  }
  cancellation_.cancel(cancelled("Session::Close: the session was closed while the step ran"));
  MutexLock lock(mu_);
  while (steps_ > 0) step_ended_.wait(mu_);
  callables_.clear();
  partial_runs_.clear();
  return {};
}

LocalSession::LocalSession(Graph& graph, SessionOptions options)
    : impl_(std::make_unique<Impl>(graph, std::move(options))) {}
LocalSession::~LocalSession() = default;

Result<Session::CallableId> LocalSession::make_callable(const Signature& signature) {
  return impl_->make_callable(signature);
}
void LocalSession::run_callable_async(CallableId callable, std::vector<Tensor> feeds, const RunOptions& options,
                                      Done done) {
  impl_->run_callable(callable, std::move(feeds), options, std::move(done));
}
Status LocalSession::release_callable(CallableId callable) { return impl_->release_callable(callable); }
Result<std::string> LocalSession::partial_run_setup(const Signature& signature, const RunOptions& options) {
  return impl_->partial_run_setup(signature, options);
}
Result<std::vector<Tensor>> LocalSession::partial_run(const std::string& handle, const Feeds& feeds,
                                                      const std::vector<TensorName>& fetches) {
  return impl_->partial_run(handle, feeds, fetches);
}
Status LocalSession::extend(std::string_view graph_def) { return impl_->extend(graph_def); }
std::vector<std::string> LocalSession::list_devices() {
  std::vector<std::string> names;
  for (const DeviceName& device : impl_->runtime().devices()) names.push_back(device.to_string());
  return names;
}
Status LocalSession::close() { return impl_->close(); }
LocalRuntime& LocalSession::runtime() { return impl_->runtime(); }

}  // namespace tutti
