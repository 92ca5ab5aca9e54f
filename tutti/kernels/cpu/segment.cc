#include "tutti/kernels/cpu/segment.h"

#include <limits>
#include <memory>

#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/row_loops.h"

namespace tutti::cpu {

Result<std::int64_t> unsorted_segments(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, read_scalar_integer(ctx.input(2), "num_segments"));
  if (segments < 0) return invalid_argument("Input num_segments == ", segments, " must not be negative.");
  bool fits = data.rank() >= ids.rank();
  for (int d = 0; fits && d < ids.rank(); ++d) fits = data.dim(d) == ids.dim(d);
  if (!fits) {
    return invalid_argument("data.shape = ", data.shape(), " does not start with segment_ids.shape = ", ids.shape());
  }
  if (ids.rank() == 0 && data.rank() == kMaxRank) return invalid_argument("data have too many dimensions");
  for (std::int64_t i = 0; i < ids.num_elements(); ++i) {
    const std::int64_t id = index_at(ids.raw(), ids.dtype(), i);
    if (id >= segments) return invalid_argument("segment_ids[", i, "] = ", id, " is out of range [0, ", segments, ")");
  }
  return segments;
}

Result<std::int64_t> sorted_segments(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  if (ids.rank() != 1) return invalid_argument("segment_ids should be a vector, not ", ids.shape());
  if (data.rank() < 1 || data.dim(0) != ids.dim(0)) {
    return invalid_argument("segment_ids ", ids.shape(), " should be the same size as dimension 0 of input ",
                            data.shape());
  }
  std::int64_t previous = 0;
  for (std::int64_t i = 0; i < ids.num_elements(); ++i) {
    const std::int64_t id = index_at(ids.raw(), ids.dtype(), i);
    if (id < previous) {
      return invalid_argument("segment ids must be >= 0 and not decrease: segment_ids[", i, "] = ", id);
    }
    previous = id;
  }
  if (previous == std::numeric_limits<std::int64_t>::max())
    return invalid_argument("segment id ", previous, " is too large");
  return ids.num_elements() == 0 ? 0 : previous + 1;
}

Result<Tensor*> allocate_segments(KernelContext& ctx, std::int64_t segments) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  DimList dims;
  dims.push_back(segments);
  for (int d = ids.rank(); d < data.rank(); ++d) dims.push_back(data.dim(d));
  if (dims.size > kMaxRank) return invalid_argument("data have too many dimensions: ", data.rank());
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  return ctx.allocate_output(0, shape);
}

namespace {

// Row i of `data` is added to row ids[i] of `out`; negative ids are dropped. REQUIRES: ids below out's rows.
void add_rows(const BinaryFunction& add, const Tensor& data, const Tensor& ids, std::int64_t row, Tensor& out) {
  const DType dtype = data.dtype();
  const std::int64_t count = ids.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t id = index_at(ids.raw(), ids.dtype(), i);
    if (id < 0) continue;
    void* sum = at_element(dtype, out.raw(), id * row);
    add(sum, at_element(dtype, data.raw(), i * row), sum, row, 1, 1);
  }
}

// Output 0: `segments` rows of sums.
Status sum_segments(KernelContext& ctx, std::int64_t segments) {
  const Tensor& data = ctx.input(0);
  const Tensor& ids = ctx.input(1);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, allocate_segments(ctx, segments));
  const std::int64_t row = elements_from(data.shape(), ids.rank());
  if (const RowLoops loops = internal::find_simd_row_loops(data.dtype())) {
    scatter_rows(ctx.team(), loops, data, ids, nullptr, nullptr, row, *out);
    return {};
  }
  TUTTI_RETURN_IF_ERROR(zero_cancellable(ctx, *out));
  const BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, data.dtype());
  if (!add) return unimplemented("no sums of ", dtype_name(data.dtype()));
  if (row > 0) add_rows(add, data, ids, row, *out);
  return {};
}

}  // namespace

Status unsorted_segment_sum(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, unsorted_segments(ctx));
  return sum_segments(ctx, segments);
}

Status segment_sum(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, sorted_segments(ctx));
  return sum_segments(ctx, segments);
}

namespace {

// kProduct: multiplied instead of added.
template <bool kProduct, typename T>
void cumulate(const T* from, T* to, std::int64_t outer, std::int64_t length, std::int64_t inner, bool exclusive,
              bool reverse) {
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t k = 0; k < inner; ++k) {
      T sum = kProduct ? static_cast<T>(1.0f) : T{};
      for (std::int64_t step = 0; step < length; ++step) {
        const std::int64_t i = reverse ? length - 1 - step : step;
        const std::int64_t at = (o * length + i) * inner + k;
        const T value = from[at];
        const T next = kProduct ? multiply_wrapping(sum, value) : add_wrapping(sum, value);
        to[at] = exclusive ? sum : next;
        sum = next;
      }
    }
  }
}

template <bool kProduct>
class Cumulate : public Kernel {
 public:
  explicit Cumulate(const KernelInit& init)
      : exclusive_(init.attr<bool>("exclusive")), reverse_(init.attr<bool>("reverse")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& input = ctx.input(0);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_scalar_integer(ctx.input(1), "axis"));
    TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, input.rank()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, input.shape()));
    if (out->num_elements() == 0) return {};
    return with_number(
        input.dtype(),
        [&]<typename T>(T) -> Status {
          cumulate<kProduct>(input.data<T>(), out->data<T>(), elements_before(input.shape(), at), input.dim(at),
                             elements_from(input.shape(), at + 1), exclusive_, reverse_);
          return {};
        },
        [&]() -> Status { return unimplemented("sums and products of ", dtype_name(input.dtype())); });
  }

 private:
  const bool exclusive_;
  const bool reverse_;
};

}  // namespace

KernelFactory cumsum_kernel() { return kernel_of<Cumulate<false>>(); }
KernelFactory cumprod_kernel() { return kernel_of<Cumulate<true>>(); }

}  // namespace tutti::cpu
