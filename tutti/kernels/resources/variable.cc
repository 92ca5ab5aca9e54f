#include "tutti/kernels/resources/variable.h"

#include <algorithm>
#include <cstring>
#include <typeinfo>
#include <utility>
#include <vector>

namespace tutti {

namespace {

template <typename T>
void copy_objects(const Tensor& from, Tensor& to) {
  std::copy_n(from.data<T>(), from.num_elements(), to.data<T>());
}

// REQUIRES: same dtype and shape.
void copy_elements(const Tensor& from, Tensor& to) {
  switch (from.dtype()) {
    case DType::kString:
      return copy_objects<std::string>(from, to);
    case DType::kResource:
      return copy_objects<ResourceHandle>(from, to);
    case DType::kVariant:
      return copy_objects<Variant>(from, to);
    default:
      if (from.bytes() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
  }
}

}  // namespace

Tensor Variable::read() const {
  MutexLock lock(mu_);
  return value_;
}

bool Variable::initialised() const {
  MutexLock lock(mu_);
  return value_.has_value();
}

std::uint64_t Variable::version() const {
  MutexLock lock(mu_);
  return version_;
}

void Variable::assign(Tensor value) {
  TUTTI_CHECK(value.dtype() == dtype_, dtype_name(value.dtype()), " assigned to a variable of ", dtype_name(dtype_));
  // After the locks are gone `value` holds the old version, so that its memory is freed outside them.
  MutexLock update_lock(update_mu_);
  MutexLock lock(mu_);
  std::swap(value_, value);
  value_from_ = nullptr;
  ++version_;
}

std::string Variable::debug_string() const {
  Tensor value = read();
  return str_cat("variable ", dtype_name(dtype_), " ", value.has_value() ? value.shape().to_string() : "(no value)");
}

struct VariableUpdate::State {
  struct Entry {
    std::shared_ptr<Variable> variable;
    Tensor old_value;
    Tensor new_value;
    const Allocator* new_from = nullptr;
    bool in_place = false;
  };
  std::vector<Entry> entries;   // in the caller's order
  std::vector<int> by_address;  // indices of entries, in the order in which both kinds of locks are taken
  std::size_t locked = 0;       // of by_address, whose update_mu_ is held
  bool committed = false;

