#include "tutti/distributed/internal/master_step.h"

#include <algorithm>
#include <limits>

namespace tutti::internal {
namespace {

// For a task to come back; one that was away for longer is found gone anyway.
constexpr std::chrono::seconds kCleanUpTimeout(10);

}  // namespace

Status take_values(const CompiledPart& part, const std::vector<std::string>& recv_keys, NamedTensors& recvs,
                   const std::function<void(std::size_t index, Tensor value)>& take) {
  for (std::size_t i = 0; i < recv_keys.size(); ++i) {
    // Usually they come as they were asked for.
    auto found =
        i < recvs.size() && recvs[i].first == recv_keys[i]
            ? recvs.begin() + static_cast<std::ptrdiff_t>(i)
            : std::find_if(recvs.begin(), recvs.end(), [&](const auto& entry) { return entry.first == recv_keys[i]; });
    if (found == recvs.end()) {
      return internal_error(part.task, " did not return \"", printable(recv_keys[i]), "\"");
    }
    take(i, std::move(found->second));
  }
  return {};
}

void clean_up(const MasterContext& context, const CompiledStep& compiled, std::int64_t step_id, bool failed,
              const std::vector<std::vector<std::int64_t>>& carried) {
  CallOptions options;
  if (failed) options = {.deadline = context.clock->now() + kCleanUpTimeout, .wait_for_ready = true};
  for (std::size_t i = 0; i < compiled.parts().size(); ++i) {
    const CompiledPart& part = compiled.parts()[i];
    if (!failed && part.takes_ended_steps) {
      part.ended->add(step_id);
      continue;
    }
    const auto tell = [&](std::int64_t id) {
      part.worker->cleanup_graph({.step_id = id}, options, [](const Result<EmptyMessage>&) {});
    };
    tell(step_id);
    if (!failed || i >= carried.size()) continue;
    for (const std::int64_t id : carried[i]) tell(id);
  }
}

StepReport merge_reports(std::int64_t step_id, std::vector<RunGraphReply>& replies) {
  StepReport merged;
  merged.step_stats.step_id = step_id;
  std::int64_t start = std::numeric_limits<std::int64_t>::max();
  for (const RunGraphReply& reply : replies) {
    if (!reply.report.step_stats.nodes.empty()) start = std::min(start, reply.report.step_stats.start_micros);
  }
  for (RunGraphReply& reply : replies) {
    StepStats& stats = reply.report.step_stats;
    for (NodeStats& node : stats.nodes) {
      const std::int64_t later = (stats.start_micros - start) * 1000;
      node.start_nanos += later;
      node.end_nanos += later;
      merged.step_stats.nodes.push_back(std::move(node));
    }
    for (std::string& graph : reply.report.partition_graphs) merged.partition_graphs.push_back(std::move(graph));
  }
  if (!merged.step_stats.nodes.empty()) merged.step_stats.start_micros = start;
  return merged;
}

MasterStep::MasterStep(std::shared_ptr<MasterContext> context, Setup setup)
    : context_(std::move(context)),
      setup_(std::move(setup)),
      id_(context_->ids.step_id()),
      start_(context_->clock->now()),
      watch_(*context_->clock, setup_.cancellation, setup_.deadline) {}

void MasterStep::run(std::vector<Tensor> feeds, Done done) {
  auto self = shared_from_this();
  feeds_ = std::move(feeds);
  done_ = std::move(done);
  if (setup_.cancellation != nullptr || setup_.deadline) {
    watch_.start([self](Status cause) { self->cancel(std::move(cause)); }, [self] { self->expire(); });
  }
  // Nothing has ended it up to here: what `done` frees may have been in use.
  Status early;
  {
    MutexLock lock(mu_);
    early = early_;
    state_ = early.ok() ? State::kWaiting : State::kEnded;
  }
  if (!early.ok()) return end(std::move(early), {}, {});
  setup_.compiled->when_registered(this, [self](const Status& registered) { self->launch(registered); });
}

void MasterStep::launch(const Status& registered) {
  std::shared_ptr<PartsRun> parts;
  {
    MutexLock lock(mu_);
    if (state_ == State::kEnded) return;
    if (registered.ok() && !setup_.register_only) {
      state_ = State::kRunning;
      parts_ = parts =
          std::make_shared<PartsRun>(setup_.compiled, make_calls(),
                                     [self = shared_from_this()](Status status, std::vector<RunGraphReply> replies) {
                                       self->collect(std::move(status), std::move(replies));
                                     });
    } else {
      state_ = State::kEnded;
    }
  }
  if (parts == nullptr) return end(registered, {}, {});
  parts->start();
}

std::vector<PartsRun::Call> MasterStep::make_calls() {
  std::vector<PartsRun::Call> calls;
  calls.reserve(setup_.compiled->parts().size());
  for (const CompiledPart& part : setup_.compiled->parts()) {
    RunGraphRequest request{.session_handle = setup_.session,
                            .create_worker_session_called = true,
                            .graph_handle = part.graph_handle,
                            .step_id = id_,
                            .sends = {},
                            .recv_keys = part.recv_keys,
                            .trace = setup_.options.trace,
                            .partition_graphs = setup_.options.partition_graphs,
                            .store_errors_in_response_body = true,
                            .request_id = context_->ids.request_id()};
    request.sends.reserve(part.feeds.size());
    for (const auto& [index, key] : part.feeds) request.sends.emplace_back(key, feeds_[index]);
    if (part.takes_ended_steps) request.ended_steps = part.ended->take();
    carried_.push_back(request.ended_steps);
    calls.push_back({&part, std::move(request)});
  }
  feeds_.clear();
  return calls;
}

void MasterStep::cancel(Status cause) {
  std::shared_ptr<PartsRun> parts;
  {
    MutexLock lock(mu_);
    if (state_ == State::kNew) early_.update(std::move(cause));
    if (state_ == State::kNew || state_ == State::kEnded) return;
    if (state_ == State::kWaiting) state_ = State::kEnded;
    parts = parts_;
  }
  if (parts != nullptr) return parts->cancel(std::move(cause));
  // After a deadline registering goes on: the client asks again, and would never get through if each attempt began
  // anew.
  if (cause.code() != Code::kDeadlineExceeded) setup_.compiled->stop_waiting(this, cause);
  end(std::move(cause), {}, {});
}

void MasterStep::expire() {
  std::shared_ptr<PartsRun> parts;
  {
    MutexLock lock(mu_);
    parts = parts_;
  }
  const std::string took = milliseconds(context_->clock->now() - start_);
  cancel(parts == nullptr ? deadline_exceeded("the step did not end within ", took, ": its parts were being sent to ",
                                              str_join(setup_.compiled->tasks(), ", "))
                          : deadline_exceeded("the step did not end within ", took, ": still running on ",
                                              str_join(parts->running(), ", ")));
}

void MasterStep::collect(Status status, std::vector<RunGraphReply> replies) {
  {
    MutexLock lock(mu_);
    state_ = State::kEnded;
  }
  std::vector<Tensor> fetches;
  StepReport report;
  if (status.ok()) {
    fetches.resize(setup_.compiled->num_fetches());
    for (std::size_t i = 0; i < replies.size() && status.ok(); ++i) {
      const CompiledPart& part = setup_.compiled->parts()[i];
      status = take_values(part, part.recv_keys, replies[i].recvs,
                           [&](std::size_t index, Tensor value) { fetches[part.fetches[index]] = std::move(value); });
    }
    if (setup_.options.trace || setup_.options.partition_graphs) report = merge_reports(id_, replies);
  }
  const bool failed = !status.ok();
  end(std::move(status), std::move(fetches), std::move(report));
  // After the client has its answer.
  clean_up(*context_, *setup_.compiled, id_, failed, carried_);
}

void MasterStep::end(Status status, std::vector<Tensor> fetches, StepReport report) {
  watch_.stop();
  if (!status.ok()) fetches.clear();
  std::exchange(done_, nullptr)(std::move(status), std::move(fetches), std::move(report));
}

}  // namespace tutti::internal
