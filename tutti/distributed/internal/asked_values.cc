#include "tutti/distributed/internal/asked_values.h"

#include <iterator>
#include <utility>

#include "tutti/runtime/held_work.h"
#include "tutti/runtime/local_rendezvous.h"

namespace tutti::internal {
namespace {

// Of more it is worth a message of its own that the reader has it early.
constexpr std::size_t kMostHeldToEnd = std::size_t{64} << 10;

}  // namespace

AskedValues::AskedValues(std::size_t count, std::size_t limit_bytes, const std::vector<std::int64_t>& unhurried,
                         std::size_t answer_bytes)
    : limit_bytes_(limit_bytes), answer_bytes_(answer_bytes), unhurried_(count, false), missing_(count) {
  for (const std::int64_t index : unhurried) {
    if (index >= 0 && static_cast<std::size_t>(index) < count) unhurried_[static_cast<std::size_t>(index)] = true;
  }
}

void AskedValues::ask(Cancellation& caller, Done done) {
  Request request{&caller, 0, std::move(done)};
  request.token = caller.register_callback([self = shared_from_this()] { self->withdraw(); });
  if (request.token == 0) return request.done(caller.status());
  std::optional<Answer> answer;
  {
    MutexLock lock(mu_);
    if (request_) {
      answer = Answer{std::move(request), aborted("the values are being asked for already")};
    } else {
      request_ = std::move(request);
      // A cancellation that came before the request was entered has found nothing.
      if (caller.cancelled()) {
        answer = Answer{*std::exchange(request_, std::nullopt), caller.status()};
      } else if (held_ != Hold::kToEnd) {
        answer = take_answer();
      }
    }
  }
  give(std::move(answer));
}

AskedValues::Hold AskedValues::hold_for(std::size_t index) const {
  // The last ones wait for nothing.
  if (!status_.ok() || missing_ == 0) return Hold::kNot;
  return unhurried_[index] && ready_bytes_ < kMostHeldToEnd ? Hold::kToEnd : Hold::kBriefly;
}

void AskedValues::add(std::size_t index, const Status& status, Tensor value) {
  const std::size_t bytes = held_bytes(value);
  Hold hold = Hold::kNot;
  {
    MutexLock lock(mu_);
    --missing_;
    if (!status.ok()) {
      status_.update(status);
    } else {
      ready_bytes_ += bytes;
      ready_.values.push_back({static_cast<std::int64_t>(index), std::move(value)});
      if (ready_bytes_ > limit_bytes_) {
        status_.update(resource_exhausted(ready_.values.size(), " values with ", ready_bytes_,
                                          " bytes wait to be asked for, more than the limit of ", limit_bytes_,
                                          " (--max-step-bytes)"));
      }
    }
    hold = hold_for(index);
    // One that is to come earlier takes this along.
    if (hold == held_ && hold != Hold::kNot) return;
    if (hold == Hold::kToEnd && held_ == Hold::kBriefly) return;
    held_ = hold;
  }
  const auto later = [self = shared_from_this()] { self->flush(); };
  if (hold == Hold::kBriefly && HeldWork::hold(later)) return;
  if (hold == Hold::kToEnd && HeldWork::hold_to_end(later)) return;
  flush();
}

std::optional<AskedValues::Answer> AskedValues::take_answer() {
  if (!request_ || (status_.ok() && ready_.values.empty())) return std::nullopt;
  Request request = *std::exchange(request_, std::nullopt);
  if (!status_.ok()) return Answer{std::move(request), status_};
  return Answer{std::move(request), take_ready()};
}

// The first of them that fit into one answer. REQUIRES: some are ready.
RecvTensorsReply AskedValues::take_ready() {
  if (ready_bytes_ <= answer_bytes_) {
    ready_bytes_ = 0;
    return std::exchange(ready_, {});
  }
  auto end = ready_.values.begin();
  std::size_t bytes = held_bytes(end->tensor);
  while (++end != ready_.values.end() && bytes + held_bytes(end->tensor) <= answer_bytes_) {
    bytes += held_bytes(end->tensor);
  }
  RecvTensorsReply taken;
  taken.values.assign(std::move_iterator(ready_.values.begin()), std::move_iterator(end));
  ready_.values.erase(ready_.values.begin(), end);
  ready_bytes_ -= bytes;
  return taken;
}

void AskedValues::give(std::optional<Answer> answer) {
  if (!answer) return;
  // Before `done`, with which the caller's cancellation may end.
  answer->request.caller->deregister(answer->request.token);
  answer->request.done(std::move(answer->reply));
}

void AskedValues::flush() {
  std::optional<Answer> answer;
  {
    MutexLock lock(mu_);
    held_ = Hold::kNot;
    answer = take_answer();
  }
  give(std::move(answer));
}

// Called by the caller's cancellation.
void AskedValues::withdraw() {
  std::optional<Request> request;
  {
    MutexLock lock(mu_);
    request = std::exchange(request_, std::nullopt);
  }
  if (!request) return;
  const Status cause = request->caller->status();
  request->done(cause);
  cancellation_.cancel(cause);
}

}  // namespace tutti::internal