  Status find_variables(std::span<const std::shared_ptr<ResourceSlot>> slots);
  void take_update_locks();
  Status prepare(Entry& entry, const ResourceSlot& slot, bool copy_old, Allocator& fresh);
  void let_readers_in();
  void release();
  ~State() { release(); }
};

Status VariableUpdate::State::find_variables(std::span<const std::shared_ptr<ResourceSlot>> slots) {
  entries.resize(slots.size());
  by_address.reserve(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (!slots[i]) return invalid_argument("input ", i, " of the update is not a reference to a variable");
    entries[i].variable = variable_in(*slots[i]);
    if (!entries[i].variable) {
      return failed_precondition("Attempting to use uninitialized value ", printable(slots[i]->name()));
    }
    by_address.push_back(static_cast<int>(i));
  }
  const auto address = [this](int i) { return entries[i].variable.get(); };
  std::sort(by_address.begin(), by_address.end(), [&](int a, int b) { return std::less<>()(address(a), address(b)); });
  const auto same =
      std::adjacent_find(by_address.begin(), by_address.end(), [&](int a, int b) { return address(a) == address(b); });
  if (same != by_address.end()) return invalid_argument("one variable was given twice to the same update");
  return {};
}

// The order is by address and readers hold only mu_, briefly: no cycle of waiting can form.
void VariableUpdate::State::take_update_locks() TUTTI_NO_THREAD_SAFETY_ANALYSIS {
  for (; locked < by_address.size(); ++locked) entries[by_address[locked]].variable->update_mu_.lock();
}

// Chooses where the new value goes. A variable written in place stays locked for readers until release().
Status VariableUpdate::State::prepare(Entry& entry, const ResourceSlot& slot, bool copy_old,
                                      Allocator& fresh) TUTTI_NO_THREAD_SAFETY_ANALYSIS {
  Variable& v = *entry.variable;
  v.mu_.lock();
  if (!v.value_.has_value()) {
    v.mu_.unlock();
    return failed_precondition("Attempting to use uninitialized value ", printable(slot.name()));
  }
  // Nobody can start to pin while mu_ is held, so unique() stays true.
  if (v.value_.unique()) {
    entry.in_place = true;
    entry.old_value = v.value_;
    entry.new_value = v.value_;
    return {};
  }
  entry.old_value = v.value_;
  // Objects have memory of their own, wherever they lie.
  Allocator& allocator = dtype_size(v.dtype_) != 0 ? fresh : heap_allocator();
  const bool spare_fits = v.spare_.has_value() && v.spare_.shape() == v.value_.shape() && v.spare_.unique() &&
                          (v.spare_from_ == &allocator || &allocator == &heap_allocator());
  entry.new_from = spare_fits ? v.spare_from_ : &allocator;
  if (spare_fits) entry.new_value = std::move(v.spare_);
  v.spare_ = Tensor();
  v.mu_.unlock();

  if (!spare_fits) {
    TUTTI_ASSIGN_OR_RETURN(entry.new_value, Tensor::create(v.dtype_, entry.old_value.shape(), allocator));
  }
  if (copy_old) copy_elements(entry.old_value, entry.new_value);
  return {};
}

// Of what was written in place.
void VariableUpdate::State::let_readers_in() TUTTI_NO_THREAD_SAFETY_ANALYSIS {
  for (Entry& entry : entries) {
    if (!entry.in_place) continue;
    // Let go before readers may look: the next update must find the value unpinned.
    entry.old_value = Tensor();
    entry.new_value = Tensor();
    entry.in_place = false;
    entry.variable->mu_.unlock();
  }
}

void VariableUpdate::State::release() TUTTI_NO_THREAD_SAFETY_ANALYSIS {
  let_readers_in();
  for (; locked > 0; --locked) entries[by_address[locked - 1]].variable->update_mu_.unlock();
}

VariableUpdate::VariableUpdate(std::unique_ptr<State> state) : state_(std::move(state)) {}
VariableUpdate::VariableUpdate(VariableUpdate&&) noexcept = default;
VariableUpdate::~VariableUpdate() = default;

Result<VariableUpdate> VariableUpdate::begin(std::span<const std::shared_ptr<ResourceSlot>> slots, bool copy_old,
                                             Allocator& fresh) {
  auto state = std::make_unique<State>();
  TUTTI_RETURN_IF_ERROR(state->find_variables(slots));
  state->take_update_locks();
  for (const int i : state->by_address) {
    TUTTI_RETURN_IF_ERROR(state->prepare(state->entries[i], *slots[i], copy_old, fresh));
  }
  return VariableUpdate(std::move(state));
}

const Tensor& VariableUpdate::old_value(int i) const { return state_->entries[i].old_value; }
Tensor& VariableUpdate::new_value(int i) { return state_->entries[i].new_value; }

void VariableUpdate::commit() TUTTI_NO_THREAD_SAFETY_ANALYSIS {
  TUTTI_CHECK(!state_->committed, "an update was committed twice");
  state_->committed = true;
  for (State::Entry& entry : state_->entries) {
    if (entry.in_place) ++entry.variable->version_;
  }
  // First, so that no variable is locked while another one is: their order by address is prepare()'s alone.
  state_->let_readers_in();
  for (State::Entry& entry : state_->entries) {
    if (!entry.new_value.has_value()) continue;  // was written in place
    Variable& v = *entry.variable;
    MutexLock lock(v.mu_);
    v.spare_ = std::move(v.value_);
    v.value_ = std::move(entry.new_value);
    v.spare_from_ = std::exchange(v.value_from_, entry.new_from);
    entry.old_value = Tensor();
    ++v.version_;
  }
  state_->release();
}

std::shared_ptr<Variable> variable_in(const ResourceSlot& slot) {
  std::shared_ptr<Resource> resource = slot.get();
  if (!resource) return nullptr;
  // Nearly always exactly a Variable: comparing types is cheaper than walking the hierarchy.
  const Resource& object = *resource;
  if (typeid(object) == typeid(Variable)) return std::static_pointer_cast<Variable>(std::move(resource));
  return std::dynamic_pointer_cast<Variable>(std::move(resource));
}

}  // namespace tutti
