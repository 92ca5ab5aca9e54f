#include "tutti/kernels/cpu/unique_slices.h"

#include <bit>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti::cpu {
namespace {

// x as [outer, size, inner]: slice i is all of [*, i, *].
struct SliceLayout {
  std::int64_t outer = 1, size = 0, inner = 1;
  int axis = 0;
  std::int64_t at(std::int64_t o, std::int64_t slice) const { return (o * size + slice) * inner; }
};

Result<SliceLayout> read_layout(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SliceLayout layout;
  const Tensor* axis = ctx.num_inputs() > 1 ? &ctx.input(1) : nullptr;
  if (axis != nullptr && axis->rank() != 1) return invalid_argument("axis expects a 1D vector, not ", axis->shape());
  if (axis != nullptr && axis->num_elements() > 1) {
    return invalid_argument("axis does not support input tensors larger than 1 element, got ", axis->num_elements());
  }
  if (axis == nullptr || axis->num_elements() == 0) {
    if (x.rank() != 1) return invalid_argument("unique expects a 1D vector, not ", x.shape());
  } else {
    TUTTI_ASSIGN_OR_RETURN(layout.axis, normalise_axis(index_at(axis->raw(), axis->dtype(), 0), x.rank()));
  }
  layout.outer = elements_before(x.shape(), layout.axis);
  layout.size = x.dim(layout.axis);
  layout.inner = elements_from(x.shape(), layout.axis + 1);
  return layout;
}

void append_bits(std::string& key, std::uint64_t bits) {
  for (int i = 0; i < 8; ++i) key.push_back(static_cast<char>(bits >> (8 * i)));
}

// Appends what tells element i from others; false when it equals nothing, not even itself.
template <typename T>
bool append_key(std::string& key, const T& element) {
  if constexpr (std::is_same_v<T, std::string>) {
    append_bits(key, element.size());
    key += element;
    return true;
  } else if constexpr (std::is_integral_v<T>) {
    append_bits(key, static_cast<std::uint64_t>(element));
    return true;
  } else {
    double value = 0;
    if constexpr (std::is_same_v<T, double>) {
      value = element;
    } else {
      value = static_cast<float>(element);
    }
    append_bits(key, std::bit_cast<std::uint64_t>(value == 0 ? 0.0 : value));  // both zeros are one
    return !std::isnan(value);
  }
}

void set_kind(Tensor& to, std::int64_t i, std::int64_t value) {
  if (to.dtype() == DType::kInt32) {
    to.data<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  } else {
    to.data<std::int64_t>()[i] = value;
  }
}

using Firsts = std::vector<std::int64_t>;

// The first slice of each kind; `kinds` gets the number of each slice's.
template <typename T>
Firsts find_kinds(const Tensor& x, const SliceLayout& layout, Tensor& kinds) {
  Firsts firsts;
  std::unordered_map<std::string, std::int64_t> seen;
  std::string key;
  const T* elements = x.data<T>();
  for (std::int64_t slice = 0; slice < layout.size; ++slice) {
    key.clear();
    bool equals_itself = true;
    for (std::int64_t o = 0; o < layout.outer; ++o) {
      for (std::int64_t i = 0; i < layout.inner; ++i)
        equals_itself &= append_key(key, elements[layout.at(o, slice) + i]);
    }
    const std::int64_t next = std::ssize(firsts);
    const std::int64_t kind = equals_itself ? seen.try_emplace(key, next).first->second : next;
    if (kind == next) firsts.push_back(slice);
    set_kind(kinds, slice, kind);
  }
  return firsts;
}

Result<Firsts> find_kinds(const Tensor& x, const SliceLayout& layout, Tensor& kinds) {
  if (x.num_elements() == 0) {  // slices of nothing are all the same
    zero_elements(kinds.dtype(), kinds.raw(), kinds.num_elements());
    return Firsts(layout.size > 0 ? 1 : 0, 0);
  }
  if (x.dtype() == DType::kString) return find_kinds<std::string>(x, layout, kinds);
  if (x.dtype() == DType::kBool) return find_kinds<bool>(x, layout, kinds);
  return with_real(
      x.dtype(), [&]<typename T>(T) -> Result<Firsts> { return find_kinds<T>(x, layout, kinds); },
      [&]() -> Result<Firsts> { return unimplemented("Unique of ", dtype_name(x.dtype())); });
}

}  // namespace

Status unique_slices(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(const SliceLayout layout, read_layout(ctx));
  TUTTI_RETURN_IF_ERROR(check_fits({&layout.size, 1}, ctx.output_type(1), "size"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * idx, ctx.allocate_output(1, Shape{layout.size}));
  TUTTI_ASSIGN_OR_RETURN(const Firsts firsts, find_kinds(x, layout, *idx));
  const std::int64_t count = std::ssize(firsts);
  Shape shape = x.shape();
  shape.set_dim(layout.axis, count);
  TUTTI_ASSIGN_OR_RETURN(Tensor * y, ctx.allocate_output(0, shape));
  for (std::int64_t o = 0; o < layout.outer && y->num_elements() > 0; ++o) {
    for (std::int64_t i = 0; i < count; ++i) {
      copy_elements(x.dtype(), at_element(x.dtype(), y->raw(), (o * count + i) * layout.inner),
                    at_element(x.dtype(), x.raw(), layout.at(o, firsts[static_cast<std::size_t>(i)])), layout.inner);
    }
  }
  if (ctx.num_outputs() < 3) return {};
  std::vector<std::int64_t> counts(static_cast<std::size_t>(count), 0);
  for (std::int64_t slice = 0; slice < layout.size; ++slice) {
    ++counts[static_cast<std::size_t>(index_at(idx->raw(), idx->dtype(), slice))];
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(2, Shape{count}));
  write_indices(counts, *out);
  return {};
}

}  // namespace tutti::cpu
