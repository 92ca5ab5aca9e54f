#include "tutti/kernels/resources/accumulator.h"

#include <typeinfo>
#include <utility>

#include "tutti/core/borrowed_buffer.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/resources/internal/gradient_math.h"

namespace tutti {

namespace {

using cpu::BinaryFunction;
using cpu::BinaryOp;

Status check_dtype(const AccumulatorOptions& options) {
  if (is_floating(options.dtype)) return {};
  return invalid_argument("accumulators hold floating-point gradients, not ", dtype_name(options.dtype));
}

Status check_gradient_dtype(const AccumulatorOptions& options, const Tensor& gradient) {
  if (gradient.dtype() == options.dtype) return {};
  return invalid_argument("the accumulator '", printable(options.name), "' holds ", dtype_name(options.dtype),
                          ", the gradient is ", dtype_name(gradient.dtype()));
}

// Of another task's memory, which nobody writes while it is held. All else lies in the memory of a step, which is to be
// used again.
bool is_received(const Tensor& gradient) {
  const Buffer* buffer = gradient.buffer().get();
  return buffer != nullptr && typeid(*buffer) == typeid(BorrowedBuffer);
}

enum class Phase { kNew, kWaiting, kFinished, kCancelled };  // as in queue.cc

}  // namespace

// Registered with its cancellation before anyone can serve it. Guarded by the accumulator's mutex until it is
// finished, then owned by the thread that finished it.
struct Accumulator::Waiter {
  std::int64_t required = 0;
  Phase phase = Phase::kNew;
  Cancellation* cancellation = nullptr;
  Cancellation::Token token = 0;
  Status status;
  Parts parts;
  TakeDone done;
};

Accumulator::~Accumulator() = default;

Status Accumulator::apply(std::int64_t local_step, const Parts& gradient, std::string_view worker) {
  std::vector<WaiterPtr> finished;
  bool stale = false;
  {
    MutexLock lock(mu_);
    stale = local_step < global_step_;
    if (!stale) {
      TUTTI_RETURN_IF_ERROR(add(gradient, count_));
      ++count_;
      serve(&finished);
    }
  }
  if (options_.ledger) {
    options_.ledger->count(worker, options_.name, stale ? GradientFate::kStale : GradientFate::kApplied);
  }
  answer(finished);
  return {};
}

void Accumulator::take(std::int64_t num_required, Cancellation& cancellation, TakeDone done) {
  if (num_required <= 0) {
    return done(invalid_argument("Argument num_required must be positive, but was ", num_required), {});
  }
  auto waiter = std::make_shared<Waiter>();
  waiter->required = num_required;
  waiter->done = std::move(done);
  waiter->cancellation = &cancellation;
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), waiter] { self->cancel(waiter); });
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    waiter->token = token;
    const bool cancelled_already = token == 0 || waiter->phase == Phase::kCancelled;
    if (cancelled_already || abandoned_) {
      waiter->phase = Phase::kFinished;
      waiter->status = cancelled_already ? cancelled("TakeGrad operation was cancelled") : abandoned_error();
      finished.push_back(waiter);
    } else {
      waiter->phase = Phase::kWaiting;
      waiters_.push_back(waiter);
      serve(&finished);
    }
  }
  answer(finished);
}

void Accumulator::cancel(const WaiterPtr& waiter) {
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    if (waiter->phase == Phase::kNew) waiter->phase = Phase::kCancelled;
    if (waiter->phase != Phase::kWaiting) return;
    waiter->phase = Phase::kFinished;
    waiter->status = cancelled("TakeGrad operation was cancelled");
    waiters_.remove(waiter);
    finished.push_back(waiter);
    serve(&finished);  // the one behind it may ask for less
  }
  answer(finished);
}

void Accumulator::abandon() {
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    abandoned_ = true;
    for (const WaiterPtr& waiter : waiters_) {
      waiter->phase = Phase::kFinished;
      waiter->status = abandoned_error();
      finished.push_back(waiter);
    }
    waiters_.clear();
  }
  answer(finished);
}

