#include "tutti/kernels/cpu/fill.h"

#include <cmath>
#include <limits>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/tensor_list.h"
#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"

namespace tutti::cpu {

Status fill(KernelContext& ctx) {
  const Tensor& value = ctx.input(1);
  if (value.rank() > 1 || value.num_elements() != 1) {
    return invalid_argument("value must be a scalar, got shape ", value.shape());
  }
  DimList dims;  // a scalar is a vector of one, as it was for the oldest graphs
  TUTTI_RETURN_IF_ERROR(read_dims(ctx.input(0), "dims", &dims));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  return fill_cancellable(ctx, *out, value.raw());
}

namespace {

// The recursion is as deep as variants lie in one another, which has a limit. One object may lie in another many times,
// so the zeros of each are made once.
class VariantZeros {
 public:
  explicit VariantZeros(KernelContext& ctx) : ctx_(ctx) {}

  Result<Variant> like(const Variant& variant) {
    if (!variant.has_value()) return Variant();
    if (auto known = zeros_.find(variant.object().get()); known != zeros_.end()) return known->second;
    Result<Variant> zeros = like_object(variant);
    if (zeros.ok()) zeros_.emplace(variant.object().get(), *zeros);
    return zeros;
  }

 private:
  Result<Variant> like_object(const Variant& variant) {
    if (const auto* list = variant.get<TensorList>()) {
      TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> items, like_all(list->items()));
      return Variant(std::make_shared<const TensorList>(list->dtype(), list->element_shape(), std::move(items)));
    }
    if (const auto* optional = variant.get<Optional>()) {
      TUTTI_ASSIGN_OR_RETURN(std::vector<Tensor> components, like_all(optional->components()));
      return Variant(std::make_shared<const Optional>(std::move(components)));
    }
    return unimplemented("there are no zeros like a ", variant.object()->type_name());
  }

  Result<std::vector<Tensor>> like_all(std::vector<Tensor> tensors) {
    for (Tensor& tensor : tensors) {
      if (!tensor.has_value()) continue;
      TUTTI_ASSIGN_OR_RETURN(tensor, like_tensor(tensor));
    }
    return tensors;
  }

  Result<Tensor> like_tensor(const Tensor& tensor) {
    if (tensor.dtype() == DType::kResource) return unimplemented("there are no zeros like a resource");
    TUTTI_ASSIGN_OR_RETURN(Tensor zeros, ctx_.allocate_temp(tensor.dtype(), tensor.shape()));
    if (tensor.dtype() != DType::kVariant) {
      zero_elements(zeros.dtype(), zeros.raw(), zeros.num_elements());
      return zeros;
    }
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(zeros.data<Variant>()[i], like(tensor.data<Variant>()[i]));
    }
    return zeros;
  }

  KernelContext& ctx_;
  std::unordered_map<const VariantObject*, Variant> zeros_;
};

}  // namespace

Status zeros_like(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  if (input.dtype() == DType::kVariant) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, input.shape()));
    VariantZeros zeros(ctx);
    for (std::int64_t i = 0; i < input.num_elements(); ++i) {
      TUTTI_ASSIGN_OR_RETURN(out->data<Variant>()[i], zeros.like(input.data<Variant>()[i]));
    }
    return {};
  }
  if (input.dtype() == DType::kResource) return unimplemented("there are no zeros like a resource");
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
  zero_elements(out->dtype(), out->raw(), out->num_elements());
  return {};
}

Status ones_like(KernelContext& ctx) {
  const Tensor& input = ctx.input(0);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
  if (input.dtype() == DType::kBool) {
    std::fill_n(out->data<bool>(), out->num_elements(), true);
    return {};
  }
  return with_number(
      input.dtype(),
      [&]<typename T>(T) -> Status {
        std::fill_n(out->data<T>(), out->num_elements(), static_cast<T>(1.0f));
        return {};
      },
      [&]() -> Status { return unimplemented("there are no ones of ", dtype_name(input.dtype())); });
}

namespace {

// How many steps of `delta` lead from `start` to `limit`, not reaching it; -1 when too many.
template <typename T>
std::int64_t count_steps(T start, T limit, T delta) {
  if constexpr (std::is_integral_v<T>) {
    // Differences of two T fit in 64 unsigned bits whatever their signs.
    const std::uint64_t length = limit > start ? static_cast<std::uint64_t>(limit) - static_cast<std::uint64_t>(start)
                                               : static_cast<std::uint64_t>(start) - static_cast<std::uint64_t>(limit);
    const std::uint64_t step = delta > 0 ? static_cast<std::uint64_t>(delta) : 0 - static_cast<std::uint64_t>(delta);
    const std::uint64_t count = length / step + (length % step != 0);
    return count > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())
               ? -1
               : static_cast<std::int64_t>(count);
  } else {
    const double count =
        std::ceil(std::abs((static_cast<double>(limit) - static_cast<double>(start)) / static_cast<double>(delta)));
    return count < 9e18 ? static_cast<std::int64_t>(count) : -1;  // also when it is NaN
  }
}

