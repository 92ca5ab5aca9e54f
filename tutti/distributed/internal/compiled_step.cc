#include "tutti/distributed/internal/compiled_step.h"

#include <algorithm>

#include "tutti/distributed/internal/gather.h"
#include "tutti/distributed/internal/step_errors.h"

namespace tutti::internal {

CompiledStep::CompiledStep(Setup setup)
    : session_(std::move(setup.session)),
      optimize_(setup.optimize),
      allow_soft_placement_(setup.allow_soft_placement),
      feeds_(std::move(setup.feeds)),
      needs_(std::move(setup.needs)),
      parts_(std::move(setup.parts)),
      graph_defs_(std::move(setup.graph_defs)) {}

Status CompiledStep::check_feed(std::size_t index, const Tensor& value) const {
  const FeedInfo& feed = feeds_[index];
  if (value.dtype() != feed.dtype) {
    return invalid_argument("feed \"", printable(feed.name), "\": expected ", dtype_name(feed.dtype), ", got ",
                            dtype_name(value.dtype()));
  }
  if (!feed.shape.compatible_with(value.shape())) {
    return invalid_argument("feed \"", printable(feed.name), "\": shape ", value.shape(), " does not fit ", feed.shape);
  }
  return {};
}

Status CompiledStep::check_feeds(const std::vector<Tensor>& feeds) const {
  if (feeds.size() != feeds_.size()) {
    return invalid_argument("the step takes ", feeds_.size(), " feeds, but got ", feeds.size());
  }
  for (std::size_t i = 0; i < feeds.size(); ++i) TUTTI_RETURN_IF_ERROR(check_feed(i, feeds[i]));
  return {};
}

bool CompiledStep::uses(const std::string& task) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const CompiledPart& part) { return part.task == task; });
}

std::vector<std::string> CompiledStep::tasks() const {
  std::vector<std::string> tasks;
  for (const CompiledPart& part : parts_) tasks.push_back(part.task);
  return tasks;
}

void CompiledStep::when_registered(const void* waiter, std::function<void(Status)> ready) {
  if (!ready_.load(std::memory_order_acquire)) {
    MutexLock lock(mu_);
    if (state_ == State::kRegistering) {
      waiting_.emplace_back(waiter, std::move(ready));
      return;
    }
    if (state_ == State::kIdle) {
      state_ = State::kRegistering;
      registration_ = std::make_shared<Cancellation>(cancellation_);
      waiting_.emplace_back(waiter, std::exchange(ready, nullptr));
    }
  }
  if (ready != nullptr) return ready({});
  register_parts();
}

void CompiledStep::stop_waiting(const void* waiter, const Status& cause) {
  std::function<void(Status)> dropped;  // after the lock: it may own the waiter
  std::shared_ptr<Cancellation> registration;
  {
    MutexLock lock(mu_);
    const auto it = std::find_if(waiting_.begin(), waiting_.end(),
                                 [waiter](const auto& waiting) { return waiting.first == waiter; });
    if (it == waiting_.end()) return;
    dropped = std::move(it->second);
    waiting_.erase(it);
    if (waiting_.empty()) registration = registration_;
  }
  if (registration != nullptr) registration->cancel(cause);
}

void CompiledStep::register_parts() {
  if (cancellation_.cancelled()) return end_registration(cancellation_.status());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i].graph_handle.empty()) missing.push_back(i);
  }
  if (missing.empty()) return end_registration({});
  auto gather = std::make_shared<Gather>(
      missing.size(), [self = shared_from_this()](const Status& status) { self->end_registration(status); });
  for (std::size_t i : missing) {
    register_part(i, [gather](Status status) { gather->answer(std::move(status)); });
  }
}

void CompiledStep::register_part(std::size_t index, std::function<void(Status)> answered) {
  CompiledPart& part = parts_[index];
  RegisterGraphRequest request{.session_handle = session_,
                               .create_worker_session_called = true,
                               .graph_def = graph_defs_[index],
                               .optimize = optimize_,
                               .allow_soft_placement = allow_soft_placement_};
  std::shared_ptr<Cancellation> registration;
  {
    MutexLock lock(mu_);
    registration = registration_;
  }
  Cancellation* const cancellation = registration.get();
  part.worker->register_graph(
      std::move(request), {.cancellation = cancellation},
      [self = shared_from_this(), index, registration = std::move(registration),
       answered = std::move(answered)](Result<RegisterGraphReply> reply) {
        CompiledPart& part = self->parts_[index];
        if (!reply.ok()) return answered(from_task(part.task, reply.status()));
        if (reply->graph_handle.empty()) {
          return answered(internal_error(part.task, " registered a graph without giving it a handle"));
        }
        part.graph_handle = std::move(reply->graph_handle);
        part.takes_ended_steps = reply->takes_ended_steps;
        self->graph_defs_[index] = {};
        answered({});
      });
}

void CompiledStep::deregister() {
  for (CompiledPart& part : parts_) {
    if (part.graph_handle.empty()) continue;
    // Nobody waits: a worker that does not hear of it drops the graph with its session.
    part.worker->deregister_graph({.session_handle = session_,
                                   .create_worker_session_called = true,
                                   .graph_handle = std::exchange(part.graph_handle, {})},
                                  {}, [](const Result<EmptyMessage>&) {});
  }
}

void CompiledStep::end_registration(const Status& status) {
  // What ended it, rather than how the calls took it.
  const Status result = status.ok() || !cancellation_.cancelled() ? status : cancellation_.status();
  std::vector<std::pair<const void*, std::function<void(Status)>>> waiting;
  bool again = false;
  {
    MutexLock lock(mu_);
    again = begin_anew(result);
    if (!again) {
      state_ = result.ok() ? State::kReady : State::kIdle;
      ready_.store(result.ok(), std::memory_order_release);
      waiting.swap(waiting_);
    }
  }
  if (again) return register_parts();
  for (auto& [waiter, ready] : waiting) ready(result);
}

bool CompiledStep::begin_anew(const Status& status) {
  if (status.ok() || waiting_.empty() || cancellation_.cancelled() || !registration_->cancelled()) return false;
  registration_ = std::make_shared<Cancellation>(cancellation_);
  return true;
}

}  // namespace tutti::internal
