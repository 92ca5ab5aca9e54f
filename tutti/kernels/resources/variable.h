// Variables: slots of versions. See docs/design/0001-variable-versions.md.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "tutti/core/mutex.h"
#include "tutti/core/resource_handle.h"
#include "tutti/core/tensor.h"

namespace tutti {

// A value that readers pin and writers replace.
//
//  * `read` gives the current version, sharing its memory. Holding the tensor is the pin: that version
//    never changes while anybody holds it. No copy, never torn.
//  * `VariableUpdate` gives a writer old and new memory for one update: the same memory when nobody holds
//    a pin, else a second buffer, which then becomes the current version.
//
// Thread-safe. Updates of one variable exclude each other; a reader waits only while an update in place runs.
class Variable : public Resource {
 public:
  // `declared`: the shape that assignments which validate shapes are held to before there is a value.
  explicit Variable(DType dtype, PartialShape declared = {}) : dtype_(dtype), declared_shape_(std::move(declared)) {}

  DType dtype() const { return dtype_; }
  const PartialShape& declared_shape() const { return declared_shape_; }
  // No value (has_value() false) until the first assignment.
  Tensor read() const;
  bool initialised() const;
  // Counts assignments and updates.
  std::uint64_t version() const;
  // Makes `value` the current version, sharing its memory. REQUIRES: value.dtype() == dtype().
  void assign(Tensor value);

  std::string debug_string() const override;

 private:
  friend class VariableUpdate;
  const DType dtype_;
  const PartialShape declared_shape_;
  // Held through an update or assignment; taken before mu_. Readers never take it.
  Mutex update_mu_;
  // Held by an update only while it writes in place or puts its result in.
  mutable Mutex mu_;
  Tensor value_ TUTTI_GUARDED_BY(mu_);
  Tensor spare_ TUTTI_GUARDED_BY(mu_);  // the previous version's memory, reused when its pins are gone
  // Where their memory is from, to be compared only; null: from whoever assigned it.
  const Allocator* value_from_ TUTTI_GUARDED_BY(mu_) = nullptr;
  const Allocator* spare_from_ TUTTI_GUARDED_BY(mu_) = nullptr;
  std::uint64_t version_ TUTTI_GUARDED_BY(mu_) = 0;
};

// Locks one or more variables (a weight and its optimiser slots) for one update, in address order, so
// that concurrent updates cannot deadlock. Duplicates are an error.
//
//   TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin(vars, false));
//   read update.old_value(i), write update.new_value(i), element by element;
//   update.commit();
//
// While it is open its thread must not read those variables by other ways: an update in place keeps readers out.
// Destroyed without commit, it leaves in-place changes of variables whose memory was shared untouched and
// the others in an undefined mixture: check everything before the first write.
class VariableUpdate {
 public:
  // kFailedPrecondition "Attempting to use uninitialized value NAME" when a variable has no value.
  // `copy_old`: new memory starts as a copy of the old (for sparse updates that touch some rows).
  // `fresh`: where new memory comes from. A second buffer from elsewhere than that is given up for one from there.
  static Result<VariableUpdate> begin(std::span<const std::shared_ptr<ResourceSlot>> slots, bool copy_old,
                                      Allocator& fresh = heap_allocator());
  VariableUpdate(VariableUpdate&&) noexcept;
  VariableUpdate& operator=(VariableUpdate&&) = delete;
  ~VariableUpdate();

  const Tensor& old_value(int i) const;
  // Same dtype and shape; may be the same memory as old_value(i).
  Tensor& new_value(int i);
  void commit();

 private:
  struct State;
  explicit VariableUpdate(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The variable in `slot`: null when the slot is empty or holds something else.
std::shared_ptr<Variable> variable_in(const ResourceSlot& slot);

}  // namespace tutti
