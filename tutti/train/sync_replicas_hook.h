// Keeps synchronous replicas going in a monitored session.
#pragma once

#include <memory>
#include <string>

#include "tutti/optim/replica_sync.h"
#include "tutti/train/hooks.h"

namespace tutti {

namespace internal {
class ChiefRecord;
}

// For SyncReplicas and StrictReplicas. On every new session: checks that global variables have values, initialises this
// worker's step, and where the replicas have one starts its presence; on the chief moreover puts the first tokens and
// starts the thread that applies gradients. That thread ends with the session; when training ends, too: hooks that end
// after this one find variables that nobody changes any more, and the workers that wait are told with kOutOfRange.
// (TensorFlow's chief tells them also when it only recovers, and waits for the thread until its grace period is over.)
// When the chief fails, their steps end with kCancelled within seconds, naming the chief and its error. (TensorFlow's
// workers see the end of training then.) A worker that comes after that ends so within half a minute, unless a chief
// has come by then: jobs are started again. One that comes after the end of training has a session that should stop at
// once.
class SyncReplicasHook : public SessionRunHook {
 public:
  // `sync` must outlive begin(). `num_tokens`: as ReplicaSync::init_tokens has it.
  SyncReplicasHook(ReplicaSync& sync, bool is_chief, int num_tokens = -1);

  // Throws Error: kFailedPrecondition when apply_gradients was not called, kInvalidArgument for too few tokens.
  void begin(HookContext& context) override;
  // Throws Error: kFailedPrecondition that names the variables without a value.
  void after_create_session(Session& session, Coordinator& coordinator) override;
  void end(Session& session) override;

 private:
  class Applying;
  void start_applying(Session& session, Coordinator& coordinator);
  void watch_chief(Session& session, Coordinator& coordinator, const RunOptions& options);

  ReplicaSync& sync_;
  const bool is_chief_;
  const int num_tokens_;
  // Names of nodes, from begin() on. Empty: there is none.
  std::string ready_;
  std::string local_init_;
  std::string init_tokens_;
  std::string presence_;
  std::string apply_;
  std::string interrupt_;
  std::string cancel_;
  std::shared_ptr<internal::ChiefRecord> record_;
  const HookContext* context_ = nullptr;  // from begin() on
  std::shared_ptr<Applying> applying_;    // the chief's, in its present session
};

}  // namespace tutti
