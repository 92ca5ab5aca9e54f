#include "tutti/train/internal/chief.h"

#include <chrono>
#include <random>
#include <utility>

#include "tutti/core/process_identity.h"
#include "tutti/core/strings.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/environment.h"
#include "tutti/train/global_step.h"

namespace tutti::internal {
namespace {

// Seldom enough to cost nothing beside training.
constexpr std::chrono::seconds kBetweenBeats{1};
// A chief of this very process that lives beats on time.
constexpr std::chrono::seconds kSilenceInProcess{3};

std::string random_id() {
  std::random_device random;
  return str_cat(random(), "-", random());
}

}  // namespace

Chief::Chief(Graph& graph, const Environment& environment, std::string name, Duration lease)
    : record_(graph),
      global_step_(get_global_step(graph)->read().name()),
      environment_(environment),
      lease_(lease),
      self_{.id = random_id(), .name = std::move(name), .process = process_identity()} {}

ChiefState Chief::state(ChiefState::Phase phase) const {
  ChiefState state = self_;
  state.step = last_step();
  state.phase = phase;
  return state;
}

Predecessor Chief::claim(Session& session, const RunOptions& options) {
  const std::optional<ChiefState> known = record_.read(session, options).value_or_throw();
  Predecessor before = claimed_ ? Predecessor::kSelf : Predecessor::kNone;
  if (known && known->id != self_.id && known->phase != ChiefState::Phase::kEnded) {
    const bool failed = known->phase == ChiefState::Phase::kFailed;
    if (!failed && is_alive(session, *known, options)) {
      throw_error(failed_precondition("This job has a chief already: ", known->name,
                                      ". Of all tasks one may have is_chief = true"));
    }
    before = failed ? Predecessor::kFailed : Predecessor::kDied;
    predecessor_ = known;
    last_step_ = known->step;
  }
  throw_if_error(record_.write(session, state(ChiefState::Phase::kPreparing), options));
  claimed_ = true;
  MutexLock lock(writing_);
  over_ = false;
  return before;
}

bool Chief::is_alive(Session& session, const ChiefState& other, const RunOptions& options) {
  if (other.process == self_.process) return beats(session, other, kSilenceInProcess, options);
  switch (process_life(other.process)) {
    case ProcessLife::kLives:
      return true;
    case ProcessLife::kGone:
      return false;
    case ProcessLife::kElsewhere:
      break;
  }
  return beats(session, other, lease_, options);
}

bool Chief::beats(Session& session, const ChiefState& other, Duration silence, const RunOptions& options) {
  const auto whole_seconds = std::chrono::ceil<std::chrono::seconds>(silence).count();
  environment_.say(str_cat("Another chief was here: ", other.name, ". Waiting for up to ", whole_seconds,
                           " s to see whether it lives."));
  const TimePoint end = environment_.clock->now() + silence;
  while (environment_.clock->now() < end) {
    environment_.wait(std::min<Duration>(kBetweenBeats, end - environment_.clock->now()));
    const std::optional<ChiefState> now = record_.read(session, options).value_or_throw();
    if (!now || now->phase == ChiefState::Phase::kEnded || now->phase == ChiefState::Phase::kFailed) return false;
    if (now->id != other.id || now->beat != other.beat) return true;
  }
  return false;
}

void Chief::begin(Session& session, Coordinator& coordinator) {
  // At once, so that those who wait hear of it.
  if (!beat(session, coordinator)) return;
  coordinator.start_thread("Chief", [this, &session, &coordinator] {
    while (!coordinator.wait_for_stop(kBetweenBeats)) {
      if (!beat(session, coordinator)) return;
    }
  });
}

bool Chief::beat(Session& session, Coordinator& coordinator) {
  MutexLock lock(writing_);
  if (over_) return false;
  const Result<std::optional<ChiefState>> known = record_.read(session, chief_record_options());
  if (!known.ok()) return true;  // the job's own steps meet with that
  if (*known && (*known)->id != self_.id) {
    coordinator.request_stop(failed_precondition("Another chief has taken over this job: ", (*known)->name));
    static_cast<void>(session.close());
    return false;
  }
  const Result<std::vector<Tensor>> step = session.try_run({}, {global_step_}, {}, chief_record_options());
  if (step.ok()) last_step_.store(step_value((*step)[0]), std::memory_order_relaxed);
  ChiefState now = state(ChiefState::Phase::kTraining);
  now.beat = ++beats_;
  static_cast<void>(record_.write(session, now, chief_record_options()));
  return true;
}

void Chief::failed(Session& session, const Status& error) {
  ChiefState last = state(ChiefState::Phase::kFailed);
  last.error = error.to_string();
  end_with(session, std::move(last));
}

void Chief::ended(Session& session) { end_with(session, state(ChiefState::Phase::kEnded)); }

void Chief::end_with(Session& session, ChiefState last) {
  MutexLock lock(writing_);
  if (std::exchange(over_, true)) return;
  const Result<std::optional<ChiefState>> known = record_.read(session, chief_record_options());
  const bool is_own = known.ok() && *known && (*known)->id == self_.id;
  if (!is_own) return;
  last.beat = beats_;
  static_cast<void>(record_.write(session, last, chief_record_options()));
}

}  // namespace tutti::internal
