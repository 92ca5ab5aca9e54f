#include "tutti/kernels/resources/queue.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strided_copy.h"

namespace tutti {

namespace {
enum class Kind { kEnqueue, kDequeue, kClose };
enum class AttemptPhase {
  kNew,        // not in a line yet
  kWaiting,    // in a line
  kFinished,   // taken out of it; whoever did that answers
  kCancelled,  // cancelled while it was new
};

Status cancelled_error(Kind kind) {
  const char* name = kind == Kind::kEnqueue ? "Enqueue" : kind == Kind::kDequeue ? "Dequeue" : "Close";
  return tutti::cancelled(name, " operation was cancelled");
}
}  // namespace

// One call under way. An attempt is registered with its cancellation before anyone can serve it, because once it is
// served the cancellation may go. Members are guarded by the queue's mutex until it is finished, then owned by the
// thread that finished it.
struct Queue::Attempt {
  Kind kind;
  AttemptPhase phase = AttemptPhase::kNew;
  Cancellation* cancellation = nullptr;
  Cancellation::Token token = 0;
  Status status;

  // Enqueues and closes.
  std::deque<Tuple> to_enqueue;
  EnqueueDone enqueue_done;

  // Dequeues.
  std::int64_t wanted = 1;
  bool stacked = false;
  bool allow_fewer = false;
  std::vector<Tuple> taken;
  DequeueDone dequeue_done;
};

std::string_view queue_kind_name(QueueKind kind) {
  switch (kind) {
    case QueueKind::kShuffle:
      return "RandomShuffleQueue";
    case QueueKind::kPadding:
      return "PaddingFIFOQueue";
    case QueueKind::kPriority:
      return "PriorityQueue";
    default:
      return "FIFOQueue";
  }
}

namespace {

std::string type_list(const std::vector<DType>& types) {
  std::vector<std::string_view> names;
  for (const DType type : types) names.push_back(dtype_name(type));
  return str_join(names, ", ");
}

Status check_shapes(const QueueOptions& options) {
  if (options.kind == QueueKind::kPadding && options.shapes.size() != options.component_types.size()) {
    return invalid_argument("Shapes must be provided for all components, but received ", options.component_types.size(),
                            " dtypes and ", options.shapes.size(), " shapes.");
  }
  if (!options.shapes.empty() && options.shapes.size() != options.component_types.size()) {
    return invalid_argument("Different number of component types.  Types: ", type_list(options.component_types),
                            ", Shapes: [", str_join(options.shapes, ", "), "]");
  }
  for (const PartialShape& shape : options.shapes) {
    if (options.kind == QueueKind::kPadding) {
      if (!shape.has_rank()) return invalid_argument("shape ", shape, " must have known rank.");
    } else if (!shape.as_shape()) {
      return invalid_argument("Shape ", shape, " is not fully defined");
    }
  }
  return {};
}

Status check_minimum(const QueueOptions& options) {
  if (options.min_after_dequeue < 0) {
    return invalid_argument("min_after_dequeue ", options.min_after_dequeue, " must be >= 0");
  }
  if (options.capacity >= 0 && options.min_after_dequeue >= options.capacity) {
    return invalid_argument("min_after_dequeue ", options.min_after_dequeue, " must be < capacity ", options.capacity);
  }
  return {};
}

std::unique_ptr<TupleStore> make_store(const QueueOptions& options) {
  switch (options.kind) {
    case QueueKind::kShuffle:
      return make_shuffled_store(options.seed, options.seed2);
    case QueueKind::kPriority:
      return make_priority_store();
    default:
      return make_fifo_store();
  }
}

}  // namespace

Queue::Queue(QueueOptions options) : options_(std::move(options)), tuples_(make_store(options_)) {}

Result<std::shared_ptr<Queue>> Queue::create(QueueOptions options) {
  const std::string_view kind = queue_kind_name(options.kind);
  if (options.component_types.empty()) return invalid_argument(kind, ": there must be at least one component");
  if (options.kind == QueueKind::kPriority && options.component_types[0] != DType::kInt64) {
    return invalid_argument(kind, ": the first component, the priority, must be int64, not ",
                            dtype_name(options.component_types[0]));
  }
  TUTTI_RETURN_IF_ERROR(check_shapes(options));
  if (options.kind == QueueKind::kShuffle) TUTTI_RETURN_IF_ERROR(check_minimum(options));
  return std::shared_ptr<Queue>(new Queue(std::move(options)));
}

Queue::~Queue() = default;

bool Queue::full() const {
  return options_.capacity >= 0 && static_cast<std::int64_t>(tuples_->size()) >= options_.capacity;
}

// Tuples that may leave now.
std::int64_t Queue::available() const {
  return static_cast<std::int64_t>(tuples_->size()) - (closed_ ? 0 : options_.min_after_dequeue);
}

Status Queue::closed_error() const {
  return tutti::cancelled(queue_kind_name(options_.kind), " '", printable(options_.name), "' is closed.");
}

Status Queue::check_tuple(const Tuple& tuple, bool batched) const {
  if (tuple.size() != options_.component_types.size()) {
    return invalid_argument("Wrong number of components in tuple. Expected ", options_.component_types.size(), ", got ",
                            tuple.size());
  }
  for (std::size_t i = 0; i < tuple.size(); ++i) {
    const Tensor& component = tuple[i];
    if (component.dtype() != options_.component_types[i]) {
      return invalid_argument("Type mismatch in tuple component ", i, ". Expected ",
                              dtype_name(options_.component_types[i]), ", got ", dtype_name(component.dtype()));
    }
    if (batched && component.rank() < 1) {
      return invalid_argument("Component ", i, " of a batch must have at least one dimension");
    }
    if (batched && component.dim(0) != tuple[0].dim(0)) {
      return invalid_argument("All input tensors must have the same size in the 0th dimension. Component ", i, " has ",
                              component.dim(0), ", and should have ", tuple[0].dim(0));
    }
    TUTTI_RETURN_IF_ERROR(check_component_shape(i, component, batched));
  }
  return {};
}

Status Queue::check_component_shape(std::size_t i, const Tensor& component, bool batched) const {
  if (options_.shapes.empty()) {
    if (options_.kind != QueueKind::kPriority || i > 0 || component.rank() == (batched ? 1 : 0)) return {};
    return invalid_argument("Expected the priority element to be a scalar, but received shape: ", component.shape());
  }
  PartialShape expected = options_.shapes[i];
  if (batched) {
    std::vector<std::int64_t> dims{component.dim(0)};
    dims.insert(dims.end(), expected.dims().begin(), expected.dims().end());
    expected = PartialShape(std::move(dims));
  }
  if (expected.compatible_with(component.shape())) return {};
  return invalid_argument("Shape mismatch in tuple component ", i, ". Expected ", expected, ", got ",
                          component.shape());
}

Status Queue::stack_shapes_known() const {
  if (!options_.shapes.empty()) return {};
  return invalid_argument(queue_kind_name(options_.kind),
                          "'s DequeueMany and DequeueUpTo require the components to have specified shapes.");
}

// [tuples] + the component's shape, open dimensions as large as the largest.
Result<Shape> Queue::stacked_shape(const std::vector<Tuple>& tuples, std::size_t component) const {
  const auto declared = options_.shapes[component].dims();
  std::vector<std::int64_t> dims{static_cast<std::int64_t>(tuples.size())};
  for (std::size_t d = 0; d < declared.size(); ++d) {
    std::int64_t size = std::max<std::int64_t>(declared[d], 0);
    for (const Tuple& tuple : tuples) size = std::max(size, tuple[component].dim(static_cast<int>(d)));
    dims.push_back(size);
  }
  return Shape::create(dims);
}

namespace {

// Writes `row` into the corner of `to`, a block of `shape`. REQUIRES: same rank, no dimension larger.
void copy_into_corner(const Tensor& row, const Shape& shape, char* to) {
  if (row.num_elements() == 0) return;
  const DType dtype = row.dtype();
  if (row.shape() == shape) return cpu::copy_elements(dtype, to, row.raw(), row.num_elements());
  cpu::DimList from_strides, to_strides;
  cpu::strides_of(row.shape(), &from_strides);
  cpu::strides_of(shape, &to_strides);
  cpu::StridedCopy copy;
  for (int d = 0; d < row.rank(); ++d) copy.add_loop(row.dim(d), to_strides[d], from_strides[d]);
  copy.run(dtype, to, row.raw());
}

}  // namespace

// REQUIRES: shapes are known, and every tuple fits them.
Result<Queue::Tuple> Queue::stack(const std::vector<Tuple>& tuples) const {
  Tuple batch;
  for (std::size_t c = 0; c < options_.component_types.size(); ++c) {
    const DType dtype = options_.component_types[c];
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, stacked_shape(tuples, c));
    TUTTI_ASSIGN_OR_RETURN(Tensor stacked, Tensor::create(dtype, shape, heap_allocator()));
    const Shape each = shape.without_dim(0);
    if (!options_.shapes[c].fully_known()) cpu::zero_elements(dtype, stacked.raw(), stacked.num_elements());
    for (std::size_t i = 0; i < tuples.size(); ++i) {
      copy_into_corner(tuples[i][c], each,
                       cpu::at_element(dtype, stacked.raw(), static_cast<std::int64_t>(i) * each.num_elements()));
    }
    batch.push_back(std::move(stacked));
  }
  return batch;
}

