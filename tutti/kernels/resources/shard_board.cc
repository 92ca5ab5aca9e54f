#include "tutti/kernels/resources/shard_board.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tutti/kernels/resources/internal/waiter.h"

namespace tutti {

namespace {

struct Nothing {};

constexpr std::chrono::hours kLongestLease{24 * 365};

}  // namespace

struct ShardBoard::NextWaiter : Waiter<ShardClaim> {
  std::string worker;
};

struct ShardBoard::AttendWaiter : Waiter<Nothing> {
  std::string worker;
  bool computes = false;  // it was not refused
};

struct ShardBoard::Finished {
  std::vector<std::shared_ptr<NextWaiter>> next;
  std::vector<std::shared_ptr<AttendWaiter>> attend;
};

ShardBoard::ShardBoard(ShardBoardOptions options)
    : options_(std::move(options)), shards_(static_cast<std::size_t>(options_.num_shards)) {}

ShardBoard::~ShardBoard() = default;

Result<std::shared_ptr<ShardBoard>> ShardBoard::create(ShardBoardOptions options) {
  if (options.num_shards < 1 || options.num_shards > ShardAccumulatorOptions::kMaxShards) {
    return invalid_argument("a step has 1 to ", ShardAccumulatorOptions::kMaxShards, " shards, not ",
                            options.num_shards);
  }
  if (options.lease <= Duration::zero() || options.lease > kLongestLease) {
    return invalid_argument("the lease of a shard must be positive and at most a year");
  }
  return std::shared_ptr<ShardBoard>(new ShardBoard(std::move(options)));
}

bool ShardBoard::holds_or_waits(const std::string& worker) const {
  return std::ranges::any_of(
             shards_, [&](const Shard& shard) { return shard.state == State::kOut && shard.worker == worker; }) ||
         std::ranges::any_of(waiters_, [&](const auto& waiter) { return waiter->worker == worker; });
}

std::string ShardBoard::holder_but(const std::string& worker) const {
  for (const Shard& shard : shards_) {
    if (shard.state == State::kOut && shard.worker != worker) return shard.worker;
  }
  return {};
}

std::string ShardBoard::attendant_but(const std::string& worker) const {
  for (const auto& waiter : waiters_) {
    if (waiter->worker != worker) return waiter->worker;
  }
  for (const auto& waiter : present_) {
    if (waiter->computes && waiter->worker != worker) return waiter->worker;
  }
  return {};
}

Status ShardBoard::agree_on_threads(const Asker& asker) {
  if (asker.threads != threads_) {
    const auto other_has = [&asker, threads = threads_](const std::string& other) {
      return str_cat("worker ", printable(asker.worker), " has ", asker.threads, " threads for one kernel, but ",
                     printable(other), " has ", threads,
                     ": their gradients would differ in their last bits. Strict replicas need the same number on all "
                     "workers (tutti run --threads, TUTTI_THREADS)");
    };
    if (const std::string holder = holder_but(asker.worker); !holder.empty()) {
      return failed_precondition(other_has(holder));
    }
    // One that holds nothing may be what is left of a process that died. To be tried again.
    if (const std::string other = attendant_but(asker.worker); !other.empty()) return aborted(other_has(other));
    // Its gradients may be there in part. A job that was started again, with another number, opens the step anew; its
    // workers may come before that, and try again.
    if (begun_) {
      return aborted("worker ", printable(asker.worker), " has ", asker.threads, " threads for one kernel, but step ",
                     step_, " was begun with ", threads_, " and has not been opened anew");
    }
    threads_ = asker.threads;
  }
  for (const auto& waiter : present_) waiter->computes |= waiter->worker == asker.worker;
  return {};
}

// Whoever came under this name before, with another number of threads, is gone.
void ShardBoard::forget(const std::string& worker) {
  give_back_locked(worker);
  for (const auto& waiter : present_) {
    if (waiter->worker == worker) waiter->computes = false;
  }
}

void ShardBoard::next(const Asker& asker, const ShardClaim& finished, Cancellation& cancellation, NextDone done) {
  const std::string& worker = asker.worker;
  if (worker.empty()) return done(invalid_argument("who asks for a shard must have a name"), {});
  if (asker.threads < 1) {
    return done(invalid_argument("worker ", printable(worker), " asks for a shard with ", asker.threads, " threads"),
                {});
  }
  const bool none = finished.step == -1 && finished.shard == -1;
  if (!none && (finished.shard < 0 || finished.shard >= options_.num_shards)) {
    return done(invalid_argument("board '", printable(options_.name), "' has no shard ", finished.shard, ", only ",
                                 options_.num_shards),
                {});
  }
  auto waiter = std::make_shared<NextWaiter>();
  waiter->worker = worker;
  waiter->done = std::move(done);
  waiter->cancellation = &cancellation;
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), waiter] { self->cancel_next(waiter); });
  Finished answered;
  {
    MutexLock lock(mu_);
    Status refused = waiter->came_too_late(token) ? cancelled("asking for a shard was cancelled") : ended();
    bool agrees = true;
    if (refused.ok()) {
      refused = agree_on_threads(asker);
      agrees = refused.ok();
      if (!agrees) forget(worker);
    }
    // Also who is cancelled, or late, has finished it.
    if (!none && finished.step == step_ && agrees) {
      shards_[static_cast<std::size_t>(finished.shard)] = {.state = State::kDone};
    }
    if (!refused.ok()) {
      waiter->finish(std::move(refused));
      answered.next.push_back(waiter);
    } else {
      waiter->phase = NextWaiter::Phase::kWaiting;
      waiters_.push_back(waiter);
    }
    serve(&answered);
  }
  answer(answered);
  watch_leases();
}

