// Who computes which shard of a step: the board of strict synchronous training.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/kernels/resources/shard_accumulator.h"
#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

struct ShardBoardOptions {
  std::string name;
  std::int64_t num_shards = 1;
  // A shard that is out for longer is handed out once more when somebody asks and no other is left. Nothing goes wrong
  // when its worker was merely slow: accumulators count a shard once. A shorter lease wastes more work.
  Duration lease = std::chrono::seconds(10);
  Clock* clock = nullptr;  // outlives the board; null: leases do not end
};

// The shards of one step at a time, each open, out (with a worker) or done. No step is open at first.
//
// A worker asks for its next shard, saying which one it has finished. It gets, in this order of preference: the one
// that it holds and has not finished (it failed, or came back as another process); the first open one; the first one
// whose lease has ended. Otherwise it waits, holding no thread, until there is one: a shard is given back, a lease
// ends, the next step opens. Several are served in the order of their arrival.
//
// All who compute shards at a time, and all shards of a step, have the same number of threads for one kernel: products
// and sums give the same bits for the same number only. Who comes with another one is refused.
//
// `done` runs exactly once, with no lock held, possibly before the call returns and possibly on a thread of the clock;
// `cancellation` must live until it has begun. Thread-safe.
class ShardBoard : public Resource, public WaitingRoom, public std::enable_shared_from_this<ShardBoard> {
 public:
  using NextDone = std::function<void(Status, ShardClaim)>;
  using AttendDone = std::function<void(Status)>;

  // kInvalidArgument for a senseless number of shards or lease.
  static Result<std::shared_ptr<ShardBoard>> create(ShardBoardOptions options);
  ~ShardBoard() override;

  const ShardBoardOptions& options() const { return options_; }

  struct Asker {
    std::string worker;
    std::int64_t threads = 1;  // for one kernel
  };
  // `finished` {-1, -1}: nothing. One of another step is not looked at. Errors: kInvalidArgument for a worker without a
  // name or threads, or a shard that does not exist; kFailedPrecondition for another number of threads than that of
  // who holds a shard; kOutOfRange once the board is closed; kCancelled; kAborted once it was destroyed or its
  // container reset, and for another number of threads than that of who waits for a shard or attends, which may be
  // dead, and than that of the step while it has not been opened anew.
  void next(const Asker& asker, const ShardClaim& finished, Cancellation& cancellation, NextDone done);
  // Waits until `cancellation` comes, and then gives back what `worker` holds: the step that calls it is the worker's
  // presence. OK when the board is closed, kAborted once it was destroyed or its container reset.
  void attend(const std::string& worker, Cancellation& cancellation, AttendDone done);
  // All shards of `step` are to be done. A closed board is open again.
  void open(std::int64_t step);
  // What `worker` holds is handed out again.
  void give_back(const std::string& worker);
  // Who waits, or comes to, gets kOutOfRange: the end of training.
  void close();

  // The open step, -1 before the first.
  std::int64_t step() const;
  std::int64_t num_done() const;
  void abandon() override;
  std::string debug_string() const override;

 private:
  enum class State { kOpen, kOut, kDone };
  struct Shard {
    State state = State::kOpen;
    std::string worker;  // of one that is out
    TimePoint lease_end{};
  };
  struct NextWaiter;
  struct AttendWaiter;
  struct Finished;

  explicit ShardBoard(ShardBoardOptions options);
  void cancel_next(const std::shared_ptr<NextWaiter>& waiter);
  void cancel_attend(const std::shared_ptr<AttendWaiter>& waiter);
  void lease_ended();
  Status ended() const TUTTI_REQUIRES(mu_);
  // Takes the asker's number of threads for the board's, or says who is there with another one.
  Status agree_on_threads(const Asker& asker) TUTTI_REQUIRES(mu_);
  bool holds_or_waits(const std::string& worker) const TUTTI_REQUIRES(mu_);
  void forget(const std::string& worker) TUTTI_REQUIRES(mu_);
  // One that holds a shard; one that waits for one, or computes them and is still there. Empty: nobody does.
  std::string holder_but(const std::string& worker) const TUTTI_REQUIRES(mu_);
  std::string attendant_but(const std::string& worker) const TUTTI_REQUIRES(mu_);
  void give_back_locked(const std::string& worker) TUTTI_REQUIRES(mu_);
  Shard* find_for(const std::string& worker, TimePoint now) TUTTI_REQUIRES(mu_);
  void serve(Finished* finished) TUTTI_REQUIRES(mu_);
  void end_waiting(Finished* finished) TUTTI_REQUIRES(mu_);
  // Sees to it that serve is called when the first lease ends. Call it without the mutex.
  void watch_leases();
  static void answer(const Finished& finished);

  const ShardBoardOptions options_;
  mutable Mutex mu_;
  std::int64_t step_ TUTTI_GUARDED_BY(mu_) = -1;
  std::int64_t threads_ TUTTI_GUARDED_BY(mu_) = 0;  // of those that compute shards; 0 before the first
  bool begun_ TUTTI_GUARDED_BY(mu_) = false;        // a shard of the open step was handed out
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;
  std::vector<Shard> shards_ TUTTI_GUARDED_BY(mu_);
  std::list<std::shared_ptr<NextWaiter>> waiters_ TUTTI_GUARDED_BY(mu_);
  std::list<std::shared_ptr<AttendWaiter>> present_ TUTTI_GUARDED_BY(mu_);
  bool watching_ TUTTI_GUARDED_BY(mu_) = false;  // a timer is set, or being set
};

}  // namespace tutti
