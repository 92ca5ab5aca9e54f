// The steps that a worker knows: those under way, and for a while those that have ended.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/distributed/internal/asked_values.h"
#include "tutti/distributed/internal/step_rendezvous.h"

namespace tutti::internal {

// One step in one task. Thread-safe.
class Step {
 public:
  using Ended = std::function<void(Status)>;

  explicit Step(const StepRendezvous::Options& options)
      : id_(options.step_id),
        task_(options.task),
        limit_bytes_(options.limit_bytes),
        rendezvous_(std::make_shared<StepRendezvous>(options)) {}

  std::int64_t id() const { return id_; }
  StepRendezvous& rendezvous() { return *rendezvous_; }
  // Of what runs here for it.
  Cancellation& cancellation() { return cancellation_; }
  // Ends it: what runs here with `cause`, what other tasks wait for with what derives from that.
  void end(const Status& cause);

  // --- Values that other tasks ask for together. ---
  // Kept under the number of the first request for them.
  std::shared_ptr<AskedValues> add_asked(const RecvTensorsRequest& first);
  // Null: unknown.
  std::shared_ptr<AskedValues> find_asked(std::int64_t first_request) const;

  // --- The graph that runs here for it: one, of one session. ---
  // True for the first, whose is to run it.
  bool claim(const void* session);
  // Null before it is claimed.
  const void* session() const;
  // The run has ended. When it failed, those who wait for its values learn of it at once.
  void run_ended(Status status);
  // Calls `ended` with how the run ended, now or then.
  void when_run_ended(Ended ended);
  // OK while it runs.
  Status run_status() const;

 private:
  const std::int64_t id_;
  const std::string_view task_;
  const std::size_t limit_bytes_;
  const std::shared_ptr<StepRendezvous> rendezvous_;
  Cancellation cancellation_;

  mutable Mutex mu_;
  const void* session_ TUTTI_GUARDED_BY(mu_) = nullptr;
  bool run_ended_ TUTTI_GUARDED_BY(mu_) = false;
  Status run_status_ TUTTI_GUARDED_BY(mu_);
  std::vector<Ended> waiting_ TUTTI_GUARDED_BY(mu_);
  std::vector<std::pair<std::int64_t, std::shared_ptr<AskedValues>>> asked_ TUTTI_GUARDED_BY(mu_);
};

// Thread-safe.
class StepTable {
 public:
  struct Options {
    std::string task;
    WorkerDirectory* peers = nullptr;   // outlives the steps
    RequestIds* request_ids = nullptr;  // likewise
    Clock* clock = nullptr;
    std::size_t step_bytes = 0;
    Duration remembered{};
  };
  // How many ended steps are remembered, however short ago they ended.
  static constexpr std::size_t kMaxRemembered = 65'536;

  explicit StepTable(const Options& options) : options_(options) {}

  // The step of that number, begun when it is new. kAborted, derived, when it has ended here: whoever ended it knows
  // why.
  Result<std::shared_ptr<Step>> find_or_begin(std::int64_t id);
  // Null: it has not begun, or has ended.
  std::shared_ptr<Step> find(std::int64_t id) const;
  // One that never began is remembered as well: its messages may still be on their way.
  void end(std::int64_t id, const Status& cause);
  void end_all_of(const void* session, const Status& cause);
  // Those that wait for a value of `task`.
  void end_all_waiting_for(std::string_view task, std::uint64_t but_incarnation, const Status& cause);
  // Somebody who waited for the step's values has gone: whoever else takes part in it will not get far either.
  void abandon(std::int64_t id);
  // Ends all; none begins any more.
  void stop(const Status& cause);
  // Steps under way.
  std::size_t size() const;

 private:
  using StepPtr = std::shared_ptr<Step>;
  struct Ended {
    std::int64_t id;
    TimePoint forget_at;
  };
  void end_where(const std::function<bool(Step&)>& condition, const Status& cause);
  void remember(std::int64_t id) TUTTI_REQUIRES(mu_);
  void forget_old() TUTTI_REQUIRES(mu_);

  const Options options_;
  mutable Mutex mu_;
  Status stopped_ TUTTI_GUARDED_BY(mu_);
  std::unordered_map<std::int64_t, StepPtr> steps_ TUTTI_GUARDED_BY(mu_);
  std::deque<Ended> ended_ TUTTI_GUARDED_BY(mu_);  // the latest last
  std::unordered_set<std::int64_t> ended_ids_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::internal