void ShardBoard::attend(const std::string& worker, Cancellation& cancellation, AttendDone done) {
  if (worker.empty()) return done(invalid_argument("who attends must have a name"));
  auto waiter = std::make_shared<AttendWaiter>();
  waiter->worker = worker;
  waiter->done = [done = std::move(done)](Status status, Nothing) { done(std::move(status)); };
  waiter->cancellation = &cancellation;
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), waiter] { self->cancel_attend(waiter); });
  Finished answered;
  {
    MutexLock lock(mu_);
    Status refused = waiter->came_too_late(token) ? cancelled("attending was cancelled") : ended();
    if (!refused.ok()) {
      waiter->finish(refused.code() == Code::kOutOfRange ? Status() : std::move(refused));
      answered.attend.push_back(waiter);
    } else {
      waiter->phase = AttendWaiter::Phase::kWaiting;
      waiter->computes = holds_or_waits(worker);
      present_.push_back(waiter);
    }
  }
  answer(answered);
}

ShardBoard::Shard* ShardBoard::find_for(const std::string& worker, TimePoint now) {
  Shard* open = nullptr;
  Shard* late = nullptr;
  for (Shard& shard : shards_) {
    if (shard.state == State::kOut && shard.worker == worker) return &shard;
    if (open == nullptr && shard.state == State::kOpen) open = &shard;
    if (late == nullptr && shard.state == State::kOut && options_.clock != nullptr && shard.lease_end <= now) {
      late = &shard;
    }
  }
  return open != nullptr ? open : late;
}

void ShardBoard::serve(Finished* finished) {
  if (step_ < 0) return;
  const TimePoint now = options_.clock != nullptr ? options_.clock->now() : TimePoint();
  for (auto it = waiters_.begin(); it != waiters_.end();) {
    NextWaiter& waiter = **it;
    Shard* shard = find_for(waiter.worker, now);
    if (shard == nullptr) {
      ++it;  // one behind it may get back what it holds
      continue;
    }
    *shard = {.state = State::kOut, .worker = waiter.worker, .lease_end = now + options_.lease};
    begun_ = true;
    waiter.answer = {.step = step_, .shard = shard - shards_.data()};
    waiter.finish({});
    finished->next.push_back(*it);
    it = waiters_.erase(it);
  }
}

