#include "tutti/runtime/internal/local_step.h"

namespace tutti::internal {

LocalStep::LocalStep(std::int64_t id, Cancellation& session, const RunOptions& options, const Services& s,
                     std::unique_ptr<Allocator> arena, Team& kernel_team)
    : arena_(std::move(arena)),
      own_cancellation_(std::in_place, session),
      users_(options.cancellation),
      metadata_(options.metadata) {
  step_id = id;
  cancellation = &*own_cancellation_;
  allocator = arena_.get();
  services = s;
  team = &kernel_team;
  if (metadata_ != nullptr) trace = &own_trace_.emplace();
  watch(options);
}

LocalStep::~LocalStep() = default;

void LocalStep::watch(const RunOptions& options) {
  if (users_ != nullptr) {
    users_token_ = users_->register_callback([this] { cancel(users_->status()); });
    if (users_token_ == 0) cancel(users_->status());
  }
  const TimePoint now = services.clock->now();
  // One that lies beyond what the clock can count never comes. In the timeout's own unit, which cannot overflow.
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(TimePoint::max() - now);
  if (options.timeout.count() > 0 && options.timeout < left) {
    timer_ = services.clock->call_at(now + options.timeout, [this, timeout = options.timeout] {
      cancel(deadline_exceeded("step ", step_id, " took longer than its limit of ", timeout.count(), " ms"));
    });
  }
}

// After this neither the clock nor the user's cancellation refers to the step.
void LocalStep::unwatch() {
  if (timer_ != 0) services.clock->cancel_timer(timer_);
  if (users_token_ != 0) users_->deregister(users_token_);
}

void LocalStep::start(std::shared_ptr<const Executable> executable, std::vector<Tensor> args, Done done) {
  executable_ = std::move(executable);
  executable_->run(*this, std::move(args),
                   [self = shared_from_this(), done = std::move(done)](Status status, std::vector<Tensor> results) {
                     self->unwatch();
                     if (self->trace != nullptr) self->metadata_->step_stats = self->trace->take(self->step_id);
                     done(*self, self->explain(status), std::move(results));
                   });
}

Status LocalStep::explain(const Status& status) const {
  if (status.ok()) return status;
  const Status cause = own_cancellation_->status();
  // A node that failed inside a function is the cause already.
  if (cause.ok() || status.message().ends_with(cause.message())) return status;
  return Status(cause.code(), str_cat(cause.message(), "; ", status.message()));
}

std::unique_ptr<Allocator> LocalStep::detach() {
  own_cancellation_.reset();
  return std::move(arena_);
}

ResourceStore& LocalStep::step_resources() {
  MutexLock lock(mu_);
  if (!resources_) resources_ = std::make_unique<LocalResourceStore>();
  return *resources_;
}

}  // namespace tutti::internal
