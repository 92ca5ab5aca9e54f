#include "tutti/distributed/internal/master_session.h"

#include <algorithm>

#include "tutti/kernels/guard.h"

namespace tutti::internal {
namespace {

Signature signature_of(const RunStepRequest& request) {
  Signature signature;
  for (const auto& [name, value] : request.feeds) signature.feeds.push_back(name);
  signature.fetches = request.fetches;
  signature.targets = request.targets;
  return signature;
}

}  // namespace

Status MasterSession::check_open() const {
  return state_ == State::kOpen ? Status() : failed_precondition("Session is closed.");
}

Status MasterSession::check_new(std::int64_t request_id, std::string_view method) {
  if (requests_.is_new(request_id)) return {};
  return aborted("The same ", method, " request was received twice (request id ", request_id,
                 "): it had come through when it was sent again");
}

void MasterSession::extend(ExtendSessionRequest request, ReplyDone<ExtendSessionReply> done) {
  touch();
  context_->compute([self = shared_from_this(), request = std::move(request), done = std::move(done)] {
    const Result<std::int64_t> version = guarded([&] { return self->extend_now(request); });
    self->touch();
    if (!version.ok()) return done(version.status());
    done(ExtendSessionReply{.new_graph_version = *version});
  });
}

Result<std::int64_t> MasterSession::extend_now(const ExtendSessionRequest& request) {
  MutexLock graph_lock(graph_mu_);
  {
    MutexLock lock(mu_);
    TUTTI_RETURN_IF_ERROR(check_open());
  }
  if (request.current_graph_version != version_) {
    return aborted("Current version is ", version_, " but caller expected ", request.current_graph_version, ".");
  }
  TUTTI_RETURN_IF_ERROR(graph_->add(request.graph_def));
  return ++version_;
}

std::shared_ptr<const MasterSession::BoundStep> MasterSession::find_bound(const std::string& key) {
  MutexLock lock(mu_);
  const auto* known = bound_.find(key);
  return known == nullptr ? nullptr : *known;
}

void MasterSession::bind(std::string key, Signature asked, Bound then) {
  if (auto known = find_bound(key)) return then(std::move(known));
  context_->compute([self = shared_from_this(), key = std::move(key), asked = std::move(asked),
                     then = std::move(then)] { then(guarded([&] { return self->bind_new(key, asked); })); });
}

Result<std::shared_ptr<const MasterSession::BoundStep>> MasterSession::bind_new(std::string key,
                                                                                const Signature& asked) {
  {
    MutexLock lock(mu_);
    TUTTI_RETURN_IF_ERROR(check_open());
  }
  auto bound = std::make_shared<BoundStep>();
  TUTTI_ASSIGN_OR_RETURN(bound->signature, canonical(asked));
  TUTTI_ASSIGN_OR_RETURN(bound->compiled, compile(bound->signature.names));
  std::shared_ptr<const BoundStep> kept;
  std::vector<std::shared_ptr<CompiledStep>> unused;
  {
    MutexLock lock(mu_);
    kept = bound_.insert(std::move(key), std::move(bound));
    unused = take_unused();
  }
  for (const auto& step : unused) step->deregister();
  return kept;
}

std::vector<std::shared_ptr<CompiledStep>> MasterSession::take_unused() {
  std::vector<std::shared_ptr<CompiledStep>> unused;
  if (compiled_.size() <= kMaxSignatures) return unused;
  // Who wants one takes it from here, under the lock: what only this map holds, nobody else can get.
  std::erase_if(compiled_, [&unused](auto& entry) {
    if (entry.second.use_count() > 1) return false;
    unused.push_back(std::move(entry.second));
    return true;
  });
  return unused;
}

Result<std::shared_ptr<CompiledStep>> MasterSession::compile(const Signature& names) {
  std::string key = cache_key(names);
  MutexLock graph_lock(graph_mu_);
  {
    MutexLock lock(mu_);
    if (auto it = compiled_.find(key); it != compiled_.end()) return it->second;
  }
  TUTTI_ASSIGN_OR_RETURN(CutStep cut, graph_->cut(names));
  CompiledStep::Setup setup{.session = setup_.handle,
                            .optimize = setup_.config.optimize,
                            .allow_soft_placement = setup_.config.allow_soft_placement,
                            .feeds = std::move(cut.feeds),
                            .needs = std::move(cut.needs),
                            .parts = {},
                            .graph_defs = {}};
  // The own task's last: it may run on the calling thread, while the others work already.
  std::stable_partition(cut.parts.begin(), cut.parts.end(),
                        [this](const CutStep::TaskPart& part) { return part.task != setup_.task; });
  MutexLock lock(mu_);
  for (CutStep::TaskPart& part : cut.parts) {
    auto worker = workers_.find(part.task);
    if (worker == workers_.end()) return internal_error("a part of the step is for ", part.task, ", which is unknown");
    auto& ended = ended_steps_[part.task];
    if (!ended) ended = std::make_shared<EndedSteps>(worker->second, *context_->clock);
    CompiledPart compiled{.task = part.task,
                          .worker = worker->second,
                          .feeds = std::move(part.feeds),
                          .fetches = {},
                          .recv_keys = {},
                          .ended = ended,
                          .graph_handle = {}};
    for (Part::Terminal& fetch : part.fetches) {
      compiled.fetches.push_back(fetch.index);
      compiled.recv_keys.push_back(std::move(fetch.key));
    }
    setup.parts.push_back(std::move(compiled));
    setup.graph_defs.push_back(std::move(part.graph_def));
  }
  auto compiled = std::make_shared<CompiledStep>(std::move(setup));
  compiled_.emplace(std::move(key), compiled);
  return compiled;
}

Status MasterSession::lost_cause(const CompiledStep& compiled) const {
  for (const auto& [task, cause] : lost_) {
    if (compiled.uses(task)) return cause;
  }
  return {};
}

std::optional<TimePoint> MasterSession::deadline_of(const CallOptions& options, const StepOptions& step) const {
  const auto timeout = step.timeout.count() > 0 ? step.timeout : setup_.config.operation_timeout;
  if (timeout.count() <= 0) return options.deadline;
  return earlier(options.deadline, deadline_after(context_->clock->now(), timeout));
}

void MasterSession::start_step(const BoundStep& bound, std::vector<Tensor> feeds, const StepOptions& step_options,
                               const CallOptions& options, bool register_only, MasterStep::Done done) {
  auto step = std::make_shared<MasterStep>(context_, MasterStep::Setup{.session = setup_.handle,
                                                                       .compiled = bound.compiled,
                                                                       .options = step_options,
                                                                       .deadline = deadline_of(options, step_options),
                                                                       .cancellation = options.cancellation,
                                                                       .register_only = register_only});
  Status refused = register_only ? Status() : bound.compiled->check_feeds(feeds);
  if (refused.ok()) {
    MutexLock lock(mu_);
    refused = check_open();
    refused.update(lost_cause(*bound.compiled));
    if (refused.ok()) {
      ++active_;
      steps_.insert(step);
    }
  }
  if (!refused.ok()) return done(std::move(refused), {}, {});
  std::weak_ptr<MasterStep> weak = step;  // which owns the callback
  step->run(std::move(feeds), [self = shared_from_this(), weak, done = std::move(done)](
                                  Status status, std::vector<Tensor> fetches, StepReport report) {
    {
      MutexLock lock(self->mu_);
      self->steps_.erase(weak.lock());
    }
    done(std::move(status), std::move(fetches), std::move(report));
    self->touch();
    self->count_out();
  });
}

void MasterSession::run(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) {
  touch();
  if (Status status = check_new(request.request_id, "RunStep"); !status.ok()) return done(std::move(status));
  if (!request.partial_run_handle.empty()) return run_partial(std::move(request), options, std::move(done));
  std::string key = cache_key(request);
  if (auto known = find_bound(key)) return run_bound(known, std::move(request), options, std::move(done));
  Signature asked = signature_of(request);
  bind(std::move(key), std::move(asked),
       [self = shared_from_this(), request = std::move(request), options, done = std::move(done)](const auto& bound) {
         if (!bound.ok()) return done(bound.status());
         self->run_bound(*bound, request, options, done);
       });
}

void MasterSession::run_bound(const std::shared_ptr<const BoundStep>& bound, RunStepRequest request,
                              const CallOptions& options, ReplyDone<RunStepReply> done) {
  std::vector<Tensor> feeds(request.feeds.size());
  for (std::size_t i = 0; i < feeds.size(); ++i) {
    feeds[bound->signature.feeds[i]] = std::move(request.feeds[i].second);
  }
  start_step(*bound, std::move(feeds), request.options, options, false,
             [bound, names = std::move(request.fetches), done = std::move(done)](
                 Status status, const std::vector<Tensor>& fetches, StepReport report) {
               if (!status.ok()) return done(std::move(status));
               RunStepReply reply;
               reply.report = std::move(report);
               reply.tensors.reserve(names.size());
               for (std::size_t i = 0; i < names.size(); ++i) {
                 reply.tensors.emplace_back(names[i], fetches[bound->signature.fetches[i]]);
               }
               done(std::move(reply));
             });
}

void MasterSession::make_callable(MakeCallableRequest request, const CallOptions& options,
                                  ReplyDone<MakeCallableReply> done) {
  touch();
  if (Status status = check_new(request.request_id, "MakeCallable"); !status.ok()) return done(std::move(status));
  bind(cache_key(request.signature), request.signature,
       [self = shared_from_this(), step_options = request.options, options, done = std::move(done)](const auto& bound) {
         if (!bound.ok()) return done(bound.status());
         self->start_step(
             **bound, {}, step_options, options, true,
             [self, bound = *bound, step_options, done](Status status, const std::vector<Tensor>&, const StepReport&) {
               if (!status.ok()) return done(std::move(status));
               done(MakeCallableReply{.handle = self->add_callable({bound, step_options})});
             });
       });
}

std::int64_t MasterSession::add_callable(Callable callable) {
  MutexLock lock(mu_);
  callables_[next_callable_] = std::move(callable);
  return next_callable_++;
}

void MasterSession::run_callable(RunCallableRequest request, const CallOptions& options,
                                 ReplyDone<RunCallableReply> done) {
  touch();
  if (Status status = check_new(request.request_id, "RunCallable"); !status.ok()) return done(std::move(status));
  Callable callable;
  {
    MutexLock lock(mu_);
    auto it = callables_.find(request.handle);
    if (it != callables_.end()) callable = it->second;
  }
  if (callable.step == nullptr) {
    return done(invalid_argument("Attempted to run callable after handle was released: ", request.handle));
  }
  const StepSignature& signature = callable.step->signature;
  if (request.feeds.size() != signature.feeds.size()) {
    return done(
        invalid_argument("the callable takes ", signature.feeds.size(), " feeds, but got ", request.feeds.size()));
  }
  std::vector<Tensor> feeds(request.feeds.size());
  for (std::size_t i = 0; i < feeds.size(); ++i) feeds[signature.feeds[i]] = std::move(request.feeds[i]);
  start_step(*callable.step, std::move(feeds), callable.options, options, false,
             [step = callable.step, done = std::move(done)](Status status, const std::vector<Tensor>& fetches,
                                                            StepReport report) {
               if (!status.ok()) return done(std::move(status));
               RunCallableReply reply;
               reply.report = std::move(report);
               reply.fetches.reserve(step->signature.fetches.size());
               for (int index : step->signature.fetches) reply.fetches.push_back(fetches[index]);
               done(std::move(reply));
             });
}

void MasterSession::release_callable(std::int64_t handle) {
  touch();
  MutexLock lock(mu_);
  callables_.erase(handle);
}

void MasterSession::partial_run_setup(PartialRunSetupRequest request, const CallOptions& options,
                                      ReplyDone<PartialRunSetupReply> done) {
  touch();
  if (Status status = check_new(request.request_id, "PartialRunSetup"); !status.ok()) {
    return done(std::move(status));
  }
  bind(cache_key(request.signature), request.signature,
       [self = shared_from_this(), options, done = std::move(done)](const auto& bound) {
         if (!bound.ok()) return done(bound.status());
         self->start_step(**bound, {}, {}, options, true,
                          [self, bound = *bound, done](Status status, const std::vector<Tensor>&, const StepReport&) {
                            if (!status.ok()) return done(std::move(status));
                            Result<std::string> handle = self->add_partial(*bound);
                            if (!handle.ok()) return done(handle.status());
                            done(PartialRunSetupReply{.partial_run_handle = *std::move(handle)});
                          });
       });
}

Result<std::string> MasterSession::add_partial(const BoundStep& bound) {
  auto partial = std::make_shared<PartialStep>(context_, setup_.handle, bound.signature.names, bound.compiled);
  MutexLock lock(mu_);
  TUTTI_RETURN_IF_ERROR(check_open());
  TUTTI_RETURN_IF_ERROR(lost_cause(*bound.compiled));
  std::string handle = str_cat(next_partial_++);
  partials_[handle] = std::move(partial);
  return handle;
}

void MasterSession::run_partial(RunStepRequest request, const CallOptions& options, ReplyDone<RunStepReply> done) {
  std::shared_ptr<PartialStep> partial;
  Status refused;
  {
    MutexLock lock(mu_);
    refused = check_open();
    auto it = partials_.find(request.partial_run_handle);
    if (it != partials_.end()) partial = it->second;
    // A lost task took its partial runs along.
    if (partial == nullptr && !lost_.empty()) refused.update(lost_.begin()->second);
    if (partial == nullptr) refused.update(invalid_argument("Must run 'setup' before performing partial runs!"));
    if (!request.targets.empty()) refused.update(invalid_argument("Targets are not allowed in partial runs."));
    if (refused.ok()) ++active_;
  }
  if (!refused.ok()) return done(std::move(refused));
  partial->run(request.feeds, request.fetches, options.cancellation, deadline_of(options, request.options),
               [self = shared_from_this(), partial, handle = request.partial_run_handle, names = request.fetches,
                done = std::move(done)](Status status, std::vector<Tensor> fetches) {
                 if (partial->over()) {
                   MutexLock lock(self->mu_);
                   self->partials_.erase(handle);
                 }
                 if (status.ok()) {
                   RunStepReply reply;
                   for (std::size_t i = 0; i < names.size(); ++i) {
                     reply.tensors.emplace_back(names[i], std::move(fetches[i]));
                   }
                   done(std::move(reply));
                 } else {
                   done(std::move(status));
                 }
                 self->touch();
                 self->count_out();
               });
}

}  // namespace tutti::internal