// Only a worker that waits has use for a lease that ends; the timer is set when one does, for the first to end, and
// again after that. Not with the mutex held: a clock may wait for a callback that wants it.
void ShardBoard::watch_leases() {
  if (options_.clock == nullptr) return;
  TimePoint first = TimePoint::max();
  {
    MutexLock lock(mu_);
    if (watching_ || waiters_.empty()) return;
    for (const Shard& shard : shards_) {
      if (shard.state == State::kOut) first = std::min(first, shard.lease_end);
    }
    if (first == TimePoint::max()) return;
    watching_ = true;
  }
  options_.clock->call_at(first, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lease_ended();
  });
}

void ShardBoard::lease_ended() {
  Finished answered;
  {
    MutexLock lock(mu_);
    watching_ = false;
    serve(&answered);
  }
  answer(answered);
  watch_leases();
}

void ShardBoard::open(std::int64_t step) {
  Finished answered;
  {
    MutexLock lock(mu_);
    step_ = step;
    begun_ = false;
    closed_ = false;
    shards_.assign(shards_.size(), Shard());
    serve(&answered);
  }
  answer(answered);
  watch_leases();
}

void ShardBoard::give_back_locked(const std::string& worker) {
  for (Shard& shard : shards_) {
    if (shard.state == State::kOut && shard.worker == worker) shard = Shard();
  }
}

void ShardBoard::give_back(const std::string& worker) {
  Finished answered;
  {
    MutexLock lock(mu_);
    give_back_locked(worker);
    serve(&answered);
  }
  answer(answered);
}

void ShardBoard::cancel_next(const std::shared_ptr<NextWaiter>& waiter) {
  Finished answered;
  {
    MutexLock lock(mu_);
    if (!waiter->cancel()) return;
    waiter->finish(cancelled("asking for a shard was cancelled"));
    waiters_.remove(waiter);
    answered.next.push_back(waiter);
    serve(&answered);
  }
  answer(answered);
}

void ShardBoard::cancel_attend(const std::shared_ptr<AttendWaiter>& waiter) {
  Finished answered;
  {
    MutexLock lock(mu_);
    if (!waiter->cancel()) return;
    waiter->finish(cancelled("attending was cancelled"));
    present_.remove(waiter);
    answered.attend.push_back(waiter);
    give_back_locked(waiter->worker);
    serve(&answered);
  }
  answer(answered);
}

Status ShardBoard::ended() const {
  if (abandoned_) return aborted("board '", printable(options_.name), "' was reset or destroyed");
  if (closed_) return out_of_range("board '", printable(options_.name), "' is closed: training has ended");
  return {};
}

void ShardBoard::end_waiting(Finished* finished) {
  const Status status = ended();
  for (const auto& waiter : waiters_) {
    waiter->finish(status);
    finished->next.push_back(waiter);
  }
  waiters_.clear();
  for (const auto& waiter : present_) {
    waiter->finish(abandoned_ ? status : Status());
    finished->attend.push_back(waiter);
  }
  present_.clear();
}

void ShardBoard::close() {
  Finished answered;
  {
    MutexLock lock(mu_);
    closed_ = true;
    end_waiting(&answered);
  }
  answer(answered);
}

void ShardBoard::abandon() {
  Finished answered;
  {
    MutexLock lock(mu_);
    abandoned_ = true;
    end_waiting(&answered);
  }
  answer(answered);
}

void ShardBoard::answer(const Finished& finished) {
  answer_all(finished.next);
  answer_all(finished.attend);
}

std::int64_t ShardBoard::step() const {
  MutexLock lock(mu_);
  return step_;
}

std::int64_t ShardBoard::num_done() const {
  MutexLock lock(mu_);
  return std::count_if(shards_.begin(), shards_.end(), [](const Shard& s) { return s.state == State::kDone; });
}

std::string ShardBoard::debug_string() const {
  return str_cat("board '", printable(options_.name), "' of ", options_.num_shards, " shards");
}

}  // namespace tutti
