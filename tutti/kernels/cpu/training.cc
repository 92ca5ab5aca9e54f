#include "tutti/kernels/cpu/training.h"

#include <algorithm>
#include <array>
#include <complex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::cpu {
namespace {

bool bool_attr(const KernelInit& init, std::string_view name, bool otherwise) {
  auto it = init.attrs.find(name);
  const bool* value = it == init.attrs.end() ? nullptr : it->second.get<bool>();
  return value != nullptr ? *value : otherwise;
}

UpdateRule with_nesterov(UpdateRule rule) {
  switch (rule) {
    case UpdateRule::kMomentum:
      return UpdateRule::kNesterovMomentum;
    case UpdateRule::kKerasMomentum:
      return UpdateRule::kKerasNesterov;
    case UpdateRule::kAdam:
      return UpdateRule::kNesterovAdam;
    default:
      return rule;
  }
}

// Constants of a loop in its compute type.
struct Scalars {
  alignas(64) std::array<char, kMaxUpdateScalars * sizeof(std::complex<double>)> bytes;
};

class ApplyKernel : public Kernel {
 public:
  ApplyKernel(UpdateRule rule, std::string inputs, const KernelInit& init)
      : name_(init.op),
        inputs_(std::move(inputs)),
        rule_(bool_attr(init, "use_nesterov", false) ? with_nesterov(rule) : rule),
        flag_(rule == UpdateRule::kAdagrad ? bool_attr(init, "update_slots", true)
                                           : bool_attr(init, "multiply_linear_by_lr", false)),
        dtype_(init.attr<DType>("T")),
        wide_(compute_dtype(dtype_)),
        size_(static_cast<std::int64_t>(dtype_size(dtype_))),
        returns_ref_(!init.output_types.empty()),
        grad_(static_cast<int>(inputs_.find('g'))),
        indices_(inputs_.find('i') == std::string::npos ? -1 : static_cast<int>(inputs_.find('i'))),
        states_(update_states(rule_)),
        scalar_type_(wide_ == DType::kComplex128 ? wide_ : DType::kDouble),
        read_scalar_(find_convert(dtype_, scalar_type_)),
        write_scalars_(find_convert(scalar_type_, wide_)),
        widen_(wide_ == dtype_ ? nullptr : find_convert(dtype_, wide_)),
        narrow_(wide_ == dtype_ ? nullptr : find_convert(wide_, dtype_)) {}

  Status compute(KernelContext& context) override {
    Slots slots;
    TUTTI_RETURN_IF_ERROR(find_slots(context, &slots));
    bool root = false;
    Scalars scalars;
    TUTTI_RETURN_IF_ERROR(read_scalars(context, &scalars, &root));
    const UpdateLoop loop = find_update(rule_, wide_, root);
    if (loop == nullptr) return unimplemented(name_, " of ", dtype_name(dtype_), " is not supported");

    const std::span<const std::shared_ptr<ResourceSlot>> used(slots.data(), static_cast<std::size_t>(states_));
    Result<VariableUpdate> update = VariableUpdate::begin(used, indices_ >= 0, version_memory(context));
    if (!update.ok()) return update.status().with_context(name_);
    TUTTI_RETURN_IF_ERROR(check_states(*update, used));
    const Tensor& grad = context.input(grad_);
    if (indices_ < 0) {
      TUTTI_RETURN_IF_ERROR(check_dense(update->old_value(0), grad));
      apply_dense(*update, grad, scalars, loop, context.team());
    } else {
      TUTTI_RETURN_IF_ERROR(check_sparse(update->old_value(0), grad, context.input(indices_)));
      apply_rows(*update, grad, context.input(indices_), scalars, loop, context.team());
    }
    update->commit();
    if (returns_ref_) context.set_output_ref(0, slots[0]);
    return {};
  }

 private:
  using Slots = std::array<std::shared_ptr<ResourceSlot>, kMaxUpdateStates>;
  struct Pointers {
    std::array<const void*, kMaxUpdateStates> old;
    std::array<void*, kMaxUpdateStates> fresh;
  };

  // A version that somebody holds while it is updated is usually one that another task reads: the next is made where
  // it can be sent from without a copy.
  static Allocator& version_memory(KernelContext& context) {
    Allocator* sent = context.step().sent_values;
    return sent != nullptr ? *sent : heap_allocator();
  }

