// How the workers of a synchronous job hear that its chief has failed.
#pragma once

#include <optional>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/core/status.h"
#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"

namespace tutti {

class Coordinator;

namespace internal {

// A text on the parameter server that has the global step, in a variable that no checkpoint knows. Workers compare it
// with what stood there when they came: what an earlier chief has left is no news to them, so that a job can be started
// again. Made of TensorFlow's ops, for servers of any kind. Thread-safe once built.
class ChiefNotice {
 public:
  // Adds the nodes. Throws Error: kFailedPrecondition when the graph has no global step.
  void build(Graph& graph);

  // The chief's, once for each session: from now on workers find something to read.
  void prepare(Session& session) const;
  // The chief `chief` (empty: nobody knows its name) ends with `error`. Errors are dropped: who cannot tell, cannot.
  void post(Session& session, const Clock& clock, const std::string& chief, const Status& error) const;

  // A worker's: starts a thread of `coordinator` that looks now and then. When there is news it stops the coordinator
  // with an error that names the chief and its error, and closes the session: whoever waits for the chief does so no
  // longer.
  void watch(Session& session, Coordinator& coordinator) const;

 private:
  // Nothing when it cannot be read; empty: nobody has posted.
  std::optional<std::string> read(Session& session) const;
  void write(Session& session, const std::string& text) const;

  std::string text_, write_, read_;  // names of nodes
};

}  // namespace internal
}  // namespace tutti
