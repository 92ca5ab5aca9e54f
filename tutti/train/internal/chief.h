// The chief's side of the chief record: one chief at a time, and signs of its life.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/train/internal/chief_record.h"

namespace tutti {

class Coordinator;
struct Environment;

namespace internal {

// Whose values the variables of the cluster may hold.
enum class Predecessor {
  kNone,    // no chief was here, or it ended well: this is a new job
  kSelf,    // this chief, in an earlier session
  kDied,    // another one of this job, which ended without a word
  kFailed,  // another one of this job, which ended with an error
};

// One for each monitored session of a chief. claim and begin by one thread at a time; the rest is thread-safe.
class Chief {
 public:
  // `name`: for people. `lease`: how long a chief on another host may be silent before it is taken for dead.
  // `environment` outlives this.
  Chief(Graph& graph, const Environment& environment, std::string name, Duration lease);

  // Makes this the chief, in a new session and before any variable is looked at. Waits while it is not clear whether an
  // earlier chief still lives. Throws Error: kFailedPrecondition, with the name of a living chief; what the session
  // says.
  Predecessor claim(Session& session, const RunOptions& options);
  // The chief before this one, as it was last known; nothing after kNone and kSelf.
  const std::optional<ChiefState>& predecessor() const { return predecessor_; }
  // The global step as of the last beat of this chief or its predecessor; -1: not known.
  std::int64_t last_step() const { return last_step_; }

  // The variables have values: starts the thread that beats. When another chief has taken over, it stops the
  // coordinator with an error that names it, and closes the session.
  void begin(Session& session, Coordinator& coordinator);
  // The first that is called of these two counts. Errors are ignored: the session may be broken.
  void failed(Session& session, const Status& error);
  void ended(Session& session);

 private:
  bool is_alive(Session& session, const ChiefState& other, const RunOptions& options);
  bool beats(Session& session, const ChiefState& other, Duration silence, const RunOptions& options);
  // False: another chief has taken over.
  bool beat(Session& session, Coordinator& coordinator);
  void end_with(Session& session, ChiefState last);
  ChiefState state(ChiefState::Phase phase) const;

  const ChiefRecord record_;
  const std::string global_step_;
  const Environment& environment_;
  const Duration lease_;
  const ChiefState self_;
  std::optional<ChiefState> predecessor_;
  bool claimed_ = false;
  std::atomic<std::int64_t> last_step_{-1};  // relaxed: a number by itself

  Mutex writing_;  // so that a beat cannot overwrite the end
  std::int64_t beats_ TUTTI_GUARDED_BY(writing_) = 0;
  bool over_ TUTTI_GUARDED_BY(writing_) = false;
};

}  // namespace internal
}  // namespace tutti
