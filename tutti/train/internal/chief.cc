#include "tutti/train/internal/chief.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "tutti/core/process_identity.h"
#include "tutti/core/strings.h"
#include "tutti/ops/state.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/environment.h"

namespace tutti::internal {
namespace {

// Seldom enough to cost nothing beside training.
constexpr std::chrono::seconds kBetweenBeats{1};
// A chief of this very process that lives beats on time.
constexpr std::chrono::seconds kSilenceInProcess{3};
// A slower read of the record means that the parameter server stood still, so that no chief could beat meanwhile.
constexpr std::chrono::seconds kTimelyRead{1};
// Another chief's record may be a late message of one that is no longer there: it must be seen twice.
constexpr int kForeignBeats = 2;

std::string random_id() {
  std::random_device random;
  return str_cat(random(), "-", random());
}

// Jobs with other variables, or that save elsewhere, are other jobs.
std::string fingerprint(Graph& graph, const std::string& checkpoint_dir) {
  std::vector<std::string> parts = {checkpoint_dir};
  for (const Var& variable : global_variables(graph)) {
    parts.push_back(str_cat(variable.name(), " ", dtype_name(variable.dtype()), " ", variable.shape()));
  }
  std::sort(parts.begin() + 1, parts.end());
  return str_cat(std::hash<std::string>()(str_join(parts, "\n")));
}

}  // namespace

Chief::Chief(Graph& graph, const Environment& environment, ChiefOptions options)
    : record_(graph),
      environment_(environment),
      lease_(options.lease),
      self_{.id = random_id(),
            .name = std::move(options.name),
            .process = process_identity(),
            .model = fingerprint(graph, options.checkpoint_dir)} {}

ChiefState Chief::state(ChiefState::Phase phase) const {
  ChiefState state = self_;
  state.step = last_step();
  state.phase = phase;
  return state;
}

Predecessor Chief::claim(Session& session, const RunOptions& options) {
  using Phase = ChiefState::Phase;
  predecessor_.reset();
  const std::optional<ChiefState> known = record_.read(session, options).value_or_throw();
  Predecessor before = values_whole_ ? Predecessor::kSelf : Predecessor::kNone;
  if (known && known->id != self_.id && known->phase != Phase::kEnded) {
    const bool over = known->phase == Phase::kFailed || known->phase == Phase::kStopped;
    if (!over && is_alive(session, *known, options)) {
      throw_error(failed_precondition("This job has a chief already: ", known->name,
                                      ". Of all tasks one may have is_chief = true"));
    }
    const bool has_values = known->model == self_.model && known->phase != Phase::kReplacing && known->step >= 0;
    before = Predecessor::kNone;
    if (has_values) {
      before = known->phase == Phase::kFailed ? Predecessor::kFailed : Predecessor::kDied;
      predecessor_ = known;
      last_step_ = known->step;
    }
  }
  MutexLock lock(writing_);
  over_ = false;
  foreign_beats_ = 0;
  const bool good = before == Predecessor::kSelf || before == Predecessor::kDied;
  phase_ = good ? Phase::kPreparing : Phase::kReplacing;
  throw_if_error(record_.write(session, state(phase_), options));
  return before;
}

void Chief::replacing(Session& session, const RunOptions& options) {
  values_whole_ = false;
  MutexLock lock(writing_);
  phase_ = ChiefState::Phase::kReplacing;
  throw_if_error(record_.write(session, state(phase_), options));
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
  const Clock& clock = *environment_.clock;
  TimePoint end = clock.now() + silence;
  while (clock.now() < end) {
    environment_.wait(std::min<Duration>(kBetweenBeats, end - clock.now()));
    const TimePoint asked = clock.now();
    const std::optional<ChiefState> now = record_.read(session, options).value_or_throw();
    if (clock.now() - asked > kTimelyRead) end = clock.now() + silence;
    if (!now || now->phase == ChiefState::Phase::kEnded || now->phase == ChiefState::Phase::kFailed) return false;
    if (now->id != other.id || now->beat != other.beat) return true;
  }
  return false;
}

Chief::Preparing::Preparing(Chief& chief, Session& session)
    : thread_([this, &chief, &session] { run(chief, session); }) {}

void Chief::Preparing::run(Chief& chief, Session& session) {
  while (true) {
    {
      MutexLock lock(mu_);
      const auto deadline = std::chrono::steady_clock::now() + kBetweenBeats;
      while (!stopping_ && stopped_.wait_until(mu_, deadline)) {
      }
      if (stopping_) return;
    }
    static_cast<void>(chief.beat(session, stop_));
  }
}

Chief::Preparing::~Preparing() {
  stop_.cancel(cancelled("the variables are there"));
  {
    MutexLock lock(mu_);
    stopping_ = true;
    stopped_.notify_all();
  }
  thread_.join();
}

void Chief::begin(Session& session, Coordinator& coordinator) {
  values_whole_ = true;
  {
    MutexLock lock(writing_);
    phase_ = ChiefState::Phase::kTraining;
  }
  // At once, so that those who wait hear of it.
  static_cast<void>(beat(session, beating_));
  coordinator.start_thread("Chief", [this, &session, &coordinator] {
    while (!coordinator.wait_for_stop(kBetweenBeats)) {
      const std::optional<std::string> successor = beat(session, beating_);
      if (!successor) continue;
      coordinator.request_stop(failed_precondition("Another chief has taken over this job: ", *successor));
      static_cast<void>(session.close());
      return;
    }
  });
}

std::optional<std::string> Chief::beat(Session& session, Cancellation& cancellation) {
  RunOptions options = chief_record_options();
  options.cancellation = &cancellation;
  MutexLock lock(writing_);
  if (over_) return std::nullopt;
  const Result<std::optional<ChiefState>> known = record_.read(session, options);
  if (!known.ok() || !*known) return std::nullopt;  // the job's own steps meet with that
  std::optional<ChiefState> there = *known;
  if (there->id == self_.id) {
    ChiefState now = state(phase_);
    now.beat = ++beats_;
    std::int64_t step = -1;
    const Result<std::optional<ChiefState>> before = record_.exchange(session, now, &step, options);
    if (!before.ok()) return std::nullopt;
    if (phase_ == ChiefState::Phase::kTraining) last_step_.store(step, std::memory_order_relaxed);
    there = *before;
    // This process stood still between the two, and another chief has come.
    if (there && there->id != self_.id) static_cast<void>(record_.write(session, *there, options));
  }
  if (!there || there->id == self_.id) {
    foreign_beats_ = 0;
    return std::nullopt;
  }
  if (++foreign_beats_ < kForeignBeats) return std::nullopt;
  return there->name;
}

void Chief::failed(Session& session, const Status& error) {
  using Phase = ChiefState::Phase;
  ChiefState last = state(error.code() == Code::kCancelled ? Phase::kStopped : Phase::kFailed);
  last.error = error.to_string();
  end_with(session, std::move(last));
}

void Chief::ended(Session& session) { end_with(session, state(ChiefState::Phase::kEnded)); }

void Chief::end_with(Session& session, ChiefState last) {
  beating_.cancel(cancelled("the chief ends"));
  MutexLock lock(writing_);
  if (std::exchange(over_, true)) return;
  const Result<std::optional<ChiefState>> known = record_.read(session, chief_record_options());
  const bool is_own = known.ok() && *known && (*known)->id == self_.id;
  if (!is_own) return;
  last.beat = beats_;
  static_cast<void>(record_.write(session, last, chief_record_options()));
}

}  // namespace tutti::internal
