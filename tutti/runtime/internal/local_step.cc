#include "tutti/runtime/internal/local_step.h"

namespace tutti::internal {
namespace {

// How many steps may begin inside one another's callbacks on one thread.
constexpr int kMaxChainedSteps = 32;

}  // namespace

LocalStep::LocalStep(std::int64_t id, Cancellation& parent, const Services& s, std::unique_ptr<Allocator> arena,
                     Team& kernel_team, StepStats* stats)
    : arena_(std::move(arena)),
      own_cancellation_(std::in_place, parent),
      cancel_when_(std::in_place, *own_cancellation_),
      stats_(stats) {
  step_id = id;
  cancellation = &*own_cancellation_;
  allocator = arena_.get();
  services = s;
  team = &kernel_team;
  if (stats_ != nullptr) trace = &own_trace_.emplace();
}

LocalStep::~LocalStep() = default;

void LocalStep::start(std::shared_ptr<const Executable> executable, std::vector<Tensor> args, ThreadPool& pool,
                      Done done) {
  executable_ = std::move(executable);
  // A callback that starts the next step, in a step that never waits, is called by that step: the pool cuts the chain.
  thread_local int depth = 0;
  if (depth == kMaxChainedSteps) {
    pool.schedule([self = shared_from_this(), args = std::move(args), done = std::move(done)]() mutable {
      self->run(std::move(args), std::move(done));
    });
    return;
  }
  ++depth;
  run(std::move(args), std::move(done));
  --depth;
}

void LocalStep::run(std::vector<Tensor> args, Done done) {
  executable_->run(*this, std::move(args),
                   [self = shared_from_this(), done = std::move(done)](Status status, std::vector<Tensor> results) {
                     self->cancel_when_->stop();
                     if (self->stats_ != nullptr) *self->stats_ = self->trace->take(self->step_id);
                     done(*self, self->explain(status), std::move(results));
                   });
}

Status LocalStep::explain(const Status& status) const {
  if (status.ok()) return status;
  const Status cause = own_cancellation_->status();
  // A node that failed inside a function, or that was told why it should end, has said so already.
  if (cause.ok() || status.message().find(cause.message()) != std::string::npos) return status;
  return Status(cause.code(), str_cat(cause.message(), "; ", status.message()));
}

std::unique_ptr<Allocator> LocalStep::detach() {
  cancel_when_.reset();
  own_cancellation_.reset();
  return std::move(arena_);
}

ResourceStore& LocalStep::step_resources() {
  MutexLock lock(mu_);
  if (!resources_) resources_ = std::make_unique<LocalResourceStore>();
  return *resources_;
}

}  // namespace tutti::internal
