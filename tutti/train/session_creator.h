// Who makes the sessions of a monitored session: the first one, and another each time that one is lost.
#pragma once

#include <memory>
#include <string>

#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"
#include "tutti/train/environment.h"
#include "tutti/train/scaffold.h"
#include "tutti/train/session_settings.h"

namespace tutti {

class Coordinator;
class SessionManager;

namespace internal {
class Chief;
class ChiefRecord;
}  // namespace internal

// One thread at a time.
class SessionCreator {
 public:
  virtual ~SessionCreator() = default;
  // A session that is ready for steps. Throws Error; kAborted and kUnavailable when trying again may help.
  virtual std::unique_ptr<Session> create_session() = 0;
  // Starts what lives as long as the session, before its queue runners and hooks.
  virtual void begin(Session& /*session*/, Coordinator& /*coordinator*/) {}
  // The job has ended with an error, or well. The session still stands, but may be broken: errors are not reported.
  virtual void failed(Session& /*session*/, const Status& /*error*/) {}
  virtual void ended(Session& /*session*/) {}
  // Whether one that is made after a loss goes on with what there was: it restores a checkpoint, or initialises
  // nothing.
  virtual bool keeps_state() const { return false; }
  virtual Graph& graph() = 0;
  virtual const Environment& environment() = 0;
};

struct SessionCreatorOptions {
  // Made complete with the first session. Shared with hooks that save and summarise.
  std::shared_ptr<Scaffold> scaffold = std::make_shared<Scaffold>();
  std::string master = "";  // "" for the own machine, or "grpc://host:port"
  SessionSettings config = {};
  double max_wait_secs = 7200;  // for the cluster, and for a chief's work
  // A chief's: where to restore from. At most one of them.
  std::string checkpoint_dir = "";
  std::string checkpoint_path = "";
  // As MonitoredTrainingSessionOptions has them.
  bool fall_back_to_older_checkpoint = true;
  bool keep_values = true;
  bool fail_on_lost_values = false;
  std::optional<double> recovery_wait_secs = std::nullopt;  // as SessionManagerOptions has it
  Environment environment = {};
};

// What both have in common.
class ScaffoldSessionCreator : public SessionCreator {
 public:
  ScaffoldSessionCreator(Graph& graph, SessionCreatorOptions options);
  ~ScaffoldSessionCreator() override;
  Graph& graph() override { return graph_; }
  const Environment& environment() override { return options_.environment; }

 protected:
  const SessionCreatorOptions& options() const { return options_; }
  // Closes the scaffold; the manager over it.
  SessionManager& manager();
  // Whether sessions of other tasks may meet this one's variables.
  bool is_on_cluster() const;

 private:
  Graph& graph_;
  const SessionCreatorOptions options_;
  std::unique_ptr<SessionManager> manager_;
};

// Restores the newest checkpoint, or initialises. On a cluster, in a job with a global step, values that the variables
// have from this job already are kept (docs/design/0011), and a second chief is refused with kFailedPrecondition.
class ChiefSessionCreator : public ScaffoldSessionCreator {
 public:
  ChiefSessionCreator(Graph& graph, SessionCreatorOptions options);
  ~ChiefSessionCreator() override;
  std::unique_ptr<Session> create_session() override;
  void begin(Session& session, Coordinator& coordinator) override;
  void failed(Session& session, const Status& error) override;
  void ended(Session& session) override;
  bool keeps_state() const override { return !options().checkpoint_dir.empty(); }

 private:
  std::unique_ptr<internal::Chief> chief_;  // null: no other task could meet it
};

// Waits for the chief to have done that.
class WorkerSessionCreator : public ScaffoldSessionCreator {
 public:
  using ScaffoldSessionCreator::ScaffoldSessionCreator;
  std::unique_ptr<Session> create_session() override;
  bool keeps_state() const override { return true; }
};

}  // namespace tutti