void Queue::try_enqueue(Tuple tuple, Cancellation& cancellation, EnqueueDone done) {
  if (Status fits = check_tuple(tuple, /*batched=*/false); !fits.ok()) return done(std::move(fits));
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Kind::kEnqueue;
  attempt->to_enqueue.push_back(std::move(tuple));
  attempt->enqueue_done = std::move(done);
  submit(attempt, cancellation);
}

void Queue::try_enqueue_many(Tuple batch, Cancellation& cancellation, EnqueueDone done) {
  if (Status fits = check_tuple(batch, /*batched=*/true); !fits.ok()) return done(std::move(fits));
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Kind::kEnqueue;
  for (std::int64_t i = 0; i < batch[0].dim(0); ++i) {
    Tuple tuple;
    for (const Tensor& component : batch) {
      tuple.push_back(component.slice(i, i + 1).reshaped(component.shape().without_dim(0)));
    }
    attempt->to_enqueue.push_back(std::move(tuple));
  }
  attempt->enqueue_done = std::move(done);
  submit(attempt, cancellation);
}

void Queue::try_dequeue(Cancellation& cancellation, DequeueDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Kind::kDequeue;
  attempt->dequeue_done = std::move(done);
  submit(attempt, cancellation);
}

void Queue::try_dequeue_many(std::int64_t count, bool allow_fewer, Cancellation& cancellation, DequeueDone done) {
  if (count < 0) {
    return done(
        invalid_argument(allow_fewer ? "DequeueUpToOp" : "DequeueManyOp", " requested ", count, " < 0 elements"), {});
  }
  if (Status known = stack_shapes_known(); !known.ok()) return done(std::move(known), {});
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Kind::kDequeue;
  attempt->wanted = count;
  attempt->stacked = true;
  attempt->allow_fewer = allow_fewer;
  attempt->dequeue_done = std::move(done);
  submit(attempt, cancellation);
}