Status Accumulator::abandoned_error() const {
  return aborted("accumulator '", printable(options_.name), "' was reset or destroyed");
}

void Accumulator::serve(std::vector<WaiterPtr>* finished) {
  while (!waiters_.empty() && count_ >= waiters_.front()->required) {
    const WaiterPtr waiter = std::move(waiters_.front());
    waiters_.pop_front();
    waiter->phase = Phase::kFinished;
    Result<Parts> parts = drain(count_);
    if (parts.ok()) waiter->parts = *std::move(parts);
    waiter->status = parts.status();
    count_ = 0;
    ++global_step_;
    finished->push_back(waiter);
  }
}

void Accumulator::answer(const std::vector<WaiterPtr>& finished) {
  for (const WaiterPtr& waiter : finished) {
    // Afterwards the callback neither runs nor will run, and the cancellation may go.
    if (waiter->token != 0) waiter->cancellation->deregister(waiter->token);
    waiter->done(std::move(waiter->status), std::move(waiter->parts));
  }
}

void Accumulator::set_global_step(std::int64_t step) {
  MutexLock lock(mu_);
  global_step_ = step;
}

std::int64_t Accumulator::global_step() const {
  MutexLock lock(mu_);
  return global_step_;
}

std::int64_t Accumulator::num_accumulated() const {
  MutexLock lock(mu_);
  return count_;
}

// --- Dense. ---

DenseAccumulator::DenseAccumulator(AccumulatorOptions options)
    : Accumulator(std::move(options)), memory_(make_pool_allocator()) {}

Result<std::shared_ptr<DenseAccumulator>> DenseAccumulator::create(AccumulatorOptions options) {
  TUTTI_RETURN_IF_ERROR(check_dtype(options));
  return std::shared_ptr<DenseAccumulator>(new DenseAccumulator(std::move(options)));
}

Status DenseAccumulator::apply_gradient(std::int64_t local_step, const Tensor& gradient, std::string_view worker) {
  TUTTI_RETURN_IF_ERROR(check_gradient_dtype(options_, gradient));
  return apply(local_step, {gradient}, worker);
}

Status DenseAccumulator::add(const Parts& gradient, std::int64_t count) {
  const Tensor& value = gradient[0];
  if (count > 0 && sum_.shape() != value.shape()) {
    return invalid_argument("Shape mismatch: expected ", sum_.shape(), ", got ", value.shape());
  }
  if (!options_.shape.compatible_with(value.shape())) {
    return invalid_argument("Shape mismatch: expected ", options_.shape, ", got ", value.shape());
  }
  const bool keep = is_received(value);
  if (count == 0) {
    if (keep) {
      sum_ = value;
    } else {
      TUTTI_ASSIGN_OR_RETURN(sum_, value.clone(*memory_));
    }
    own_sum_ = !keep;
    return {};
  }
  if (last_.has_value()) {
    TUTTI_RETURN_IF_ERROR(add_to_sum(last_, 1));
    last_.reset();
  }
  if (!keep) return add_to_sum(value, 1);
  last_ = value;
  return {};
}

Status DenseAccumulator::add_to_sum(const Tensor& value, std::int64_t divisor) {
  Tensor sum = sum_;
  if (!own_sum_) {
    TUTTI_ASSIGN_OR_RETURN(sum, Tensor::create(sum_.dtype(), sum_.shape(), *memory_));
  }
  mean_of_sum(sum_.dtype(), sum_.raw(), value.raw(), sum.raw(), sum_.num_elements(), divisor);
  sum_ = std::move(sum);
  own_sum_ = true;
  return {};
}

Result<Accumulator::Parts> DenseAccumulator::drain(std::int64_t count) {
  const std::int64_t divisor = options_.reduction == AccumulatorReduction::kMean ? count : 1;
  Status status;
  if (last_.has_value()) {
    status = add_to_sum(std::exchange(last_, Tensor()), divisor);
  } else if (divisor > 1) {
    divide_by_count(sum_.dtype(), sum_.raw(), sum_.num_elements(), divisor);
  }
  Parts parts{std::exchange(sum_, Tensor())};
  if (!status.ok()) return status;
  return parts;
}

