#include "tutti/distributed/internal/parts_run.h"

namespace tutti::internal {

PartsRun::PartsRun(std::shared_ptr<const CompiledStep> compiled, std::vector<Call> calls, Done done)
    : compiled_(std::move(compiled)),
      calls_(std::move(calls)),
      done_(std::move(done)),
      answered_(calls_.size(), false),
      replies_(calls_.size()),
      missing_(calls_.size()) {}

void PartsRun::start() {
  auto self = shared_from_this();  // the last answer may come before this returns
  if (calls_.empty()) return finish();
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (cancellation_.cancelled()) {
      answer(i, cancelled("the step had ended before the part was started"));
      continue;
    }
    calls_[i].part->worker->run_graph(std::move(calls_[i].request), {.cancellation = &cancellation_},
                                      [self, i](Result<RunGraphReply> reply) { self->answer(i, std::move(reply)); });
  }
}

void PartsRun::answer(std::size_t index, Result<RunGraphReply> reply) {
  const Status status = reply.ok() ? reply->status : reply.status();
  bool cancel_others = false;
  bool last = false;
  {
    MutexLock lock(mu_);
    answered_[index] = true;
    last = --missing_ == 0;
    if (status.ok()) {
      ++succeeded_;
      replies_[index] = *std::move(reply);
    } else {
      errors_.add(calls_[index].part->task, status, cancelled_);
      cancel_others = !cancelled_ && !last;
      cancelled_ = true;
    }
  }
  if (cancel_others) {
    cancellation_.cancel(cancelled("the step failed on ", calls_[index].part->task, ": ", code_name(status.code())));
  }
  if (last) finish();
}

void PartsRun::finish() {
  Status status;
  std::vector<RunGraphReply> replies;
  {
    MutexLock lock(mu_);
    if (!errors_.empty()) {
      // What ended it, rather than how the parts took it.
      status = cause_.ok() || errors_.has_first_hand() ? errors_.summary(succeeded_) : cause_;
    }
    replies.swap(replies_);
  }
  if (!status.ok()) replies.assign(calls_.size(), {});
  std::exchange(done_, nullptr)(std::move(status), std::move(replies));
}

void PartsRun::cancel(Status cause) {
  {
    MutexLock lock(mu_);
    if (cancelled_ || missing_ == 0) return;
    cancelled_ = true;
    cause_ = cause;
  }
  cancellation_.cancel(std::move(cause));
}

std::vector<std::string> PartsRun::running() const {
  MutexLock lock(mu_);
  std::vector<std::string> tasks;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (!answered_[i]) tasks.push_back(calls_[i].part->task);
  }
  return tasks;
}

}  // namespace tutti::internal
