// Conditional accumulators: gradients of many workers are collected until enough are there, and taken as one.
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

enum class AccumulatorReduction { kMean, kSum };

struct AccumulatorOptions {
  std::string name;
  DType dtype = DType::kFloat;
  PartialShape shape;  // of the gradients, as far as known
  AccumulatorReduction reduction = AccumulatorReduction::kMean;
  std::shared_ptr<GradientLedger> ledger;  // null: nobody counts
};

// What dense and sparse accumulators share: the count, the current global step (0 at first), who waits.
//
//  * A gradient that was computed at a local step before the current global step is stale and dropped without an
//    error, whatever its shape.
//  * `take` waits, holding no thread, until the count has reached what it asked for; it empties the accumulator and
//    moves the global step on by one. Several are served in the order of their arrival.
//
// `done` runs exactly once, on the thread that caused it, with no lock held, possibly before the call returns;
// `cancellation` must live until it has begun. Thread-safe.
class Accumulator : public Resource, public WaitingRoom, public std::enable_shared_from_this<Accumulator> {
 public:
  // A gradient or an average as tensors: {value}, or {indices, values, shape}.
  using Parts = std::vector<Tensor>;
  using TakeDone = std::function<void(Status, Parts)>;

  ~Accumulator() override;

  const AccumulatorOptions& options() const { return options_; }

  // kInvalidArgument unless num_required > 0; kCancelled "TakeGrad operation was cancelled"; kAborted once the
  // accumulator was destroyed, or its container reset.
  void take(std::int64_t num_required, Cancellation& cancellation, TakeDone done);
  // May go backwards.
  void set_global_step(std::int64_t step);
  std::int64_t global_step() const;
  std::int64_t num_accumulated() const;
  void abandon() override;

 protected:
  explicit Accumulator(AccumulatorOptions options) : options_(std::move(options)) {}

  // Adds the parts of one gradient and serves who waits, unless the gradient is stale. `worker`: for the ledger.
  Status apply(std::int64_t local_step, const Parts& gradient, std::string_view worker);

  // Adds a gradient to `count` others, or starts with it. An error leaves everything as it was.
  virtual Status add(const Parts& gradient, std::int64_t count) = 0;
  // The mean or sum of `count` gradients; nothing is left.
  virtual Result<Parts> drain(std::int64_t count) = 0;

  const AccumulatorOptions options_;

 private:
  struct Waiter;
  using WaiterPtr = std::shared_ptr<Waiter>;

  void cancel(const WaiterPtr& waiter);
  Status abandoned_error() const;
  void serve(std::vector<WaiterPtr>* finished) TUTTI_REQUIRES(mu_);
  static void answer(const std::vector<WaiterPtr>& finished);

  // Also guards what derived classes keep: `add` and `drain` are called with it held.
  mutable Mutex mu_;
  std::int64_t global_step_ TUTTI_GUARDED_BY(mu_) = 0;
  std::int64_t count_ TUTTI_GUARDED_BY(mu_) = 0;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;
  std::list<WaiterPtr> waiters_ TUTTI_GUARDED_BY(mu_);
};

// Of whole tensors, all of one shape.
class DenseAccumulator : public Accumulator {
 public:
  // kInvalidArgument for a dtype without arithmetic.
  static Result<std::shared_ptr<DenseAccumulator>> create(AccumulatorOptions options);

  // kInvalidArgument "Shape mismatch: expected S, got S".
  Status apply_gradient(std::int64_t local_step, const Tensor& gradient, std::string_view worker = "");
  std::string debug_string() const override;

 protected:
  Status add(const Parts& gradient, std::int64_t count) override;
  Result<Parts> drain(std::int64_t count) override;

 private:
  explicit DenseAccumulator(AccumulatorOptions options);
  // Makes it the sum of both, over `divisor`.
  Status add_to_sum(const Tensor& value, std::int64_t divisor);

  const std::unique_ptr<Allocator> memory_;  // of the sums, which have the same size step after step
  // Of no use while the count is 0. What was received from another task is kept where it lies and added when the next
  // comes or the mean is taken, which makes one pass over memory of what would be three.
  Tensor sum_;
  bool own_sum_ = false;  // it may be written
  Tensor last_;           // not in the sum yet, if there is one
};

// Of rows. The mean of a row is over the gradients that contained it. Indices are expected in ascending order; others
// are merged as they come, as TensorFlow does, so that an index may then appear more than once.
class SparseAccumulator : public Accumulator {
 public:
  static Result<std::shared_ptr<SparseAccumulator>> create(AccumulatorOptions options);

  // indices: int64 vector; values: one row for each; dense_shape: int64, or without a value where nobody knows it.
  // kInvalidArgument when they do not fit each other, the declared shape or what is there already.
  Status apply_gradient(std::int64_t local_step, const Tensor& indices, const Tensor& values, const Tensor& dense_shape,
                        std::string_view worker = "");
  // Gives {indices, values, shape}; the first dimension of the shape is -1 when it was not declared.
  std::string debug_string() const override;

 protected:
  Status add(const Parts& gradient, std::int64_t count) override;
  Result<Parts> drain(std::int64_t count) override;

 private:
  using Accumulator::Accumulator;
  Status check_against_declared(const Tensor& indices, const Tensor& dense_shape) const;
  Status check_values(const Tensor& values, std::int64_t count) const;
  Status merge(const Tensor& indices, const Tensor& values);

  // Row i of values_ belongs to indices_[i], which row_counts_[i] gradients had.
  std::vector<std::int64_t> indices_;
  std::vector<std::int64_t> row_counts_;
  Tensor values_;
};

}  // namespace tutti
