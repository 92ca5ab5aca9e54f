#include "tutti/kernels/resources/shard_accumulator.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/internal/gradient_math.h"
#include "tutti/kernels/resources/internal/waiter.h"

namespace tutti {

namespace {

Status check_options(const ShardAccumulatorOptions& options) {
  if (!is_floating(options.dtype)) {
    return invalid_argument("accumulators hold floating-point gradients, not ", dtype_name(options.dtype));
  }
  if (options.num_shards >= 1 && options.num_shards <= ShardAccumulatorOptions::kMaxShards) return {};
  return invalid_argument("a step has 1 to ", ShardAccumulatorOptions::kMaxShards, " shards, not ", options.num_shards);
}

}  // namespace

struct ShardAccumulator::TakeWaiter : Waiter<Parts> {};

ShardAccumulator::ShardAccumulator(ShardAccumulatorOptions options)
    : options_(std::move(options)), there_(static_cast<std::size_t>(options_.num_shards)), senders_(there_.size()) {}

ShardAccumulator::~ShardAccumulator() = default;

// Makes `step` the current one if it may begin now.
void ShardAccumulator::enter(std::int64_t step) {
  if (taken_ && step == step_ + 1) begin(step);
}

void ShardAccumulator::settle(GradientFate fate) {
  if (!options_.ledger) return;
  for (std::size_t shard = 0; shard < there_.size(); ++shard) {
    if (there_[shard]) options_.ledger->count(senders_[shard], options_.name, fate);
  }
}

void ShardAccumulator::begin(std::int64_t step) {
  if (!taken_) settle(GradientFate::kStale);
  step_ = step;
  there_.assign(there_.size(), false);
  collected_ = 0;
  taken_ = false;
  mean_.clear();
  mean_status_ = Status();
  forget();
}

Status ShardAccumulator::apply(const ShardClaim& claim, const Parts& gradient, std::string_view worker) {
  if (claim.shard < 0 || claim.shard >= options_.num_shards) {
    return invalid_argument("accumulator '", printable(options_.name), "' has no shard ", claim.shard, ", only ",
                            options_.num_shards);
  }
  const auto shard = static_cast<std::size_t>(claim.shard);
  std::optional<GradientFate> fate;  // nothing: it is not decided yet
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    enter(claim.step);
    if (claim.step != step_) {
      fate = GradientFate::kStale;
    } else if (there_[shard]) {
      fate = GradientFate::kRetried;
    } else {
      TUTTI_RETURN_IF_ERROR(check(gradient));
      TUTTI_RETURN_IF_ERROR(keep(claim.shard, gradient));
      there_[shard] = true;
      senders_[shard] = worker;
      ++collected_;
      serve(&finished);
    }
  }
  if (options_.ledger && fate) options_.ledger->count(worker, options_.name, *fate);
  answer_all(finished);
  return {};
}

void ShardAccumulator::take(std::int64_t step, Cancellation& cancellation, TakeDone done) {
  auto waiter = std::make_shared<TakeWaiter>();
  waiter->done = std::move(done);
  waiter->cancellation = &cancellation;
  const Cancellation::Token token =
      cancellation.register_callback([self = shared_from_this(), waiter] { self->cancel(waiter); });
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    Status refused;
    if (waiter->came_too_late(token)) {
      refused = cancelled("taking a gradient was cancelled");
    } else if (abandoned_) {
      refused = aborted("accumulator '", printable(options_.name), "' was reset or destroyed");
    } else {
      enter(step);
      if (step != step_) {
        refused = failed_precondition("accumulator '", printable(options_.name), "': taking step ", step,
                                      ", but it is at step ", step_, " with ", collected_, " of ", options_.num_shards,
                                      " shards", taken_ ? ", taken" : "");
      }
    }
    if (!refused.ok()) {
      waiter->finish(std::move(refused));
      finished.push_back(waiter);
    } else {
      waiter->phase = TakeWaiter::Phase::kWaiting;
      waiters_.push_back(waiter);
      serve(&finished);
    }
  }
  answer_all(finished);
}

void ShardAccumulator::serve(std::vector<WaiterPtr>* finished) {
  if (!complete() || waiters_.empty()) return;
  if (mean_.empty() && mean_status_.ok()) {
    Result<Parts> mean = finish();
    mean_status_ = mean.status();
    if (mean.ok()) {
      mean_ = *std::move(mean);
      settle(GradientFate::kApplied);
    }
  }
  taken_ = mean_status_.ok();
  for (const WaiterPtr& waiter : waiters_) waiter->answer = mean_;
  end_waiting(mean_status_, finished);
}

void ShardAccumulator::end_waiting(const Status& status, std::vector<WaiterPtr>* finished) {
  for (const WaiterPtr& waiter : waiters_) {
    waiter->finish(status);
    finished->push_back(waiter);
  }
  waiters_.clear();
}

