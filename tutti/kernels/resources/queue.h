// Queues of tuples of tensors, between steps and between tasks.
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
#include "tutti/kernels/resources/tuple_store.h"
#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

enum class QueueKind {
  kFifo,
  kShuffle,   // gives out any tuple
  kPadding,   // first in, first out; tuples of different shapes are stacked with zeros around the smaller ones
  kPriority,  // the least first component, an int64 scalar, first
};

// "FIFOQueue", "RandomShuffleQueue"...: what messages call it.
std::string_view queue_kind_name(QueueKind kind);

struct QueueOptions {
  QueueKind kind = QueueKind::kFifo;
  std::string name;
  std::vector<DType> component_types;
  // Empty: shapes are free, and several tuples cannot be taken at once. Else one per component, fully known; of a
  // padding queue always one per component, of known rank.
  std::vector<PartialShape> shapes;
  std::int64_t capacity = -1;  // tuples; below 0: no limit
  // Of a shuffling queue.
  std::int64_t min_after_dequeue = 0;  // tuples that stay while it is open
  std::int64_t seed = 0;
  std::int64_t seed2 = 0;
};

// Calls never block. An attempt that cannot be served at once waits in line, holding no thread, until it is served,
// the queue is closed or `cancellation` fires; then `done` runs exactly once, on the thread that caused it, with no
// lock held, possibly before the call returns. Attempts of one kind are served in order of their arrival.
// `cancellation` must live until `done` has begun. Thread-safe.
//
// Errors: kCancelled "Enqueue operation was cancelled" (or "Dequeue ..."); kCancelled "FIFOQueue 'NAME' is closed."
// for an enqueue after close; kOutOfRange "FIFOQueue 'NAME' is closed and has insufficient elements (requested N,
// current size M)"; kInvalidArgument for tuples that do not fit; kAborted once the queue's container was
// reset. The first word is the queue's kind.
class Queue : public Resource, public WaitingRoom, public std::enable_shared_from_this<Queue> {
 public:
  using Tuple = TensorTuple;
  using EnqueueDone = std::function<void(Status)>;
  using DequeueDone = std::function<void(Status, Tuple)>;

  static Result<std::shared_ptr<Queue>> create(QueueOptions options);
  ~Queue() override;

  const QueueOptions& options() const { return options_; }

  void try_enqueue(Tuple tuple, Cancellation& cancellation, EnqueueDone done);
  // The rows of the components' first dimension, one tuple each. Tuples enter one by one: a cancellation leaves
  // those that had room in the queue.
  void try_enqueue_many(Tuple batch, Cancellation& cancellation, EnqueueDone done);
  void try_dequeue(Cancellation& cancellation, DequeueDone done);
  // `count` tuples, stacked. `allow_fewer`: what is left of a closed queue will do, if it is not nothing.
  // Tuples collected by an attempt that then fails go back to where they came from.
  void try_dequeue_many(std::int64_t count, bool allow_fewer, Cancellation& cancellation, DequeueDone done);

  // No enqueue begins after this. Those in line go on, and `done` runs after them, kCancelled when the queue was closed
  // before; or they are cancelled now. Cancelled while it waits, it leaves the queue open.
  void close(bool cancel_pending_enqueues, Cancellation& cancellation, EnqueueDone done);
  bool closed() const;
  std::int64_t size() const;

  std::string debug_string() const override;
  void abandon() override;

 private:
  struct Attempt;
  using AttemptPtr = std::shared_ptr<Attempt>;
  using Line = std::list<AttemptPtr>;

  explicit Queue(QueueOptions options);

  Status check_tuple(const Tuple& tuple, bool batched) const;
  Status check_component_shape(std::size_t i, const Tensor& component, bool batched) const;
  Status stack_shapes_known() const;
  Result<Shape> stacked_shape(const std::vector<Tuple>& tuples, std::size_t component) const;
  Result<Tuple> stack(const std::vector<Tuple>& tuples) const;
  void submit(const AttemptPtr& attempt, Cancellation& cancellation);
  void cancel(const AttemptPtr& attempt);
  // Serves all that can be served; the finished attempts are put into `finished`.
  void serve(std::vector<AttemptPtr>* finished) TUTTI_REQUIRES(mu_);
  bool serve_enqueue(Attempt& attempt) TUTTI_REQUIRES(mu_);
  bool serve_dequeue(Attempt& attempt) TUTTI_REQUIRES(mu_);
  bool serve_line(Line& line, std::vector<AttemptPtr>* finished) TUTTI_REQUIRES(mu_);
  void give_back(Attempt& attempt) TUTTI_REQUIRES(mu_);
  void finish(std::vector<AttemptPtr> finished);
  void answer(Attempt& attempt);
  Status closed_error() const;
  Status abandoned_error() const;
  bool full() const TUTTI_REQUIRES(mu_);
  std::int64_t available() const TUTTI_REQUIRES(mu_);

  const QueueOptions options_;
  mutable Mutex mu_;
  const std::unique_ptr<TupleStore> tuples_ TUTTI_GUARDED_BY(mu_);
  bool closed_ TUTTI_GUARDED_BY(mu_) = false;
  bool abandoned_ TUTTI_GUARDED_BY(mu_) = false;
  Line enqueues_ TUTTI_GUARDED_BY(mu_);  // and closes that wait for those before them
  Line dequeues_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
