// Accumulators of strict synchronous training: every shard of a step counts exactly once, in the order of shards.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/kernels/resources/gradient_ledger.h"
#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

// What a worker was given to compute: one shard of a step's global batch. {-1, -1}: nothing.
struct ShardClaim {
  std::int64_t step = -1;
  std::int64_t shard = -1;
};

struct ShardAccumulatorOptions {
  static constexpr std::int64_t kMaxShards = 1 << 16;

  std::string name;
  DType dtype = DType::kFloat;
  PartialShape shape;  // of the variable, as far as known
  std::int64_t num_shards = 1;
  std::shared_ptr<GradientLedger> ledger;  // null: nobody counts
};

// What dense and sparse ones share. It is at one step at a time, 0 at first, and collects the gradients of that step's
// shards, in whatever order they come:
//
//  * A gradient of another step is stale and dropped: of one that is over, or of a future that was undone when a
//    checkpoint was restored. One of a shard that is there already is a retry and changes nothing. Both are no errors.
//  * The ledger counts each gradient once, when it is known what becomes of it: stale and repeated ones when they come,
//    the others as applied when the mean is taken, or as stale when they are forgotten before.
//  * The mean is sum / num_shards, the sum being ((g0 + g1) + g2) + ...: the same bits whoever sent what and when.
//  * `take` of the step waits, holding no thread, until all shards are there. It may be repeated: the mean stays until
//    the next step begins. That is when, the mean having been taken, anyone speaks of the step that follows.
//
// `done` runs exactly once, on the thread that caused it, with no lock held, possibly before the call returns;
// `cancellation` must live until it has begun. Thread-safe.
class ShardAccumulator : public Resource, public WaitingRoom, public std::enable_shared_from_this<ShardAccumulator> {
 public:
  // A gradient or a mean as tensors: {value}, or {indices, values, shape}.
  using Parts = std::vector<Tensor>;
  using TakeDone = std::function<void(Status, Parts)>;

  ~ShardAccumulator() override;
  const ShardAccumulatorOptions& options() const { return options_; }

  // kCancelled; kAborted when the accumulator is set to another step or its container reset meanwhile;
  // kFailedPrecondition for a step that is over, or that cannot begin yet.
  void take(std::int64_t step, Cancellation& cancellation, TakeDone done);
  // Begins anew at `step`, which may lie before the current one: what was collected is forgotten.
  void set_step(std::int64_t step);
  std::int64_t step() const;
  std::int64_t num_collected() const;
  void abandon() override;

 protected:
  explicit ShardAccumulator(ShardAccumulatorOptions options);

  // kInvalidArgument for a shard that does not exist.
  Status apply(const ShardClaim& claim, const Parts& gradient, std::string_view worker);

  // What follows is called with the mutex held.
  // Whether a gradient fits; an error leaves everything as it was.
  virtual Status check(const Parts& gradient) const = 0;
  // Keeps the gradient of shard `shard`; `next` of the shards before it are there, without gaps.
  virtual Status keep(std::int64_t shard, const Parts& gradient) = 0;
  // The mean of all shards, in their order. Called once a step.
  virtual Result<Parts> finish() = 0;
  virtual void forget() = 0;

  const ShardAccumulatorOptions options_;

 private:
  struct TakeWaiter;
  using WaiterPtr = std::shared_ptr<TakeWaiter>;

  void cancel(const WaiterPtr& waiter);
  void enter(std::int64_t step) TUTTI_REQUIRES(mu_);
  void begin(std::int64_t step) TUTTI_REQUIRES(mu_);
  // Counts what was collected.
  void settle(GradientFate fate) TUTTI_REQUIRES(mu_);
  void serve(std::vector<WaiterPtr>* finished) TUTTI_REQUIRES(mu_);
  void end_waiting(const Status& status, std::vector<WaiterPtr>* finished) TUTTI_REQUIRES(mu_);
  bool complete() const TUTTI_REQUIRES(mu_) { return collected_ == options_.num_shards; }

  mutable Mutex mu_;
  std::int64_t step_ TUTTI_GUARDED_BY(mu_) = 0;
  std::vector<bool> there_ TUTTI_GUARDED_BY(mu_);           // by shard
  std::vector<std::string> senders_ TUTTI_GUARDED_BY(mu_);  // of those that are there
  std::int64_t collected_ TUTTI_GUARDED_BY(mu_) = 0;
  bool taken_ TUTTI_GUARDED_BY(mu_) = false;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;
  Parts mean_ TUTTI_GUARDED_BY(mu_);          // once complete
  Status mean_status_ TUTTI_GUARDED_BY(mu_);  // likewise
  std::list<WaiterPtr> waiters_ TUTTI_GUARDED_BY(mu_);
};

// Of whole tensors. Shards that come in order are summed as they come; those that come early are kept.
class DenseShardAccumulator : public ShardAccumulator {
 public:
  // kInvalidArgument for a dtype without arithmetic or a senseless number of shards.
  static Result<std::shared_ptr<DenseShardAccumulator>> create(ShardAccumulatorOptions options);

  // kInvalidArgument when type or shape do not fit.
  Status apply_gradient(const ShardClaim& claim, const Tensor& gradient, std::string_view worker = "");
  std::string debug_string() const override;

 protected:
  Status check(const Parts& gradient) const override;
  Status keep(std::int64_t shard, const Parts& gradient) override;
  Result<Parts> finish() override;
  void forget() override;

 private:
  explicit DenseShardAccumulator(ShardAccumulatorOptions options);
  Tensor sum_;  // of shards 0 .. summed_ - 1
  std::int64_t summed_ = 0;
  std::vector<Tensor> early_;  // by shard
};

// Of rows. The mean of a row, too, is over all shards, whether they had the row or not, so that it is what the dense
// mean would have there. Rows come out in ascending order, each once. Indices may come in any order, and repeat.
class SparseShardAccumulator : public ShardAccumulator {
 public:
  static Result<std::shared_ptr<SparseShardAccumulator>> create(ShardAccumulatorOptions options);

  // indices: int64 vector; values: one row for each; dense_shape: int64 vector. Errors as above.
  Status apply_gradient(const ShardClaim& claim, const Tensor& indices, const Tensor& values, const Tensor& dense_shape,
                        std::string_view worker = "");
  std::string debug_string() const override;

 protected:
  Status check(const Parts& gradient) const override;
  Status keep(std::int64_t shard, const Parts& gradient) override;
  Result<Parts> finish() override;
  void forget() override;

 private:
  explicit SparseShardAccumulator(ShardAccumulatorOptions options);
  std::vector<Parts> kept_;  // by shard; empty where none came
  Tensor dense_shape_;       // of the step's first gradient; without a value before
};

}  // namespace tutti