void Queue::close(bool cancel_pending_enqueues, Cancellation& cancellation, EnqueueDone done) {
  auto attempt = std::make_shared<Attempt>();
  attempt->kind = Kind::kClose;
  attempt->enqueue_done = std::move(done);
  if (!cancel_pending_enqueues) return submit(attempt, cancellation);
  std::vector<AttemptPtr> finished;
  {
    MutexLock lock(mu_);
    closed_ = true;
    for (AttemptPtr& waiting : enqueues_) {
      waiting->phase = AttemptPhase::kFinished;
      if (waiting->kind == Kind::kEnqueue) waiting->status = cancelled_error(Kind::kEnqueue);
      finished.push_back(std::move(waiting));
    }
    enqueues_.clear();
    serve(&finished);
  }
  attempt->phase = AttemptPhase::kFinished;
  finished.push_back(attempt);
  finish(std::move(finished));
}

bool Queue::closed() const {
  MutexLock lock(mu_);
  return closed_;
}

std::int64_t Queue::size() const {
  MutexLock lock(mu_);
  return static_cast<std::int64_t>(tuples_->size());
}

std::string Queue::debug_string() const {
  return str_cat("queue \"", printable(options_.name), "\" of ", size(), " tuples");
}

void Queue::submit(const AttemptPtr& attempt, Cancellation& cancellation) {
  const Cancellation::Token token =
      cancellation.register_callback([queue = shared_from_this(), attempt] { queue->cancel(attempt); });
  std::vector<AttemptPtr> finished;
  {
    MutexLock lock(mu_);
    const bool cancelled_already = attempt->phase == AttemptPhase::kCancelled || token == 0;
    attempt->cancellation = &cancellation;
    attempt->token = token;
    if (cancelled_already || abandoned_) {
      attempt->phase = AttemptPhase::kFinished;
      attempt->status = cancelled_already ? cancelled_error(attempt->kind) : abandoned_error();
      finished.push_back(attempt);
    } else {
      attempt->phase = AttemptPhase::kWaiting;
      (attempt->kind == Kind::kDequeue ? dequeues_ : enqueues_).push_back(attempt);
      serve(&finished);
    }
  }
  finish(std::move(finished));
}

