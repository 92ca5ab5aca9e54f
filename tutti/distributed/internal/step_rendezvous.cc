#include "tutti/distributed/internal/step_rendezvous.h"

#include <algorithm>
#include <charconv>

#include "tutti/core/rendezvous_key.h"
#include "tutti/distributed/derived_status.h"

namespace tutti::internal {

// A call to another task. Whoever cancels it holds it, so that it outlives the answer that may come inside of that.
struct StepRendezvous::RemoteRecv {
  std::string task;
  std::uint64_t incarnation = 0;  // that is to have the value
  std::size_t index = 0;          // among calls_
  Cancellation cancellation;      // of the call
  Cancellation* asker = nullptr;
  Cancellation::Token token = 0;
  Done done;
};

namespace {

// The sender's, of a key with at least two parts; 0 when it is none.
std::uint64_t incarnation_in(std::string_view key) {
  const std::string_view text = key.substr(key.find(';') + 1);
  std::uint64_t incarnation = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), incarnation, 16);
  return incarnation;
}

}  // namespace

Status StepRendezvous::send(const std::string& key, Tensor value, bool dead) {
  return local_.send(key, std::move(value), dead);
}

void StepRendezvous::recv_local(const std::string& key, Cancellation& cancellation, Done done) {
  local_.recv(key, cancellation, std::move(done));
}

void StepRendezvous::recv(const std::string& key, Cancellation& cancellation, Done done) {
  const std::string_view source = source_of(key);
  if (source.empty()) return local_.recv(key, cancellation, std::move(done));
  recv_remote(std::string(source), key, cancellation, std::move(done));
}

// The task to ask for `key`; empty: this one. A client's value has the client's device at both ends, and is put
// into the table of whichever task needs it.
std::string_view StepRendezvous::source_of(std::string_view key) const {
  const std::size_t from_end = key.find(';');
  const std::string_view from = task_of(key.substr(0, from_end));
  if (from == options_.task || from_end == std::string_view::npos) return {};
  const std::size_t incarnation_end = key.find(';', from_end + 1);
  if (incarnation_end == std::string_view::npos) return {};
  const std::string_view rest = key.substr(incarnation_end + 1);
  return task_of(rest.substr(0, rest.find(';'))) == options_.task ? from : std::string_view();
}

void StepRendezvous::recv_remote(std::string task, const std::string& key, Cancellation& cancellation, Done done) {
  Result<std::shared_ptr<WorkerInterface>> worker = options_.peers->worker(task);
  if (!worker.ok()) return done(worker.status().with_context(str_cat("RecvTensor from ", task)), {}, false);
  auto call = std::make_shared<RemoteRecv>();
  call->task = std::move(task);
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
    status = status.with_context(str_cat("RecvTensor from ", call->task));
  }
  done(std::move(status), {}, false);
}

void StepRendezvous::abort(Status cause) {
  std::vector<CallPtr> calls;
  {
    MutexLock lock(mu_);
    status_.update(cause);
    cause = status_;
    calls = calls_;  // each leaves when it has ended
  }
  local_.abort(cause);
  for (const CallPtr& call : calls) call->cancellation.cancel(cause);
}

bool StepRendezvous::waits_for(std::string_view task, std::uint64_t but_incarnation) const {
  MutexLock lock(mu_);
  return std::any_of(calls_.begin(), calls_.end(), [&](const CallPtr& call) {
    const bool kept = but_incarnation != 0 && call->incarnation == but_incarnation;
    return call->task == task && !kept;
  });
}

}  // namespace tutti::internal