void ShardAccumulator::cancel(const WaiterPtr& waiter) {
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    if (!waiter->cancel()) return;
    waiter->finish(cancelled("taking a gradient was cancelled"));
    waiters_.remove(waiter);
    finished.push_back(waiter);
  }
  answer_all(finished);
}

void ShardAccumulator::set_step(std::int64_t step) {
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    end_waiting(aborted("accumulator '", printable(options_.name), "' was set from step ", step_, " to ", step),
                &finished);
    begin(step);
  }
  answer_all(finished);
}

void ShardAccumulator::abandon() {
  std::vector<WaiterPtr> finished;
  {
    MutexLock lock(mu_);
    abandoned_ = true;
    end_waiting(aborted("accumulator '", printable(options_.name), "' was reset or destroyed"), &finished);
  }
  answer_all(finished);
}

std::int64_t ShardAccumulator::step() const {
  MutexLock lock(mu_);
  return step_;
}

std::int64_t ShardAccumulator::num_collected() const {
  MutexLock lock(mu_);
  return collected_;
}

// --- Dense. ---

DenseShardAccumulator::DenseShardAccumulator(ShardAccumulatorOptions options)
    : ShardAccumulator(std::move(options)), early_(static_cast<std::size_t>(options_.num_shards)) {}

Result<std::shared_ptr<DenseShardAccumulator>> DenseShardAccumulator::create(ShardAccumulatorOptions options) {
  TUTTI_RETURN_IF_ERROR(check_options(options));
  return std::shared_ptr<DenseShardAccumulator>(new DenseShardAccumulator(std::move(options)));
}

Status DenseShardAccumulator::apply_gradient(const ShardClaim& claim, const Tensor& gradient, std::string_view worker) {
  if (gradient.dtype() != options_.dtype) {
    return invalid_argument("the ", debug_string(), " got a gradient of ", dtype_name(gradient.dtype()));
  }
  return apply(claim, {gradient}, worker);
}

Status DenseShardAccumulator::check(const Parts& gradient) const {
  const Shape& shape = gradient[0].shape();
  if (!options_.shape.compatible_with(shape)) {
    return invalid_argument("Shape mismatch: expected ", options_.shape, ", got ", shape);
  }
  // The declared shape may be open; all shards' are the same.
  const auto other = std::find_if(early_.begin(), early_.end(), [](const Tensor& kept) { return kept.has_value(); });
  if (summed_ == 0 && other == early_.end()) return {};
  const Shape& expected = summed_ > 0 ? sum_.shape() : other->shape();
  if (expected == shape) return {};
  return invalid_argument("Shape mismatch: expected ", expected, ", got ", shape);
}

Status DenseShardAccumulator::keep(std::int64_t shard, const Parts& gradient) {
  const Tensor& value = gradient[0];
  // Copies: the gradient lies in the memory of a step, which is to be used again.
  if (shard != summed_) {
    TUTTI_ASSIGN_OR_RETURN(early_[static_cast<std::size_t>(shard)], value.clone());
    return {};
  }
  if (summed_ == 0) {
    TUTTI_ASSIGN_OR_RETURN(sum_, value.clone());
  } else {
    add_to_sum(value.dtype(), sum_.raw(), value.raw(), value.num_elements());
  }
  for (++summed_; summed_ < options_.num_shards; ++summed_) {
    Tensor& next = early_[static_cast<std::size_t>(summed_)];
    if (!next.has_value()) break;
    add_to_sum(next.dtype(), sum_.raw(), next.raw(), next.num_elements());
    next = Tensor();
  }
  return {};
}

Result<ShardAccumulator::Parts> DenseShardAccumulator::finish() {
  divide_by_count(sum_.dtype(), sum_.raw(), sum_.num_elements(), options_.num_shards);
  return Parts{std::exchange(sum_, Tensor())};
}

void DenseShardAccumulator::forget() {
  sum_ = Tensor();
  summed_ = 0;
  early_.assign(early_.size(), Tensor());
}

std::string DenseShardAccumulator::debug_string() const {
  return str_cat("shard accumulator '", printable(options_.name), "' of ", dtype_name(options_.dtype), " ",
                 options_.shape);
}

// --- Sparse. ---

SparseShardAccumulator::SparseShardAccumulator(ShardAccumulatorOptions options)
    : ShardAccumulator(std::move(options)), kept_(static_cast<std::size_t>(options_.num_shards)) {}

Result<std::shared_ptr<SparseShardAccumulator>> SparseShardAccumulator::create(ShardAccumulatorOptions options) {
  TUTTI_RETURN_IF_ERROR(check_options(options));
  return std::shared_ptr<SparseShardAccumulator>(new SparseShardAccumulator(std::move(options)));
}

