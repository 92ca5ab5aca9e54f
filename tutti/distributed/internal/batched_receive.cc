#include "tutti/distributed/internal/batched_receive.h"

#include <optional>
#include <utility>

#include "tutti/distributed/derived_status.h"
#include "tutti/distributed/internal/methods.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::internal {

BatchedReceive::BatchedReceive(Options options)
    : options_(std::move(options)), missing_(options_.source->keys.size()), slots_(options_.source->keys.size()) {}

void BatchedReceive::ask(std::int64_t continues) {
  RecvTensorsRequest request{.step_id = options_.step_id,
                             .request_id = options_.request_ids->next(),
                             .rendezvous_keys = {},
                             .continues = continues,
                             .unhurried = {}};
  if (continues == 0) {
    request.rendezvous_keys = options_.source->keys;
    request.unhurried = options_.source->unhurried;
  }
  const std::int64_t first = continues == 0 ? request.request_id : continues;
  options_.worker->recv_tensors(
      std::move(request), {.cancellation = &cancellation_},
      [self = shared_from_this(), first](Result<RecvTensorsReply> reply) { self->answered(first, std::move(reply)); });
}

void BatchedReceive::answered(std::int64_t first, Result<RecvTensorsReply> reply) {
  if (!reply.ok() && methods::is_unknown(methods::kRecvTensors, reply.status())) return ask_each();
  if (!reply.ok()) return fail(error(reply.status()));
  std::vector<Waiting> waiting;
  std::size_t missing = 0;
  if (const Status status = take_in(reply->values, waiting, missing); !status.ok()) return fail(error(status));
  // The next ones may come while these are worked on.
  if (missing > 0) ask(first);
  if (waiting.empty()) return;
  let_go(waiting);
  options_.resume([&waiting] {
    for (Waiting& one : waiting) {
      const bool dead = !one.slot.value.has_value();
      one.slot.done({}, std::move(one.slot.value), dead);
    }
  });
}

Status BatchedReceive::take_in(std::vector<ReceivedTensor>& values, std::vector<Waiting>& waiting,
                               std::size_t& missing) {
  if (values.empty()) return internal_error("an answer to RecvTensors without a value");
  MutexLock lock(mu_);
  for (ReceivedTensor& value : values) {
    const auto index = static_cast<std::size_t>(value.index);
    if (index >= slots_.size() || slots_[index].state == State::kArrived) {
      return internal_error("value ", value.index, " of ", slots_.size(), " came twice or was not asked for");
    }
    Slot& slot = slots_[index];
    if (missing_ > 0) --missing_;
    if (slot.state == State::kTaken) continue;  // whoever wanted it was cancelled
    slot.value = std::move(value.tensor);
    if (slot.state == State::kAwaited) {
      waiting.push_back(take_slot(index));
      continue;
    }
    slot.state = State::kArrived;
    slot.bytes = held_bytes(slot.value);
    bytes_ += slot.bytes;
    if (bytes_ > options_.limit_bytes) {
      return resource_exhausted(bytes_, " bytes were received and not taken, more than the limit of ",
                                options_.limit_bytes, " (--max-step-bytes)");
    }
  }
  missing = missing_;
  return {};
}

BatchedReceive::Waiting BatchedReceive::take_slot(std::size_t index) {
  Slot taken;
  taken.state = State::kTaken;
  return {index, std::exchange(slots_[index], std::move(taken))};
}

bool BatchedReceive::recv(std::size_t index, Cancellation& cancellation, Done& done) {
  std::optional<Slot> arrived;
  Status status;
  {
    MutexLock lock(mu_);
    Slot& slot = slots_[index];
    if (alone_ || slot.state == State::kAwaited || slot.state == State::kTaken) return false;
    status = status_;
    if (status.ok() && slot.state == State::kArrived && !cancellation.cancelled()) {
      bytes_ -= slot.bytes;
      arrived = take_slot(index).slot;
    }
  }
  if (arrived || !status.ok()) {
    const bool dead = arrived && !arrived->value.has_value();
    done(status, arrived ? std::move(arrived->value) : Tensor(), dead);
    return true;
  }
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), index] { self->withdraw(index); });
  bool alone = false;
  {
    MutexLock lock(mu_);
    Slot& slot = slots_[index];
    status = status_;
    // A callback that came before this has found nobody.
    if (status.ok() && (token == 0 || cancellation.cancelled())) status = cancellation.status();
    alone = alone_;
    if (status.ok() && !alone && slot.state == State::kArrived) {
      bytes_ -= slot.bytes;
      arrived = take_slot(index).slot;
    } else if (status.ok() && !alone) {
      slot.state = State::kAwaited;
      slot.asker = &cancellation;
      slot.token = token;
      slot.done = std::move(done);
      return true;
    }
  }
  if (token != 0) cancellation.deregister(token);
  if (status.ok() && alone) return false;
  const bool dead = arrived && !arrived->value.has_value();
  done(status, arrived ? std::move(arrived->value) : Tensor(), dead);
  return true;
}

// Called by the asker's cancellation.
void BatchedReceive::withdraw(std::size_t index) {
  Waiting waiting;
  {
    MutexLock lock(mu_);
    if (slots_[index].state != State::kAwaited) return;
    waiting = take_slot(index);
  }
  waiting.slot.done(waiting.slot.asker->status(), {}, false);
}

Status BatchedReceive::error(const Status& status) const {
  // Why it was cancelled says more than that it was.
  if (cancellation_.cancelled()) return cancellation_.status();
  if (is_derived(status)) return status;
  return status.with_context(str_cat("RecvTensor from ", options_.source->task));
}

bool BatchedReceive::waits() const {
  MutexLock lock(mu_);
  return missing_ > 0 && status_.ok() && !alone_;
}

std::vector<BatchedReceive::Waiting> BatchedReceive::take_awaited() {
  std::vector<Waiting> waiting;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].state == State::kAwaited) waiting.push_back(take_slot(i));
  }
  return waiting;
}

// Before the first `done`, which may end the step and the askers' cancellation with it.
void BatchedReceive::let_go(const std::vector<Waiting>& waiting) {
  for (const Waiting& one : waiting) one.slot.asker->deregister(one.slot.token);
}

void BatchedReceive::fail(const Status& status) {
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mu_);
    status_.update(status);
    waiting = take_awaited();
  }
  let_go(waiting);
  for (Waiting& one : waiting) one.slot.done(status, {}, false);
}

void BatchedReceive::ask_each() {
  options_.source->plain.store(true, std::memory_order_relaxed);
  std::vector<Waiting> waiting;
  {
    MutexLock lock(mu_);
    alone_ = true;
    waiting = take_awaited();
  }
  let_go(waiting);
  for (Waiting& one : waiting) {
    options_.ask_alone(options_.source->keys[one.index], *one.slot.asker, std::move(one.slot.done));
  }
}

}  // namespace tutti::internal
