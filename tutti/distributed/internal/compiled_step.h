// A signature as its tasks know it: cut into parts that were registered there.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/ended_steps.h"
#include "tutti/distributed/internal/master_graph.h"
#include "tutti/distributed/worker_interface.h"

namespace tutti::internal {

// One task's share.
struct CompiledPart {
  std::string task;
  std::shared_ptr<WorkerInterface> worker;
  std::vector<Part::Terminal> feeds;
  std::vector<int> fetches;  // of each of recv_keys, the index of the fetch
  std::vector<std::string> recv_keys;
  std::shared_ptr<EndedSteps> ended;  // of its worker; shared by the session's steps
  std::string graph_handle;           // once registered
  bool takes_ended_steps = false;     // once registered
};

// Idle -> registering -> ready, or back to idle when a part was refused: the next step tries again what is missing.
// Shared by concurrent steps; constant once ready. Thread-safe.
class CompiledStep : public std::enable_shared_from_this<CompiledStep> {
 public:
  struct Setup {
    std::string session;
    bool optimize = true;
    bool allow_soft_placement = false;
    std::vector<FeedInfo> feeds;
    std::vector<std::vector<int>> needs;  // for each fetch, the feeds behind it
    std::vector<CompiledPart> parts;      // in the order in which they are to be called
    std::vector<std::string> graph_defs;  // of the parts
  };
  explicit CompiledStep(Setup setup);

  // kInvalidArgument, with the feed, unless each is of the type and shape that the graph wants.
  Status check_feeds(const std::vector<Tensor>& feeds) const;
  Status check_feed(std::size_t index, const Tensor& value) const;
  const std::vector<FeedInfo>& feeds() const { return feeds_; }
  const std::vector<std::vector<int>>& needs() const { return needs_; }
  std::size_t num_fetches() const { return needs_.size(); }
  bool uses(const std::string& task) const;

  // `ready` runs once, at once when all parts are registered; with an error when a part was refused. `waiter` names who
  // waits.
  void when_registered(const void* waiter, std::function<void(Status)> ready);
  // `waiter` no longer waits, and is not called any more unless that has begun. When nobody else waits, what is being
  // registered ends with `cause`; a later step registers it anew.
  void stop_waiting(const void* waiter, const Status& cause);
  // Ends what is being registered with `cause`; whoever asks later gets it too.
  void cancel(Status cause) { cancellation_.cancel(std::move(cause)); }

  // Tells the workers that it is not needed any more. REQUIRES: nobody else uses it.
  void deregister();

  // REQUIRES: registered.
  const std::vector<CompiledPart>& parts() const { return parts_; }
  std::vector<std::string> tasks() const;

 private:
  enum class State { kIdle, kRegistering, kReady };
  void register_parts();
  void register_part(std::size_t index, std::function<void(Status)> answered);
  void end_registration(const Status& status);
  // Whether one that was given up goes on for those who came to wait meanwhile.
  bool begin_anew(const Status& status) TUTTI_REQUIRES(mu_);

  const std::string session_;
  const bool optimize_;
  const bool allow_soft_placement_;
  const std::vector<FeedInfo> feeds_;
  const std::vector<std::vector<int>> needs_;
  Cancellation cancellation_;
  // Published when every handle is in parts_: who sees true may read them without the lock (release/acquire).
  std::atomic<bool> ready_{false};

  // Written by the one registration that runs, each part by its own answer; constant afterwards.
  std::vector<CompiledPart> parts_;
  std::vector<std::string> graph_defs_;  // emptied one by one as they are registered

  Mutex mu_;
  State state_ TUTTI_GUARDED_BY(mu_) = State::kIdle;
  std::vector<std::pair<const void*, std::function<void(Status)>>> waiting_ TUTTI_GUARDED_BY(mu_);  // with their names
  // Of the registration that runs, or ran last.
  std::shared_ptr<Cancellation> registration_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