std::string DenseAccumulator::debug_string() const {
  return str_cat("accumulator '", printable(options_.name), "' of ", dtype_name(options_.dtype), " ", options_.shape);
}

// --- Sparse. ---

Result<std::shared_ptr<SparseAccumulator>> SparseAccumulator::create(AccumulatorOptions options) {
  TUTTI_RETURN_IF_ERROR(check_dtype(options));
  return std::shared_ptr<SparseAccumulator>(new SparseAccumulator(std::move(options)));
}

Status SparseAccumulator::apply_gradient(std::int64_t local_step, const Tensor& indices, const Tensor& values,
                                         const Tensor& dense_shape, std::string_view worker) {
  TUTTI_RETURN_IF_ERROR(check_gradient_dtype(options_, values));
  if (indices.dtype() != DType::kInt64 || (dense_shape.has_value() && dense_shape.dtype() != DType::kInt64)) {
    return invalid_argument("indices and shape of a sparse gradient must be int64");
  }
  return apply(local_step, {indices, values, dense_shape}, worker);
}

Status SparseAccumulator::check_against_declared(const Tensor& indices, const Tensor& dense_shape) const {
  const PartialShape& declared = options_.shape;
  if (!declared.has_rank()) return {};
  if (dense_shape.has_value()) {
    if (declared.rank() > dense_shape.num_elements()) {
      return invalid_argument("Shape mismatch: expected shape rank at least ", declared.rank(), ", got ",
                              dense_shape.num_elements());
    }
    for (int d = 0; d < declared.rank(); ++d) {
      const std::int64_t size = dense_shape.data<std::int64_t>()[d];
      if (declared.dim(d) == kUnknownDim || declared.dim(d) == size) continue;
      return invalid_argument("Shape mismatch: expected shape dim ", d, " to be ", declared.dim(d), ", got ", size);
    }
  }
  if (declared.rank() < 1 || declared.dim(0) == kUnknownDim) return {};
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    const std::int64_t index = indices.data<std::int64_t>()[i];
    if (index < declared.dim(0)) continue;
    return invalid_argument("Shape mismatch: index of slice ", i, " exceeded limits of shape; index is ", index,
                            " exceeded ", declared.dim(0));
  }
  return {};
}

Status SparseAccumulator::check_values(const Tensor& values, std::int64_t count) const {
  // Rows must be as those that are there; the first ones as declared.
  if (count > 0 && values.rank() != values_.rank()) {
    return invalid_argument("Shape mismatch: expected values rank ", values_.rank(), ", got ", values.rank());
  }
  if (count == 0 && options_.shape.rank() > values.rank()) {
    return invalid_argument("Shape mismatch: expected values rank at least ", options_.shape.rank(), ", got ",
                            values.rank());
  }
  const int rank = count > 0 ? values_.rank() : options_.shape.rank();
  for (int d = 1; d < rank; ++d) {
    const std::int64_t expected = count > 0 ? values_.dim(d) : options_.shape.dim(d);
    if (expected == kUnknownDim || expected == values.dim(d)) continue;
    return invalid_argument("Shape mismatch: expected values dim ", d, " to be ", expected, ", got ", values.dim(d));
  }
  return {};
}

Status SparseAccumulator::add(const Parts& gradient, std::int64_t count) {
  const Tensor& indices = gradient[0];
  const Tensor& values = gradient[1];
  if (indices.rank() != 1) {
    return invalid_argument("Input indices should be vector but received shape: ", indices.shape());
  }
  if (values.rank() < 1) return invalid_argument("Values cannot be 0-dimensional.");
  if (values.dim(0) != indices.dim(0)) {
    return invalid_argument("Expected ", indices.dim(0), " non-empty input values, got ", values.dim(0));
  }
  TUTTI_RETURN_IF_ERROR(check_against_declared(indices, gradient[2]));
  TUTTI_RETURN_IF_ERROR(check_values(values, count));
  if (count > 0) return merge(indices, values);
  TUTTI_ASSIGN_OR_RETURN(values_, values.clone());
  indices_.assign(indices.data<std::int64_t>(), indices.data<std::int64_t>() + indices.num_elements());
  row_counts_.assign(indices_.size(), 1);
  return {};
}