template <typename T>
Status range_of(KernelContext& ctx) {
  // The 16-bit floats count in float.
  using A = std::conditional_t<std::is_integral_v<T>, T, typename ArithmeticOf<T>::type>;
  for (int i = 0; i < 3; ++i) {
    if (ctx.input(i).num_elements() != 1) {
      return invalid_argument("start, limit and delta must be scalars, not ", ctx.input(i).shape());
    }
  }
  const A start = static_cast<A>(ctx.input(0).scalar<T>());
  const A limit = static_cast<A>(ctx.input(1).scalar<T>());
  const A delta = static_cast<A>(ctx.input(2).scalar<T>());
  if (delta == A{0}) return invalid_argument("Requires delta != 0: ", delta);
  if (delta > A{0} && start > limit) {
    return invalid_argument("Requires start <= limit when delta > 0: ", start, "/", limit);
  }
  if (delta < A{0} && start < limit) {
    return invalid_argument("Requires start >= limit when delta < 0: ", start, "/", limit);
  }
  const std::int64_t count = count_steps(start, limit, delta);
  if (count < 0) return invalid_argument("Requires ((limit - start) / delta) to fit: ", start, "/", limit, "/", delta);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{count}));
  T* to = out->data<T>();
  // From the start each time: adding up would add up rounding errors too.
  return in_cancellable_blocks(ctx, count, sizeof(T), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      to[i] = static_cast<T>(add_wrapping(start, multiply_wrapping(static_cast<A>(i), delta)));
    }
  });
}

}  // namespace

Status range(KernelContext& ctx) {
  return with_real(
      ctx.output_type(0), [&]<typename T>(T) -> Status { return range_of<T>(ctx); },
      [&]() -> Status { return unimplemented("a range of ", dtype_name(ctx.output_type(0))); });
}

namespace {

template <typename T>
Status lin_space_of(KernelContext& ctx) {
  using A = typename ArithmeticOf<T>::type;
  if (ctx.input(0).rank() != 0 || ctx.input(1).rank() != 0) {
    return invalid_argument("start and stop must be scalars, not ", ctx.input(0).shape(), " and ",
                            ctx.input(1).shape());
  }
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t count, read_scalar_integer(ctx.input(2), "num"));
  if (count <= 0) return invalid_argument("Requires num > 0: ", count);
  const A start = static_cast<A>(ctx.input(0).scalar<T>());
  const A stop = static_cast<A>(ctx.input(1).scalar<T>());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{count}));
  T* to = out->data<T>();
  to[0] = static_cast<T>(start);
  if (count == 1) return {};
  const A step = (stop - start) / static_cast<A>(count - 1);
  TUTTI_RETURN_IF_ERROR(in_cancellable_blocks(ctx, count - 2, sizeof(T), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin + 1; i <= end; ++i) to[i] = static_cast<T>(start + step * static_cast<A>(i));
  }));
  to[count - 1] = static_cast<T>(stop);
  return {};
}

}  // namespace

Status lin_space(KernelContext& ctx) {
  switch (ctx.output_type(0)) {
    case DType::kFloat:
      return lin_space_of<float>(ctx);
    case DType::kDouble:
      return lin_space_of<double>(ctx);
    case DType::kHalf:
      return lin_space_of<Half>(ctx);
    case DType::kBfloat16:
      return lin_space_of<Bfloat16>(ctx);
    default:
      return unimplemented("LinSpace of ", dtype_name(ctx.output_type(0)));
  }
}

namespace {

std::int64_t class_at(const Tensor& indices, std::int64_t i) {
  switch (indices.dtype()) {
    case DType::kUint8:
      return indices.data<std::uint8_t>()[i];
    case DType::kInt8:
      return indices.data<std::int8_t>()[i];
    default:
      return index_at(indices.raw(), indices.dtype(), i);
  }
}

class OneHot : public Kernel {
 public:
  explicit OneHot(const KernelInit& init) : axis_(init.attr<std::int64_t>("axis")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& indices = ctx.input(0);
    const Tensor& on = ctx.input(2);
    const Tensor& off = ctx.input(3);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t depth, read_scalar_integer(ctx.input(1), "depth"));
    if (depth < 0) return invalid_argument("depth must be non-negative, got: ", depth);
    if (on.rank() != 0 || off.rank() != 0) {
      return invalid_argument("on_value and off_value must be scalars, got ", on.shape(), " and ", off.shape());
    }
    const int rank = indices.rank();
    if (rank == kMaxRank) return invalid_argument("indices have too many dimensions: ", rank);
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis_, rank + 1));
    DimList dims;
    for (int d = 0; d < at; ++d) dims.push_back(indices.dim(d));
    dims.push_back(depth);
    for (int d = at; d < rank; ++d) dims.push_back(indices.dim(d));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    TUTTI_RETURN_IF_ERROR(fill_cancellable(ctx, *out, off.raw()));
    if (out->num_elements() == 0) return {};
    const std::int64_t inner = elements_from(indices.shape(), at);
    const std::int64_t count = indices.num_elements();
    with_element(out->dtype(), [&]<typename E>(const E&) {
      E* to = static_cast<E*>(out->raw());
      const E& value = *static_cast<const E*>(on.raw());
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t hot = class_at(indices, i);
        if (hot >= 0 && hot < depth) to[(i / inner * depth + hot) * inner + i % inner] = value;
      }
    });
    return {};
  }

 private:
  const std::int64_t axis_;
};

}  // namespace

KernelFactory one_hot_kernel() { return kernel_of<OneHot>(); }

}  // namespace tutti::cpu
