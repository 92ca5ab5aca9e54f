#include "tutti/ops/host/internal/sequence_batch.h"

#include <algorithm>
#include <limits>

#include "tutti/kernels/cpu/element.h"

namespace tutti {
namespace {

// The steps of one list of one example.
struct FoundList {
  bool found = false;
  std::vector<FeatureRef> steps;

  std::int64_t values() const {
    std::int64_t count = 0;
    for (const FeatureRef& step : steps) count += step.count;
    return count;
  }
};

class SequenceBatch {
 public:
  SequenceBatch(KernelContext& ctx, std::span<const std::string> serialized, std::span<const std::string> names,
                const SequenceSpec& spec, bool single)
      : ctx_(ctx), serialized_(serialized), names_(names), spec_(spec), single_(single), table_(keys_of(spec)) {
    lists_.resize(serialized.size() * static_cast<std::size_t>(table_.size()));
  }

  Status find() {
    for (std::size_t i = 0; i < serialized_.size(); ++i) {
      const bool whole = for_each_message(serialized_[i], 2, [&](std::string_view lists) {
        return for_each_entry(lists, [&](std::string_view key, std::string_view list) {
          const int slot = table_.find(key);
          return slot == KeyTable::kNone || read_list(list, &at(i, static_cast<std::size_t>(slot)));
        });
      });
      if (!whole) {
        return invalid_argument("Name: ", name(i), ", Index: ", i, ".  Could not parse the feature lists of ",
                                serialized_[i].size(), " bytes");
      }
      TUTTI_RETURN_IF_ERROR(check(i));
    }
    return {};
  }

  Status give(const SequenceOutputs& out) {
    for (std::size_t i = 0; i < spec_.sparse.size(); ++i) TUTTI_RETURN_IF_ERROR(give_sparse(i, out));
    for (std::size_t i = 0; i < spec_.dense.size(); ++i) TUTTI_RETURN_IF_ERROR(give_dense(i, out));
    for (std::size_t i = 0; i < spec_.ragged.size(); ++i) TUTTI_RETURN_IF_ERROR(give_ragged(i, out));
    return {};
  }

 private:
  static std::vector<std::string> keys_of(const SequenceSpec& spec) {
    std::vector<std::string> keys;
    for (const ListFeature& list : spec.sparse) keys.push_back(list.key);
    for (const DenseList& list : spec.dense) keys.push_back(list.key);
    for (const ListFeature& list : spec.ragged) keys.push_back(list.key);
    return keys;
  }

  static bool read_list(std::string_view list, FoundList* to) {
    to->found = true;
    to->steps.clear();  // of equal keys the last counts
    return for_each_message(list, 1, [to](std::string_view feature) {
      to->steps.emplace_back();
      return read_feature(feature, &to->steps.back());
    });
  }

  FoundList& at(std::size_t example, std::size_t slot) {
    return lists_[example * static_cast<std::size_t>(table_.size()) + slot];
  }
  std::size_t first_ragged() const { return spec_.sparse.size() + spec_.dense.size(); }
  DType type_of(std::size_t slot) const {
    if (slot < spec_.sparse.size()) return spec_.sparse[slot].dtype;
    if (slot < first_ragged()) return spec_.dense[slot - spec_.sparse.size()].dtype;
    return spec_.ragged[slot - first_ragged()].dtype;
  }
  std::string name(std::size_t example) const { return names_.empty() ? "<unknown>" : printable(names_[example]); }

  Status check(std::size_t example) {
    for (std::size_t slot = 0; slot < static_cast<std::size_t>(table_.size()); ++slot) {
      const FoundList& list = at(example, slot);
      const std::string& key = table_.key(static_cast<int>(slot));
      const bool is_dense = slot >= spec_.sparse.size() && slot < first_ragged();
      const DenseList* dense = is_dense ? &spec_.dense[slot - spec_.sparse.size()] : nullptr;
      if (is_dense && !list.found && !dense->may_be_missing) {
        return invalid_argument("Name: ", name(example), ", Feature list '", printable(key),
                                "' is required but could not be found.  Did you mean to include it in "
                                "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?");
      }
      for (std::size_t step = 0; step < list.steps.size(); ++step) {
        const FeatureRef& feature = list.steps[step];
        if (feature.dtype != DType::kInvalid && feature.dtype != type_of(slot)) {
          return invalid_argument("Name: ", name(example), ", Feature list: ", printable(key), ", Index: ", step,
                                  ".  Data types don't match. Expected type: ", dtype_name(type_of(slot)),
                                  ", got: ", dtype_name(feature.dtype));
        }
        if (is_dense && feature.count != dense->shape.num_elements()) {
          return invalid_argument("Name: ", name(example), ", Key: ", printable(key), ", Index: ", step,
                                  ".  Number of values != expected.  values size: ", feature.count,
                                  " but output shape: ", dense->shape);
        }
      }
    }
    return {};
  }

  std::int64_t total(std::size_t slot) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < serialized_.size(); ++i) count += at(i, slot).values();
    return count;
  }
  std::int64_t most_steps(std::size_t slot) {
    std::int64_t most = 0;
    for (std::size_t i = 0; i < serialized_.size(); ++i) most = std::max(most, std::ssize(at(i, slot).steps));
    return most;
  }