void Queue::cancel(const AttemptPtr& attempt) {
  std::vector<AttemptPtr> finished;
  {
    MutexLock lock(mu_);
    if (attempt->phase == AttemptPhase::kNew) attempt->phase = AttemptPhase::kCancelled;
    if (attempt->phase != AttemptPhase::kWaiting) return;
    attempt->phase = AttemptPhase::kFinished;
    attempt->status = cancelled_error(attempt->kind);
    give_back(*attempt);
    (attempt->kind == Kind::kDequeue ? dequeues_ : enqueues_).remove(attempt);
    finished.push_back(attempt);
    serve(&finished);  // those behind it may be able to go on
  }
  finish(std::move(finished));
}

void Queue::abandon() {
  std::vector<AttemptPtr> finished;
  {
    MutexLock lock(mu_);
    abandoned_ = true;
    for (Line* line : {&enqueues_, &dequeues_}) {
      for (AttemptPtr& attempt : *line) {
        attempt->phase = AttemptPhase::kFinished;
        attempt->status = abandoned_error();
        finished.push_back(std::move(attempt));
      }
      line->clear();
    }
  }
  finish(std::move(finished));
}

Status Queue::abandoned_error() const {
  return aborted(queue_kind_name(options_.kind), " '", printable(options_.name), "' was reset or destroyed");
}

void Queue::give_back(Attempt& attempt) {
  tuples_->give_back(std::move(attempt.taken));
  attempt.taken.clear();
}

// True: the attempt is finished, one way or another.
bool Queue::serve_enqueue(Attempt& attempt) {
  if (attempt.kind == Kind::kClose) {
    if (closed_) attempt.status = tutti::cancelled("Queue '", printable(options_.name), "' is already closed.");
    closed_ = true;
    return true;
  }
  if (closed_ && !attempt.to_enqueue.empty()) {
    attempt.status = closed_error();
    return true;
  }
  while (!attempt.to_enqueue.empty() && !full()) {
    tuples_->add(std::move(attempt.to_enqueue.front()));
    attempt.to_enqueue.pop_front();
  }
  return attempt.to_enqueue.empty();
}

bool Queue::serve_dequeue(Attempt& attempt) {
  while (static_cast<std::int64_t>(attempt.taken.size()) < attempt.wanted && available() > 0) {
    attempt.taken.push_back(tuples_->take());
  }
  const auto held = static_cast<std::int64_t>(attempt.taken.size());
  if (held == attempt.wanted) return true;
  // An enqueue that is still in line came before the close and may bring more.
  if (!closed_ || !enqueues_.empty()) return false;
  if (attempt.allow_fewer && held > 0) return true;
  give_back(attempt);
  attempt.status = out_of_range(queue_kind_name(options_.kind), " '", printable(options_.name),
                                "' is closed and has insufficient elements (requested ", attempt.wanted,
                                ", current size ", tuples_->size(), ")");
  return true;
}

bool Queue::serve_line(Line& line, std::vector<AttemptPtr>* finished) {
  bool any = false;
  while (!line.empty()) {
    Attempt& first = *line.front();
    const bool done = first.kind == Kind::kDequeue ? serve_dequeue(first) : serve_enqueue(first);
    if (!done) break;
    first.phase = AttemptPhase::kFinished;
    finished->push_back(std::move(line.front()));
    line.pop_front();
    any = true;
  }
  return any;
}

void Queue::serve(std::vector<AttemptPtr>* finished) {
  // Each side can make room for the other. A line that did not finish anything may still have moved tuples
  // (a batch in part), so go on until the queue itself stands still too.
  while (true) {
    const std::size_t before = tuples_->size();
    bool moved = serve_line(enqueues_, finished);
    const std::size_t between = tuples_->size();
    moved |= serve_line(dequeues_, finished);
    if (!moved && before == between && between == tuples_->size()) return;
  }
}

void Queue::answer(Attempt& attempt) {
  // Afterwards the callback neither runs nor will run, and the cancellation may go.
  if (attempt.token != 0) attempt.cancellation->deregister(attempt.token);
  if (attempt.kind != Kind::kDequeue) return attempt.enqueue_done(std::move(attempt.status));
  Tuple result;
  if (attempt.status.ok()) {
    if (attempt.stacked) {
      Result<Tuple> batch = stack(attempt.taken);
      if (batch.ok()) result = *std::move(batch);
      attempt.status = batch.status();
    } else {
      result = std::move(attempt.taken[0]);
    }
  }
  attempt.dequeue_done(std::move(attempt.status), std::move(result));
}

void Queue::finish(std::vector<AttemptPtr> finished) {
  for (const AttemptPtr& attempt : finished) answer(*attempt);
}

}  // namespace tutti
