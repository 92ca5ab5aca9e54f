// The chief's side of the chief record: one chief at a time, and signs of its life.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/train/internal/chief_record.h"

namespace tutti {

class Coordinator;
struct Environment;

namespace internal {

// Whether the values of the cluster's variables are this job's.
enum class Predecessor {
  kNone,    // no: there was no chief, it ended well, it had another model, or it was replacing values when it died
  kSelf,    // this chief had them in an earlier session
  kDied,    // a chief of this job had them, which ended without a word or was told to
  kFailed,  // a chief of this job had them, and ended with an error
};

struct ChiefOptions {
  std::string name;            // for people
  std::string checkpoint_dir;  // tells jobs apart, as the variables do
  Duration lease{0};           // how long a chief on another host may be silent before it is taken for dead
};

// One for each monitored session of a chief. claim, replacing and begin by one thread at a time; the rest is
// thread-safe.
class Chief {
 public:
  // `environment` outlives this.
  Chief(Graph& graph, const Environment& environment, ChiefOptions options);

  // Makes this the chief, in a new session and before any variable is looked at. Waits while it is not clear whether an
  // earlier chief still lives. Throws Error: kFailedPrecondition, with the name of a living chief; what the session
  // says.
  Predecessor claim(Session& session, const RunOptions& options);
  // The chief before this one, as it was last known; nothing after kNone and kSelf.
  const std::optional<ChiefState>& predecessor() const { return predecessor_; }
  // The global step as of the last beat of this chief or its predecessor; -1: not known.
  std::int64_t last_step() const { return last_step_; }
  // From now until begin() the variables may have any value. Throws what the session says.
  void replacing(Session& session, const RunOptions& options);

  // Beats from claim() to begin(): a large model takes long to restore. Ends before the session.
  class Preparing {
   public:
    Preparing(Chief& chief, Session& session);
    ~Preparing();
    Preparing(const Preparing&) = delete;
    Preparing& operator=(const Preparing&) = delete;

   private:
    void run(Chief& chief, Session& session);

    Cancellation stop_;
    Mutex mu_;
    CondVar stopped_;
    bool stopping_ TUTTI_GUARDED_BY(mu_) = false;
    std::thread thread_;  // last: uses the others
  };

  // The variables have values: starts the thread that beats. When another chief has taken over, it stops the
  // coordinator with an error that names it, and closes the session.
  void begin(Session& session, Coordinator& coordinator);
  // The first that is called of these two counts. Errors are ignored: the session may be broken.
  void failed(Session& session, const Status& error);
  void ended(Session& session);

 private:
  bool is_alive(Session& session, const ChiefState& other, const RunOptions& options);
  bool beats(Session& session, const ChiefState& other, Duration silence, const RunOptions& options);
  // The name of the chief that has taken over; nothing: this is the chief.
  std::optional<std::string> beat(Session& session, Cancellation& cancellation);
  void end_with(Session& session, ChiefState last);
  ChiefState state(ChiefState::Phase phase) const;

  const ChiefRecord record_;
  const Environment& environment_;
  const Duration lease_;
  const ChiefState self_;
  std::optional<ChiefState> predecessor_;
  bool values_whole_ = false;                // since begin(), until replacing()
  std::atomic<std::int64_t> last_step_{-1};  // relaxed: a number by itself

  Cancellation beating_;  // ended by the end
  Mutex writing_;         // so that a beat cannot overwrite the end
  ChiefState::Phase phase_ TUTTI_GUARDED_BY(writing_) = ChiefState::Phase::kPreparing;
  std::int64_t beats_ TUTTI_GUARDED_BY(writing_) = 0;
  int foreign_beats_ TUTTI_GUARDED_BY(writing_) = 0;  // how often in a row another chief's record was there
  bool over_ TUTTI_GUARDED_BY(writing_) = false;
};

}  // namespace internal
}  // namespace tutti
