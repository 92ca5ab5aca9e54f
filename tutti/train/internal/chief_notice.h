// How the workers of a synchronous job hear that its chief has failed.
#pragma once

#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/status.h"
#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"

namespace tutti {

class Coordinator;

namespace internal {

// A text on the parameter server that has the global step, in a variable that no checkpoint knows: empty while there is
// a chief. What a worker finds there when it comes may be an earlier chief's, whose job is just being started again, or
// this one's, that has failed already: it gives the text some minutes to go. Made of TensorFlow's ops, for servers of
// any kind. Thread-safe once built.
class ChiefNotice {
 public:
  // Adds the nodes. Throws Error: kFailedPrecondition when the graph has no global step.
  void build(Graph& graph);

  // The chief's, once for each session: there is a chief. Throws what `options` and the session say.
  void prepare(Session& session, const RunOptions& options) const;
  // The chief `chief` (empty: nobody knows its name) ends with `error`. Errors are dropped: who cannot tell, cannot.
  void post(Session& session, const Clock& clock, const std::string& chief, const Status& error) const;

  // A worker's: starts a thread of `coordinator` that looks now and then. When there is news it stops the coordinator
  // with an error that names the chief and its error, and closes the session: whoever waits for the chief does so no
  // longer. `options`: of the first look, which throws what goes wrong.
  void watch(Session& session, Coordinator& coordinator, const RunOptions& options) const;

 private:
  // Empty: nobody has posted.
  Result<std::string> read(Session& session, const RunOptions& options) const;
  Status write(Session& session, const std::string& text, const RunOptions& options) const;

  std::string text_, write_, read_;  // names of nodes
};

}  // namespace internal
}  // namespace tutti