Status SparseShardAccumulator::apply_gradient(const ShardClaim& claim, const Tensor& indices, const Tensor& values,
                                              const Tensor& dense_shape, std::string_view worker) {
  if (values.dtype() != options_.dtype) {
    return invalid_argument("the ", debug_string(), " got a gradient of ", dtype_name(values.dtype()));
  }
  if (indices.dtype() != DType::kInt64 || dense_shape.dtype() != DType::kInt64) {
    return invalid_argument("indices and shape of a sparse gradient must be int64");
  }
  return apply(claim, {indices, values, dense_shape}, worker);
}

Status SparseShardAccumulator::check(const Parts& gradient) const {
  const Tensor& indices = gradient[0];
  const Tensor& values = gradient[1];
  const Tensor& shape = gradient[2];
  if (indices.rank() != 1 || values.rank() < 1 || shape.rank() != 1 || values.dim(0) != indices.dim(0) ||
      values.rank() != shape.num_elements()) {
    return invalid_argument("a sparse gradient has indices ", indices.shape(), ", values ", values.shape(),
                            " and a shape of ", shape.shape(), ", which do not fit each other");
  }
  if (dense_shape_.has_value() && !bitwise_equal(dense_shape_, shape)) {
    return invalid_argument("Shape mismatch: expected ", dense_shape_.to_string(), ", got ", shape.to_string());
  }
  const std::int64_t* dims = shape.data<std::int64_t>();
  if (options_.shape.has_rank() && options_.shape.rank() != values.rank()) {
    return invalid_argument("Shape mismatch: expected ", options_.shape, ", got ", shape.to_string());
  }
  for (int d = 0; d < values.rank(); ++d) {
    const bool declared = options_.shape.has_rank() && options_.shape.dim(d) != kUnknownDim;
    if ((!declared || options_.shape.dim(d) == dims[d]) && (d == 0 || values.dim(d) == dims[d])) continue;
    return invalid_argument("Shape mismatch: expected ", options_.shape, ", got values ", values.shape(), " of ",
                            shape.to_string());
  }
  for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
    const std::int64_t index = indices.data<std::int64_t>()[i];
    if (index >= 0 && index < dims[0]) continue;
    return invalid_argument("indices[", i, "] = ", index, " is not in [0, ", dims[0], ")");
  }
  return {};
}

Status SparseShardAccumulator::keep(std::int64_t shard, const Parts& gradient) {
  Parts copies;
  for (const Tensor& part : gradient) {
    TUTTI_ASSIGN_OR_RETURN(Tensor copy, part.clone());
    copies.push_back(std::move(copy));
  }
  dense_shape_ = copies[2];
  kept_[static_cast<std::size_t>(shard)] = std::move(copies);
  return {};
}

Result<ShardAccumulator::Parts> SparseShardAccumulator::finish() {
  std::vector<std::int64_t> rows;
  for (const Parts& gradient : kept_) {
    const std::int64_t* indices = gradient[0].data<std::int64_t>();
    rows.insert(rows.end(), indices, indices + gradient[0].num_elements());
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());

  const Shape& first = kept_[0][1].shape();
  std::vector<std::int64_t> dims(first.dims().begin(), first.dims().end());
  dims[0] = static_cast<std::int64_t>(rows.size());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
  const DType dtype = options_.dtype;
  TUTTI_ASSIGN_OR_RETURN(Tensor sums, Tensor::create(dtype, shape, heap_allocator()));
  const std::int64_t row_size = cpu::elements_from(shape, 1);
  std::vector<bool> begun(rows.size());
  for (const Parts& gradient : kept_) {
    for (std::int64_t i = 0; i < gradient[0].num_elements(); ++i) {
      const auto row = static_cast<std::size_t>(
          std::lower_bound(rows.begin(), rows.end(), gradient[0].data<std::int64_t>()[i]) - rows.begin());
      void* to = cpu::at_element(dtype, sums.raw(), static_cast<std::int64_t>(row) * row_size);
      const void* from = cpu::at_element(dtype, gradient[1].raw(), i * row_size);
      if (begun[row]) {
        add_to_sum(dtype, to, from, row_size);
      } else {
        cpu::copy_elements(dtype, to, from, row_size);
        begun[row] = true;
      }
    }
  }
  divide_by_count(dtype, sums.raw(), sums.num_elements(), options_.num_shards);
  Parts mean{Tensor::vector<std::int64_t>(rows), std::move(sums), dense_shape_};
  forget();
  return mean;
}

void SparseShardAccumulator::forget() {
  kept_.assign(kept_.size(), Parts());
  dense_shape_ = Tensor();
}

std::string SparseShardAccumulator::debug_string() const {
  return str_cat("sparse shard accumulator '", printable(options_.name), "' of ", dtype_name(options_.dtype), " ",
                 options_.shape);
}

}  // namespace tutti
