#include "tutti/distributed/internal/step_table.h"

#include <algorithm>

#include "tutti/distributed/derived_status.h"

namespace tutti::internal {

void Step::end(const Status& cause) {
  // In this order: what runs here reports the cause itself, and not what derives from it.
  cancellation_.cancel(cause);
  rendezvous_->abort(derived_from(task_, cause));
}

std::shared_ptr<AskedValues> Step::add_asked(const RecvTensorsRequest& first) {
  auto values = std::make_shared<AskedValues>(first.rendezvous_keys.size(), limit_bytes_, first.unhurried);
  MutexLock lock(mu_);
  asked_.emplace_back(first.request_id, values);
  return values;
}

std::shared_ptr<AskedValues> Step::find_asked(std::int64_t first_request) const {
  MutexLock lock(mu_);
  const auto found =
      std::find_if(asked_.begin(), asked_.end(), [=](const auto& one) { return one.first == first_request; });
  return found == asked_.end() ? nullptr : found->second;
}

bool Step::claim(const void* session) {
  MutexLock lock(mu_);
  if (session_ != nullptr) return false;
  session_ = session;
  return true;
}

const void* Step::session() const {
  MutexLock lock(mu_);
  return session_;
}

void Step::run_ended(Status status) {
  std::vector<Ended> waiting;
  {
    MutexLock lock(mu_);
    run_ended_ = true;
    run_status_ = status;
    waiting.swap(waiting_);
  }
  if (!status.ok()) rendezvous_->abort(derived_from(task_, status));
  for (Ended& ended : waiting) ended(status);
}

void Step::when_run_ended(Ended ended) {
  Status status;
  {
    MutexLock lock(mu_);
    if (!run_ended_) {
      waiting_.push_back(std::move(ended));
      return;
    }
    status = run_status_;
  }
  ended(std::move(status));
}

Status Step::run_status() const {
  MutexLock lock(mu_);
  return run_status_;
}

Result<std::shared_ptr<Step>> StepTable::find_or_begin(std::int64_t id) {
  MutexLock lock(mu_);
  if (!stopped_.ok()) return stopped_;
  auto it = steps_.find(id);
  if (it != steps_.end()) return it->second;
  forget_old();
  if (ended_ids_.contains(id)) return make_derived(aborted("step ", id, " has ended in ", options_.task));
  auto step = std::make_shared<Step>(StepRendezvous::Options{.step_id = id,
                                                             .task = options_.task,
                                                             .peers = options_.peers,
                                                             .request_ids = options_.request_ids,
                                                             .limit_bytes = options_.step_bytes});
  steps_.emplace(id, step);
  return step;
}

std::shared_ptr<Step> StepTable::find(std::int64_t id) const {
  MutexLock lock(mu_);
  const auto found = steps_.find(id);
  return found == steps_.end() ? nullptr : found->second;
}

void StepTable::forget_old() {
  const TimePoint now = options_.clock->now();
  while (!ended_.empty() && (ended_.front().forget_at <= now || ended_.size() >= kMaxRemembered)) {
    ended_ids_.erase(ended_.front().id);
    ended_.pop_front();
  }
}

void StepTable::remember(std::int64_t id) {
  forget_old();
  if (ended_ids_.insert(id).second) ended_.push_back({id, options_.clock->now() + options_.remembered});
}

void StepTable::end(std::int64_t id, const Status& cause) {
  StepPtr step;
  {
    MutexLock lock(mu_);
    auto it = steps_.find(id);
    if (it != steps_.end()) {
      step = std::move(it->second);
      steps_.erase(it);
    }
    remember(id);
  }
  if (step) step->end(cause);
}

void StepTable::end_where(const std::function<bool(Step&)>& condition, const Status& cause) {
  std::vector<StepPtr> ended;
  {
    MutexLock lock(mu_);
    for (auto it = steps_.begin(); it != steps_.end();) {
      if (!condition(*it->second)) {
        ++it;
        continue;
      }
      remember(it->first);
      ended.push_back(std::move(it->second));
      it = steps_.erase(it);
    }
  }
  for (const StepPtr& step : ended) step->end(cause);
}

void StepTable::end_all_of(const void* session, const Status& cause) {
  end_where([session](Step& step) { return step.session() == session; }, cause);
}

void StepTable::end_all_waiting_for(std::string_view task, std::uint64_t but_incarnation, const Status& cause) {
  end_where([=](Step& step) { return step.rendezvous().waits_for(task, but_incarnation); }, cause);
}

void StepTable::abandon(std::int64_t id) {
  StepPtr step;
  {
    MutexLock lock(mu_);
    auto it = steps_.find(id);
    if (it == steps_.end()) return;
    step = it->second;
  }
  const Status cause = make_derived(
      aborted("step ", id, " was given up: a task that waited for its values in ", options_.task, " waits no longer"));
  // What runs here may have been asked for by a master that still cares: it ends the step when it has heard of it.
  if (step->session() == nullptr) return end(id, cause);
  step->rendezvous().abort(cause);
}

void StepTable::stop(const Status& cause) {
  {
    MutexLock lock(mu_);
    stopped_.update(cause);
  }
  end_where([](Step&) { return true; }, cause);
}

std::size_t StepTable::size() const {
  MutexLock lock(mu_);
  return steps_.size();
}

}  // namespace tutti::internal