  Status find_slots(KernelContext& context, Slots* slots) const {
    for (int i = 0; i < states_; ++i) {
      if (!returns_ref_) {
        TUTTI_ASSIGN_OR_RETURN((*slots)[i], input_slot(context, i));
        continue;
      }
      (*slots)[i] = context.input_ref(i);
      if (!(*slots)[i]) return invalid_argument(name_, ": input ", i, " is not a variable of this task");
    }
    return {};
  }

  Status read_scalars(KernelContext& context, Scalars* scalars, bool* root) const {
    if (scalar_type_ == DType::kComplex128) return read_scalars_as<std::complex<double>>(context, scalars, root);
    return read_scalars_as<double>(context, scalars, root);
  }

  // N is scalar_type_.
  template <typename N>
  Status read_scalars_as(KernelContext& context, Scalars* scalars, bool* root) const {
    std::array<N, kMaxUpdateScalars> values{};
    std::size_t count = 0;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i] != 's' && inputs_[i] != 'n') continue;
      const Tensor& value = context.input(static_cast<int>(i));
      if (value.num_elements() != 1 || value.rank() != 0) {
        return invalid_argument(name_, ": input ", i, " must be a scalar, got shape ", value.shape());
      }
      if (inputs_[i] == 'n') {
        values[count++] = static_cast<double>(value.scalar<std::int64_t>());
      } else {
        read_scalar_(value.raw(), &values[count++], 1);
      }
    }
    const std::span<const N> given(values.data(), count);
    if constexpr (std::is_same_v<N, double>) {
      const Status meaning = check_scalars(rule_, given, flag_, indices_ >= 0);
      if (!meaning.ok()) return meaning.with_context(name_);
      *root = rule_ == UpdateRule::kFtrl && given.back() == -0.5;
    }
    const std::array<N, kMaxUpdateScalars> constants = prepare_scalars(rule_, given, flag_);
    write_scalars_(constants.data(), scalars->bytes.data(), kMaxUpdateScalars);
    return {};
  }

  Status check_states(const VariableUpdate& update, std::span<const std::shared_ptr<ResourceSlot>> slots) const {
    for (int i = 0; i < states_; ++i) {
      const Tensor& state = update.old_value(i);
      if (state.dtype() != dtype_) {
        return invalid_argument(name_, ": variable ", printable(slots[i]->name()), " is ", dtype_name(state.dtype()),
                                ", wanted ", dtype_name(dtype_));
      }
      if (state.shape() != update.old_value(0).shape()) {
        return invalid_argument(name_, ": var and slot ", printable(slots[i]->name()),
                                " do not have the same shape: ", update.old_value(0).shape(), " and ", state.shape());
      }
    }
    return {};
  }

  Status check_dense(const Tensor& var, const Tensor& grad) const {
    if (grad.shape() == var.shape()) return {};
    return invalid_argument(name_, ": var and grad do not have the same shape: ", var.shape(), " and ", grad.shape());
  }

  Status check_sparse(const Tensor& var, const Tensor& grad, const Tensor& indices) const {
    if (var.rank() < 1) return invalid_argument(name_, ": var must be at least 1 dimensional, got ", var.shape());
    if (indices.rank() != 1) return invalid_argument(name_, ": indices must be one-dimensional, got ", indices.shape());
    const bool fits =
        grad.rank() == var.rank() && grad.dim(0) == indices.dim(0) &&
        std::equal(var.shape().dims().begin() + 1, var.shape().dims().end(), grad.shape().dims().begin() + 1);
    if (!fits) {
      return invalid_argument(name_, ": grad of shape ", grad.shape(), " does not fit ", indices.dim(0),
                              " rows of var of shape ", var.shape());
    }
    for (std::int64_t i = 0; i < indices.num_elements(); ++i) {
      const std::int64_t row = index_at(indices.raw(), indices.dtype(), i);
      if (row < 0 || row >= var.dim(0)) {
        return index_error(i, row, var.dim(0));
      }
    }
    return {};
  }

  // TensorFlow has two ways to say it.
  Status index_error(std::int64_t at, std::int64_t row, std::int64_t rows) const {
    if (rule_ == UpdateRule::kKerasMomentum || rule_ == UpdateRule::kKerasNesterov) {
      return invalid_argument("indices[", at, "] = ", row, " is not in [0, ", rows, ")");
    }
    return invalid_argument("Index ", row, " at offset ", at, " in indices is out of range [0, ", rows, ")");
  }

  void apply_dense(VariableUpdate& update, const Tensor& grad, const Scalars& scalars, UpdateLoop loop,
                   Team& team) const {
    parallel_for(team, grad.num_elements(), kElementGrain / 2, [&](std::int64_t begin, std::int64_t end) {
      Pointers at;
      for (int s = 0; s < states_; ++s) {
        at.old[s] = static_cast<const char*>(update.old_value(s).raw()) + begin * size_;
        at.fresh[s] = static_cast<char*>(update.new_value(s).raw()) + begin * size_;
      }
      run(loop, at, static_cast<const char*>(grad.raw()) + begin * size_, scalars, end - begin);
    });
  }

  // New memory holds a copy of the old: rows are changed in place there. An index may repeat, and its updates go one
  // after the other; so each thread takes certain rows, in the order of the list, and not a part of the list.
  void apply_rows(VariableUpdate& update, const Tensor& grad, const Tensor& indices, const Scalars& scalars,
                  UpdateLoop loop, Team& team) const {
    const int pieces = parallel_pieces(team, grad.num_elements(), kElementGrain / 2);
    team.run(pieces, [&](int piece) { apply_rows_of(piece, pieces, update, grad, indices, scalars, loop); });
  }

  void apply_rows_of(std::int64_t piece, std::int64_t pieces, VariableUpdate& update, const Tensor& grad,
                     const Tensor& indices, const Scalars& scalars, UpdateLoop loop) const {
    // Rows of a large table lie far apart: asking for them some rounds ahead hides the way to memory.
    constexpr std::int64_t kAhead = 4;
    const std::int64_t count = indices.num_elements();
    const std::int64_t row_bytes = elements_from(update.old_value(0).shape(), 1) * size_;
    const std::int64_t row_size = row_bytes / size_;
    std::array<char*, kMaxUpdateStates> base{};
    for (int s = 0; s < states_; ++s) base[s] = static_cast<char*>(update.new_value(s).raw());
    const auto row_at = [&](std::int64_t i) { return index_at(indices.raw(), indices.dtype(), i); };
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = row_at(i);
      if (pieces > 1 && row % pieces != piece) continue;
      if (i + kAhead < count) prefetch(base, row_at(i + kAhead) * row_bytes, row_bytes);
      Pointers at;
      for (int s = 0; s < states_; ++s) at.old[s] = at.fresh[s] = base[s] + row * row_bytes;
      run(loop, at, static_cast<const char*>(grad.raw()) + i * row_bytes, scalars, row_size);
    }
  }

  void prefetch(const std::array<char*, kMaxUpdateStates>& base, std::int64_t offset, std::int64_t bytes) const {
    constexpr std::int64_t kLine = 64, kMost = 4 * kLine;
    for (int s = 0; s < states_; ++s) {
      for (std::int64_t b = 0; b < std::min(bytes, kMost); b += kLine) __builtin_prefetch(base[s] + offset + b, 1);
    }
  }

  void run(UpdateLoop loop, const Pointers& at, const char* grad, const Scalars& scalars, std::int64_t n) const {
    if (widen_ == nullptr) return loop(at.old.data(), at.fresh.data(), grad, scalars.bytes.data(), n);
    constexpr std::int64_t kBlockBytes = 2048;
    alignas(64) char states[kMaxUpdateStates][kBlockBytes];
    alignas(64) char wide_grad[kBlockBytes];
    const std::int64_t block = kBlockBytes / static_cast<std::int64_t>(dtype_size(wide_));
    for (std::int64_t i = 0; i < n; i += block) {
      const std::int64_t count = std::min(block, n - i);
      Pointers wide;
      for (int s = 0; s < states_; ++s) {
        widen_(static_cast<const char*>(at.old[s]) + i * size_, states[s], count);
        wide.old[s] = wide.fresh[s] = states[s];
      }
      widen_(grad + i * size_, wide_grad, count);
      loop(wide.old.data(), wide.fresh.data(), wide_grad, scalars.bytes.data(), count);
      for (int s = 0; s < states_; ++s) narrow_(states[s], static_cast<char*>(at.fresh[s]) + i * size_, count);
    }
  }

  const std::string name_;
  const std::string inputs_;
  const UpdateRule rule_;
  const bool flag_;
  const DType dtype_;
  const DType wide_;
  const std::int64_t size_;
  const bool returns_ref_;
  const int grad_;
  const int indices_;  // -1: dense
  const int states_;
  const DType scalar_type_;
  const ConvertFn read_scalar_;
  const ConvertFn write_scalars_;
  const ConvertFn widen_;
  const ConvertFn narrow_;
};

}  // namespace

KernelFactory apply_kernel(UpdateRule rule, std::string inputs) {
  return [rule, inputs = std::move(inputs)](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<ApplyKernel>(rule, inputs, init));
  };
}

}  // namespace tutti::cpu
