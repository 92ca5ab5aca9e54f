#include "tutti/kernels/resources/barrier.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <utility>

namespace tutti {

Barrier::Barrier(BarrierOptions options, std::shared_ptr<Queue> ready)
    : options_(std::move(options)), ready_(std::move(ready)), next_number_(std::numeric_limits<std::int64_t>::min()) {}

Result<std::shared_ptr<Barrier>> Barrier::create(BarrierOptions options) {
  QueueOptions ready{.kind = QueueKind::kPriority, .name = options.name, .component_types = {}, .shapes = {}};
  ready.component_types = {DType::kInt64, DType::kString};
  ready.component_types.insert(ready.component_types.end(), options.component_types.begin(),
                               options.component_types.end());
  if (!options.shapes.empty()) {
    ready.shapes = {PartialShape::scalar(), PartialShape::scalar()};
    ready.shapes.insert(ready.shapes.end(), options.shapes.begin(), options.shapes.end());
  }
  TUTTI_ASSIGN_OR_RETURN(auto queue, Queue::create(std::move(ready)));
  return std::shared_ptr<Barrier>(new Barrier(std::move(options), std::move(queue)));
}

Status Barrier::check_values(std::int64_t component, const Tensor& keys, const Tensor& values) const {
  if (component < 0 || component >= static_cast<std::int64_t>(options_.component_types.size())) {
    return invalid_argument("The component ID is out of range ", component,
                            " > num_components (= ", options_.component_types.size(), ")");
  }
  const auto index = static_cast<std::size_t>(component);
  if (keys.rank() != 1) return invalid_argument("keys must be a vector, but have shape ", keys.shape());
  if (values.dtype() != options_.component_types[index]) {
    return invalid_argument("Type mismatch in component ", component, ". Expected ",
                            dtype_name(options_.component_types[index]), ", got ", dtype_name(values.dtype()));
  }
  if (values.rank() < 1 || values.dim(0) != keys.dim(0)) {
    return invalid_argument("values of shape ", values.shape(), " are not one for each of ", keys.dim(0), " keys");
  }
  if (options_.shapes.empty() || options_.shapes[index].compatible_with(values.shape().without_dim(0))) return {};
  return invalid_argument("Shape mismatch in component ", component, ". Expected ", options_.shapes[index], ", got ",
                          values.shape().without_dim(0));
}

Status Barrier::check_keys(std::size_t component, const Tensor& keys) const {
  std::unordered_set<std::string_view> seen;
  std::size_t new_keys = 0;
  for (const std::string& key : keys.flat<std::string>()) {
    auto it = incomplete_.find(key);
    if (it == incomplete_.end()) ++new_keys;
    if (!seen.insert(key).second || (it != incomplete_.end() && it->second.values[component].has_value())) {
      return invalid_argument("Key ", printable(key), " already has a value for component ", component, " in barrier ",
                              printable(options_.name));
    }
  }
  if (!closed_ || (!refuses_values_ && new_keys == 0)) return {};
  return cancelled("Barrier ", printable(options_.name),
                   " is closed.  Pending enqueues cancelled: ", refuses_values_ ? "true" : "false",
                   ".  Number of new insertions: ", new_keys, ".  Number of incomplete keys: ", incomplete_.size(),
                   ".");
}

bool Barrier::add(std::size_t component, const std::string& key, Tensor value, std::vector<TensorTuple>* complete) {
  auto [it, is_new] = incomplete_.try_emplace(key);
  Entry& entry = it->second;
  if (is_new) {
    entry = {next_number_, TensorTuple(options_.component_types.size()), options_.component_types.size()};
  }
  entry.values[component] = std::move(value);
  if (--entry.missing > 0) return is_new;
  TensorTuple tuple{Tensor::scalar(entry.number), Tensor::scalar(key)};
  tuple.insert(tuple.end(), std::make_move_iterator(entry.values.begin()), std::make_move_iterator(entry.values.end()));
  incomplete_.erase(it);
  complete->push_back(std::move(tuple));
  return is_new;
}

Status Barrier::insert_many(std::int64_t component, const Tensor& keys, const Tensor& values) {
  TUTTI_RETURN_IF_ERROR(check_values(component, keys, values));
  const auto index = static_cast<std::size_t>(component);
  const Shape each = values.shape().without_dim(0);
  std::vector<TensorTuple> complete;
  {
    MutexLock lock(mu_);
    TUTTI_RETURN_IF_ERROR(check_keys(index, keys));
    bool any_new = false;
    for (std::int64_t i = 0; i < keys.dim(0); ++i) {
      any_new |= add(index, keys.data<std::string>()[i], values.slice(i, i + 1).reshaped(each), &complete);
    }
    if (any_new) ++next_number_;
    entering_ += std::ssize(complete);
  }
  const std::int64_t entered_count = std::ssize(complete);
  Status entered = make_ready(std::move(complete));
  {
    MutexLock lock(mu_);
    entering_ -= entered_count;
  }
  end_if_complete();
  return entered;
}

Status Barrier::make_ready(std::vector<TensorTuple> complete) {
  Cancellation never;
  Status result;
  for (TensorTuple& tuple : complete) {
    // Its queue has no limit: the answer comes at once.
    ready_->try_enqueue(std::move(tuple), never, [&result](Status status) { result.update(std::move(status)); });
  }
  return result;
}

Status Barrier::limit_to_available(bool allow_fewer, std::int64_t* count) const {
  MutexLock lock(mu_);
  if (!closed_) return {};
  std::int64_t available = ready_->size() + entering_;
  if (allow_fewer) {
    *count = std::min(*count, available);
  } else {
    available += std::ssize(incomplete_);
  }
  if (available >= std::max<std::int64_t>(*count, 1)) return {};
  return out_of_range("Barrier '", printable(options_.name), "' is closed and has insufficient elements (requested ",
                      *count, ", total size ", available, ")");
}

void Barrier::take_many(std::int64_t count, bool allow_fewer, Cancellation& cancellation, Queue::DequeueDone done) {
  if (Status status = limit_to_available(allow_fewer, &count); !status.ok()) return done(std::move(status), {});
  ready_->try_dequeue_many(count, allow_fewer, cancellation, std::move(done));
}

Status Barrier::close(bool cancel_pending) {
  {
    MutexLock lock(mu_);
    if (closed_ && (refuses_values_ || !cancel_pending)) {
      return cancelled("Barrier '", printable(options_.name), "' is already closed.");
    }
    closed_ = true;
    refuses_values_ = cancel_pending;
    if (cancel_pending) incomplete_.clear();
  }
  end_if_complete();
  return {};
}

void Barrier::end_if_complete() {
  {
    MutexLock lock(mu_);
    if (!closed_ || ended_ || entering_ > 0 || !incomplete_.empty()) return;
    ended_ = true;
  }
  Cancellation never;
  ready_->close(/*cancel_pending_enqueues=*/false, never, [](const Status&) {});
}

std::int64_t Barrier::incomplete_size() const {
  MutexLock lock(mu_);
  return static_cast<std::int64_t>(incomplete_.size());
}

std::string Barrier::debug_string() const {
  return str_cat("barrier \"", printable(options_.name), "\" of ", ready_size(), " complete and ", incomplete_size(),
                 " incomplete tuples");
}

}  // namespace tutti
