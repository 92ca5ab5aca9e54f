#include "tutti/distributed/internal/step_rendezvous.h"

#include <algorithm>

#include "tutti/distributed/derived_status.h"

namespace tutti::internal {

// A call to another task. Whoever cancels it holds it, so that it outlives the answer that may come inside of that.
struct StepRendezvous::RemoteRecv {
  std::string task;
  std::string key;
  std::uint64_t incarnation = 0;  // that is to have the value
  std::size_t index = 0;          // among calls_
  Cancellation cancellation;      // of the call
  Cancellation* asker = nullptr;
  Cancellation::Token token = 0;
  Done done;
};

void StepRendezvous::expect(std::shared_ptr<const ReceivedValues> values, const Resume& resume) {
  std::vector<std::shared_ptr<BatchedReceive>> batches;
  for (const auto& source : values->sources()) {
    batches.emplace_back();
    if (source->plain.load(std::memory_order_relaxed)) continue;
    // An error is told to who receives.
    Result<std::shared_ptr<WorkerInterface>> worker = options_.peers->worker(source->task);
    if (!worker.ok()) continue;
    batches.back() = std::make_shared<BatchedReceive>(BatchedReceive::Options{
        .step_id = options_.step_id,
        .worker = *std::move(worker),
        .source = std::shared_ptr<ReceivedValues::Source>(values, source.get()),
        .request_ids = options_.request_ids,
        .limit_bytes = options_.limit_bytes,
        .resume = resume,
        .ask_alone = [weak = weak_from_this()](const std::string& key, Cancellation& cancellation, Done done) {
          const auto self = weak.lock();
          if (!self) return done(cancelled("the step has ended"), {}, false);
          self->recv_remote(std::string(source_of(key, self->options_.task)), key, cancellation, std::move(done));
        }});
  }
  {
    MutexLock lock(mu_);
    if (!status_.ok()) return;
    expected_ = std::move(values);
    batches_ = batches;
  }
  for (const auto& batch : batches) {
    if (batch) batch->start();
  }
}

std::shared_ptr<BatchedReceive> StepRendezvous::batch_of(const std::string& key, std::size_t& index) const {
  MutexLock lock(mu_);
  if (!expected_) return nullptr;
  const ReceivedValues::Place* place = expected_->find(key);
  if (place == nullptr) return nullptr;
  index = place->index;
  return batches_[place->source];
}

Status StepRendezvous::send(const std::string& key, Tensor value, bool dead) {
  return local_.send(key, std::move(value), dead);
}

void StepRendezvous::recv_local(const std::string& key, Cancellation& cancellation, Done done) {
  local_.recv(key, cancellation, std::move(done));
}

void StepRendezvous::recv(const std::string& key, Cancellation& cancellation, Done done) {
  std::size_t index = 0;
  const std::shared_ptr<BatchedReceive> batch = batch_of(key, index);
  if (batch && batch->recv(index, cancellation, done)) return;
  const std::string_view source = source_of(key, options_.task);
  if (source.empty()) return local_.recv(key, cancellation, std::move(done));
  recv_remote(std::string(source), key, cancellation, std::move(done));
}

void StepRendezvous::recv_remote(std::string task, const std::string& key, Cancellation& cancellation, Done done) {
  Result<std::shared_ptr<WorkerInterface>> worker = options_.peers->worker(task);
  if (!worker.ok()) return done(worker.status().with_context(str_cat("RecvTensor from ", task)), {}, false);
  auto call = std::make_shared<RemoteRecv>();
  call->task = std::move(task);
  call->key = key;
  call->incarnation = incarnation_in(key);
  call->asker = &cancellation;
  call->done = std::move(done);
  Status status = enter(call);
  if (!status.ok()) return call->done(std::move(status), {}, false);
  call->token = cancellation.register_callback([call] { call->cancellation.cancel(call->asker->status()); });
  if (call->token == 0) {
    leave(call);
    return call->done(cancellation.status(), {}, false);
  }
  RecvTensorRequest request{
      .step_id = options_.step_id, .rendezvous_key = key, .request_id = options_.request_ids->next()};
  (*worker)->recv_tensor(
      std::move(request), {.cancellation = &call->cancellation},
      [self = shared_from_this(), call](Result<RecvTensorReply> reply) { self->end(call, std::move(reply)); });
}

Status StepRendezvous::enter(const CallPtr& call) {
  MutexLock lock(mu_);
  if (!status_.ok()) return status_;
  call->index = calls_.size();
  calls_.push_back(call);
  return {};
}

void StepRendezvous::leave(const CallPtr& call) {
  MutexLock lock(mu_);
  calls_.back()->index = call->index;
  std::swap(calls_[call->index], calls_.back());
  calls_.pop_back();
}

void StepRendezvous::end(const CallPtr& call, Result<RecvTensorReply> reply) {
  // Before `done`, which may end the step and the asker's cancellation with it.
  call->asker->deregister(call->token);
  leave(call);
  const Done done = std::move(call->done);
  if (reply.ok()) return done({}, std::move(reply->tensor), reply->is_dead);
  // Why it was cancelled says more than that it was.
  Status status = call->cancellation.status();
  if (status.ok()) status = reply.status();
  if (!call->cancellation.cancelled() && !is_derived(status)) {
    status = status.with_context(name_in(call->key)).with_context(str_cat("RecvTensor from ", call->task));
  }
  done(std::move(status), {}, false);
}

void StepRendezvous::abort(Status cause) {
  std::vector<CallPtr> calls;
  std::vector<std::shared_ptr<BatchedReceive>> batches;
  {
    MutexLock lock(mu_);
    status_.update(cause);
    cause = status_;
    calls = calls_;  // each leaves when it has ended
    batches = batches_;
  }
  local_.abort(cause);
  for (const auto& batch : batches) {
    if (batch) batch->cancel(cause);
  }
  for (const CallPtr& call : calls) call->cancellation.cancel(cause);
}

bool StepRendezvous::waits_for(std::string_view task, std::uint64_t but_incarnation) const {
  const auto is_lost = [&](std::string_view source, std::uint64_t incarnation) {
    return source == task && (but_incarnation == 0 || incarnation != but_incarnation);
  };
  MutexLock lock(mu_);
  return std::any_of(calls_.begin(), calls_.end(),
                     [&](const CallPtr& call) { return is_lost(call->task, call->incarnation); }) ||
         std::any_of(batches_.begin(), batches_.end(), [&](const auto& batch) {
           return batch && is_lost(batch->source().task, batch->source().incarnation) && batch->waits();
         });
}

}  // namespace tutti::internal