// Two sorted lists become one, equal indices one row.
Status SparseAccumulator::merge(const Tensor& indices, const Tensor& values) {
  const std::int64_t* theirs = indices.data<std::int64_t>();
  const auto n = static_cast<std::size_t>(indices.num_elements());
  struct Row {
    std::int64_t mine = -1;  // rows in values_ and `values`
    std::int64_t other = -1;
  };
  std::vector<Row> rows;
  rows.reserve(indices_.size() + n);
  std::size_t i = 0, j = 0;
  while (i < indices_.size() || j < n) {
    const bool from_mine = j == n || (i < indices_.size() && indices_[i] <= theirs[j]);
    const bool from_other = i == indices_.size() || (j < n && theirs[j] <= indices_[i]);
    rows.push_back({from_mine ? static_cast<std::int64_t>(i) : -1, from_other ? static_cast<std::int64_t>(j) : -1});
    i += from_mine;
    j += from_other;
  }

  std::vector<std::int64_t> dims(values_.shape().dims().begin(), values_.shape().dims().end());
  dims[0] = static_cast<std::int64_t>(rows.size());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  TUTTI_ASSIGN_OR_RETURN(Tensor merged, Tensor::create(values.dtype(), shape, heap_allocator()));
  const DType dtype = values.dtype();
  const std::int64_t row_size = cpu::elements_from(shape, 1);
  const BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, dtype);
  std::vector<std::int64_t> merged_indices, merged_counts;
  merged_indices.reserve(rows.size());
  merged_counts.reserve(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [mine, other] = rows[r];
    merged_indices.push_back(mine >= 0 ? indices_[static_cast<std::size_t>(mine)] : theirs[other]);
    merged_counts.push_back((mine >= 0 ? row_counts_[static_cast<std::size_t>(mine)] : 0) + (other >= 0 ? 1 : 0));
    void* to = cpu::at_element(dtype, merged.raw(), static_cast<std::int64_t>(r) * row_size);
    const void* from_mine = mine >= 0 ? cpu::at_element(dtype, values_.raw(), mine * row_size) : nullptr;
    const void* from_other = other >= 0 ? cpu::at_element(dtype, values.raw(), other * row_size) : nullptr;
    if (from_mine != nullptr && from_other != nullptr) {
      add(from_mine, from_other, to, row_size, 1, 1);
    } else {
      cpu::copy_elements(dtype, to, from_mine != nullptr ? from_mine : from_other, row_size);
    }
  }
  indices_ = std::move(merged_indices);
  row_counts_ = std::move(merged_counts);
  values_ = std::move(merged);
  return {};
}

Result<Accumulator::Parts> SparseAccumulator::drain(std::int64_t) {
  Tensor values = std::exchange(values_, Tensor());
  const std::int64_t row_size = cpu::elements_from(values.shape(), 1);
  for (std::size_t r = 0; options_.reduction == AccumulatorReduction::kMean && r < indices_.size(); ++r) {
    if (row_counts_[r] == 1) continue;
    divide_by_count(values.dtype(),
                    cpu::at_element(values.dtype(), values.raw(), static_cast<std::int64_t>(r) * row_size), row_size,
                    row_counts_[r]);
  }
  std::vector<std::int64_t> shape(values.shape().dims().begin(), values.shape().dims().end());
  shape[0] = options_.shape.rank() > 0 ? options_.shape.dim(0) : -1;
  Parts parts{Tensor::vector<std::int64_t>(indices_), std::move(values), Tensor::vector<std::int64_t>(shape)};
  indices_.clear();
  row_counts_.clear();
  return parts;
}

std::string SparseAccumulator::debug_string() const {
  return str_cat("sparse accumulator '", printable(options_.name), "' of ", dtype_name(options_.dtype), " ",
                 options_.shape);
}

}  // namespace tutti