  template <typename T>
  T* copy_steps(const FoundList& list, T* to) {
    for (const FeatureRef& step : list.steps) {
      if (step.count > 0) copy_feature(step, to);
      to += step.count;
    }
    return to;
  }
  // Calls fn with a value of the slot's type.
  template <typename Fn>
  void with_type(std::size_t slot, const Fn& fn) {
    if (type_of(slot) == DType::kFloat) return fn(float{});
    if (type_of(slot) == DType::kInt64) return fn(std::int64_t{});
    fn(std::string());
  }

  Status give_values(std::size_t slot, int output) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx_.allocate_output(output, Shape{total(slot)}));
    with_type(slot, [&]<typename T>(T) {
      T* to = out->data<T>();
      for (std::size_t i = 0; i < serialized_.size(); ++i) to = copy_steps(at(i, slot), to);
    });
    return {};
  }

  Status give_sparse(std::size_t slot, const SequenceOutputs& out) {
    const int i = static_cast<int>(slot);
    TUTTI_RETURN_IF_ERROR(give_values(slot, out.sparse_values + i));
    const std::int64_t rank = single_ ? 2 : 3;
    TUTTI_ASSIGN_OR_RETURN(Tensor * indices, ctx_.allocate_output(out.sparse_indices + i, Shape{total(slot), rank}));
    std::int64_t* to = indices->data<std::int64_t>();
    std::int64_t longest = 0;
    for (std::size_t example = 0; example < serialized_.size(); ++example) {
      const FoundList& list = at(example, slot);
      for (std::size_t step = 0; step < list.steps.size(); ++step) {
        longest = std::max(longest, list.steps[step].count);
        for (std::int64_t k = 0; k < list.steps[step].count; ++k) {
          if (!single_) *to++ = static_cast<std::int64_t>(example);
          *to++ = static_cast<std::int64_t>(step);
          *to++ = k;
        }
      }
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * shape, ctx_.allocate_output(out.sparse_shapes + i, Shape{rank}));
    std::int64_t* dims = shape->data<std::int64_t>();
    if (!single_) *dims++ = std::ssize(serialized_);
    *dims++ = most_steps(slot);
    *dims = longest;
    return {};
  }

  Status give_dense(std::size_t i, const SequenceOutputs& out) {
    const DenseList& dense = spec_.dense[i];
    const std::size_t slot = spec_.sparse.size() + i;
    const std::int64_t steps = most_steps(slot);
    std::vector<std::int64_t> dims;
    if (!single_) dims.push_back(std::ssize(serialized_));
    dims.push_back(steps);
    dims.insert(dims.end(), dense.shape.dims().begin(), dense.shape.dims().end());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * values, ctx_.allocate_output(out.dense_values + static_cast<int>(i), shape));
    if (values->num_elements() > 0) cpu::zero_elements(dense.dtype, values->raw(), values->num_elements());
    with_type(slot, [&]<typename T>(T) {
      const std::int64_t row = steps * dense.shape.num_elements();
      for (std::size_t k = 0; k < serialized_.size() && row > 0; ++k) {
        copy_steps(at(k, slot), values->data<T>() + static_cast<std::int64_t>(k) * row);
      }
    });
    if (out.dense_lengths < 0) return {};
    TUTTI_ASSIGN_OR_RETURN(Tensor * lengths, ctx_.allocate_output(out.dense_lengths + static_cast<int>(i),
                                                                  single_ ? Shape{} : Shape{std::ssize(serialized_)}));
    for (std::size_t k = 0; k < serialized_.size(); ++k) {
      lengths->data<std::int64_t>()[k] = std::ssize(at(k, slot).steps);
    }
    return {};
  }

  Status give_ragged(std::size_t i, const SequenceOutputs& out) {
    const std::size_t slot = first_ragged() + i;
    const int index = static_cast<int>(i);
    TUTTI_RETURN_IF_ERROR(give_values(slot, out.ragged_values + index));
    std::vector<std::int64_t> outer{0}, inner{0};
    for (std::size_t k = 0; k < serialized_.size(); ++k) {
      for (const FeatureRef& step : at(k, slot).steps) inner.push_back(inner.back() + step.count);
      outer.push_back(outer.back() + std::ssize(at(k, slot).steps));
    }
    if (single_) outer.clear();  // there is one row, and nothing to say of it
    TUTTI_RETURN_IF_ERROR(give_splits(outer, out.outer_splits + index));
    return give_splits(inner, out.inner_splits + index);
  }

  Status give_splits(const std::vector<std::int64_t>& splits, int output) {
    TUTTI_RETURN_IF_ERROR(cpu::check_fits(splits, ctx_.output_type(output), "row splits"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx_.allocate_output(output, Shape{std::ssize(splits)}));
    cpu::write_indices(splits, *out);
    return {};
  }

  KernelContext& ctx_;
  const std::span<const std::string> serialized_;
  const std::span<const std::string> names_;
  const SequenceSpec& spec_;
  const bool single_;
  const KeyTable table_;
  std::vector<FoundList> lists_;  // by example, then slot: sparse, dense, ragged
};

}  // namespace

Status parse_feature_lists(KernelContext& ctx, std::span<const std::string> serialized,
                           std::span<const std::string> names, bool single, const SequenceSpec& spec,
                           const SequenceOutputs& outputs) {
  SequenceBatch batch(ctx, serialized, names, spec, single);
  TUTTI_RETURN_IF_ERROR(batch.find());
  return batch.give(outputs);
}

}  // namespace tutti
