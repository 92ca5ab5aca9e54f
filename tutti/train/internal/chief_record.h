// What a job's tasks know of its chief: a text on the parameter server that has the global step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"

namespace tutti::internal {

struct ChiefState {
  enum class Phase {
    kPreparing,  // has looked at no variable yet
    kReplacing,  // initialises or restores: variables may have any value
    kTraining,
    kFailed,   // ended with `error`, which may come of the values
    kStopped,  // was told to end: `error` says nothing of the values
    kEnded,    // ended well
  };
  std::string id;       // of the chief's monitored session, which may make several sessions
  std::string name;     // for people
  std::string process;  // process_identity() of the chief
  std::string model;    // of the variables and the checkpoint directory: those of another job differ
  std::int64_t beat = 0;
  Phase phase = Phase::kPreparing;
  std::int64_t step = -1;  // the global step at the last beat; -1: not known
  std::string error;

  bool operator==(const ChiefState&) const = default;
};

std::string encode(const ChiefState& state);
// Nothing for a text that no chief of this version wrote.
std::optional<ChiefState> decode_chief_state(std::string_view text);

// The variable, which is in no collection and so in no checkpoint. It is made of TensorFlow's ops, for servers of any
// kind. Immutable; thread-safe.
class ChiefRecord {
 public:
  // Finds the nodes in `graph`, or adds them. Throws Error: kFailedPrecondition when the graph has no global step.
  explicit ChiefRecord(Graph& graph);

  // Nothing: no chief has been there since the parameter server was started.
  Result<std::optional<ChiefState>> read(Session& session, const RunOptions& options) const;
  Status write(Session& session, const ChiefState& state, const RunOptions& options) const;
  // As write, in one step with a read before it. Returns what was there and, in `step`, the global step. An error when
  // there was nothing.
  Result<std::optional<ChiefState>> exchange(Session& session, const ChiefState& state, std::int64_t* step,
                                             const RunOptions& options) const;

 private:
  std::string step_;  // a name of a node's output
};

// For reading or writing the record beside the job's steps.
RunOptions chief_record_options();

}  // namespace tutti::internal
