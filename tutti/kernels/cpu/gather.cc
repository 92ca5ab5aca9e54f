#include "tutti/kernels/cpu/gather.h"

#include <algorithm>

#include "tutti/kernels/cpu/cancellable.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

namespace {

// Gathers below this many bytes run on the calling thread.
constexpr std::int64_t kParallelGatherBytes = 512 << 10;

Status bad_index(const Shape& shape, std::int64_t position, std::int64_t value, std::int64_t limit) {
  std::string where;
  std::int64_t inner = shape.num_elements();
  for (int d = 0; d < shape.rank(); ++d) {
    inner /= shape.dim(d);
    where += str_cat(d == 0 ? "[" : ",", position / inner);
    position %= inner;
  }
  if (shape.rank() > 0) where += ']';
  return invalid_argument("indices", where, " = ", value, " is not in [0, ", limit, ")");
}

// The first position whose index is out of [0, limit), or -1.
std::int64_t first_bad_index(const Tensor& indices, std::int64_t limit) {
  return with_indices(indices, [&](auto all) -> std::int64_t {
    const auto bad = std::ranges::find_if(all, [limit](std::int64_t index) { return index < 0 || index >= limit; });
    return bad == all.end() ? -1 : bad - all.begin();
  });
}

// Rows of a table lie anywhere in memory: asking for one this many rows before it is copied hides most of the wait.
// Longer rows are fetched ahead by the hardware after their first lines.
constexpr std::int64_t kRowsAhead = 20;
constexpr std::size_t kBytesAhead = 256, kCacheLine = 64;

template <typename E>
void fetch_ahead(const E* row, std::int64_t count) {
  const char* bytes = reinterpret_cast<const char*>(row);
  const std::size_t end = std::min(static_cast<std::size_t>(count) * sizeof(E), kBytesAhead);
  for (std::size_t at = 0; at < end; at += kCacheLine) __builtin_prefetch(bytes + at);
}

template <typename E>
void copy_row(E* to, const E* from, std::int64_t count) {
  if (count == 1) {
    *to = *from;
  } else {
    std::copy_n(from, count, to);
  }
}

// A gather copies blocks (batches times `outer` dimensions) of `picks` rows of `row` elements, out of `limit` each.
struct GatherPlan {
  std::int64_t outer, picks, limit, row;
};

// Copies places [begin, end) of the output; place p is row (block, pick) of it.
template <typename E, typename Index>
void copy_places(const GatherPlan& plan, const Index* indices, const E* from, E* to, std::int64_t begin,
                 std::int64_t end) {
  for (std::int64_t place = begin; place < end;) {
    const std::int64_t block = place / plan.picks, pick = place % plan.picks;
    const std::int64_t count = std::min(plan.picks - pick, end - place);
    const Index* const picked = indices + block / plan.outer * plan.picks + pick;
    const E* const rows = from + block * plan.limit * plan.row;
    const auto source = [&](std::int64_t i) { return rows + static_cast<std::int64_t>(picked[i]) * plan.row; };
    for (std::int64_t i = 0; i < count; ++i) {
      if (i + kRowsAhead < count) fetch_ahead(source(i + kRowsAhead), plan.row);
      copy_row(to + (place + i) * plan.row, source(i), plan.row);
    }
    place += count;
  }
}

}  // namespace

Status check_indices(const Tensor& indices, std::int64_t limit) {
  const std::int64_t bad = first_bad_index(indices, limit);
  if (bad < 0) return {};
  return bad_index(indices.shape(), bad, index_at(indices.raw(), indices.dtype(), bad), limit);
}

Status gather_rows(KernelContext& ctx, const Tensor& params, const Tensor& indices, std::int64_t axis,
                   std::int64_t batch_dims) {
  if (params.rank() == 0) return invalid_argument("params must be at least 1 dimensional");
  if (batch_dims < 0) batch_dims += indices.rank();
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims >= params.rank()) {
    return invalid_argument("batch_dims ", batch_dims, " does not fit params ", params.shape(), " and indices ",
                            indices.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(const int at, normalise_axis(axis, params.rank()));
  if (at < batch_dims) return invalid_argument("batch_dims ", batch_dims, " is greater than axis ", at);
  const int batch = static_cast<int>(batch_dims);
  DimList dims;
  for (int d = 0; d < at; ++d) dims.push_back(params.dim(d));
  for (int d = 0; d < batch; ++d) {
    if (params.dim(d) != indices.dim(d)) {
      return invalid_argument("params ", params.shape(), " and indices ", indices.shape(), " differ in the first ",
                              batch, " dimensions");
    }
  }
  if (params.rank() - 1 + indices.rank() - batch > kMaxRank) {
    return invalid_argument("params ", params.shape(), " and indices ", indices.shape(), " give too many dimensions");
  }
  for (int d = batch; d < indices.rank(); ++d) dims.push_back(indices.dim(d));
  for (int d = at + 1; d < params.rank(); ++d) dims.push_back(params.dim(d));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));

  const std::int64_t limit = params.dim(at);
  TUTTI_RETURN_IF_ERROR(check_indices(indices, limit));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};

  const std::int64_t batches = elements_before(params.shape(), batch);
  std::int64_t outer = 1;
  for (int d = batch; d < at; ++d) outer *= params.dim(d);
  const GatherPlan plan{outer, indices.num_elements() / batches, limit, elements_from(params.shape(), at + 1)};
  const std::int64_t bytes = static_cast<std::int64_t>(out->bytes());
  with_element(params.dtype(), [&]<typename E>(const E&) {
    const E* from = static_cast<const E*>(params.raw());
    E* to = static_cast<E*>(out->raw());
    const auto copy = [&](std::int64_t begin, std::int64_t end) {
      with_indices(indices, [&](auto all) { copy_places(plan, all.data(), from, to, begin, end); });
    };
    const std::int64_t places = batches * outer * plan.picks;
    if (ctx.team().size() > 1 && bytes >= ctx.team().grain(kParallelGatherBytes)) {
      parallel_for(ctx.team(), places, std::max<std::int64_t>(1, places * (kParallelGatherBytes / 2) / bytes), copy);
    } else {
      copy(0, places);
    }
  });
  return {};
}

Status gather(KernelContext& ctx) { return gather_rows(ctx, ctx.input(0), ctx.input(1), 0, 0); }

namespace {

class GatherV2 : public Kernel {
 public:
  explicit GatherV2(const KernelInit& init) : batch_dims_(init.attr<std::int64_t>("batch_dims")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t axis, read_scalar_integer(ctx.input(2), "axis"));
    return gather_rows(ctx, ctx.input(0), ctx.input(1), axis, batch_dims_);
  }

 private:
  const std::int64_t batch_dims_;
};

// The coordinates in `indices`, read against the first dimensions of `shape`.
struct Coordinates {
  const Tensor& indices;
  DimList strides;  // in slices
  DimList limits;
  std::int64_t count = 0;  // coordinate tuples
  std::int64_t slice = 0;  // elements that one tuple names

  // The slice that tuple i names, or -1 when it is out of range.
  std::int64_t offset(std::int64_t i) const {
    std::int64_t at = 0;
    for (int d = 0; d < limits.size; ++d) {
      const std::int64_t index = index_at(indices.raw(), indices.dtype(), i * limits.size + d);
      if (index < 0 || index >= limits[d]) return -1;
      at += index * strides[d];
    }
    return at;
  }
  Status check(const Shape& shape) const {
    if (limits.size == 0) return {};  // tuples of nothing, of any number: all name the whole
    for (std::int64_t i = 0; i < count; ++i) {
      if (offset(i) >= 0) continue;
      std::string tuple;
      for (int d = 0; d < limits.size; ++d) {
        tuple += str_cat(d == 0 ? "" : ", ", index_at(indices.raw(), indices.dtype(), i * limits.size + d));
      }
      return invalid_argument("indices[", i, "] = [", tuple, "] does not index into shape ", shape);
    }
    return {};
  }
};

Result<Coordinates> read_coordinates(const Tensor& indices, const Shape& shape) {
  if (indices.rank() < 1) return invalid_argument("indices must be at least a vector");
  const std::int64_t depth = indices.dim(indices.rank() - 1);
  if (depth > shape.rank()) {
    return invalid_argument("index innermost dimension length must be <= params rank; saw: ", depth, " vs. ",
                            shape.rank());
  }
  Coordinates c{.indices = indices};
  c.count = elements_before(indices.shape(), indices.rank() - 1);
  c.slice = elements_from(shape, static_cast<int>(depth));
  c.limits.size = c.strides.size = static_cast<int>(depth);
  std::int64_t stride = 1;
  for (int d = static_cast<int>(depth) - 1; d >= 0; --d) {
    c.limits[d] = shape.dim(d);
    c.strides[d] = stride;
    stride *= shape.dim(d);
  }
  return c;
}

}  // namespace

KernelFactory gather_v2_kernel() { return kernel_of<GatherV2>(); }

Status gather_nd(KernelContext& ctx) {
  const Tensor& params = ctx.input(0);
  const Tensor& indices = ctx.input(1);
  TUTTI_ASSIGN_OR_RETURN(const Coordinates c, read_coordinates(indices, params.shape()));
  if (indices.rank() - 1 + params.rank() - c.limits.size > kMaxRank) {
    return invalid_argument("indices ", indices.shape(), " and params ", params.shape(), " give too many dimensions");
  }
  DimList dims;
  for (int d = 0; d + 1 < indices.rank(); ++d) dims.push_back(indices.dim(d));
  for (int d = c.limits.size; d < params.rank(); ++d) dims.push_back(params.dim(d));
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims.span()));
  TUTTI_RETURN_IF_ERROR(c.check(params.shape()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  if (out->num_elements() == 0) return {};
  with_element(params.dtype(), [&]<typename E>(const E&) {
    const E* from = static_cast<const E*>(params.raw());
    E* to = static_cast<E*>(out->raw());
    for (std::int64_t i = 0; i < c.count; ++i) copy_row(to + i * c.slice, from + c.offset(i) * c.slice, c.slice);
  });
  return {};
}

namespace {

Status check_updates(const Tensor& indices, const Tensor& updates, const Shape& shape, int depth) {
  bool fits = updates.rank() == indices.rank() - 1 + shape.rank() - depth;
  for (int d = 0; fits && d + 1 < indices.rank(); ++d) fits = updates.dim(d) == indices.dim(d);
  for (int d = depth; fits && d < shape.rank(); ++d) fits = updates.dim(indices.rank() - 1 + d - depth) == shape.dim(d);
  if (fits) return {};
  return invalid_argument("updates ", updates.shape(), " do not fit indices ", indices.shape(), " into shape ", shape);
}

}  // namespace

Status scatter_slices(const Tensor& indices, const Tensor& updates, const BinaryFunction* combine, Tensor& to) {
  TUTTI_ASSIGN_OR_RETURN(const Coordinates c, read_coordinates(indices, to.shape()));
  TUTTI_RETURN_IF_ERROR(check_updates(indices, updates, to.shape(), c.limits.size));
  TUTTI_RETURN_IF_ERROR(c.check(to.shape()));
  const DType dtype = updates.dtype();
  for (std::int64_t i = 0; c.slice > 0 && i < c.count; ++i) {
    void* at = at_element(dtype, to.raw(), c.offset(i) * c.slice);
    const void* from = at_element(dtype, updates.raw(), i * c.slice);
    if (combine == nullptr) {
      copy_elements(dtype, at, from, c.slice);
    } else {
      (*combine)(at, from, at, c.slice, 1, 1);
    }
  }
  return {};
}

Status scatter_nd(KernelContext& ctx) {
  const Tensor& indices = ctx.input(0);
  const Tensor& updates = ctx.input(1);
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(2), "shape"));
  if (shape.num_elements() == 0 && (indices.num_elements() > 0 || updates.num_elements() > 0)) {
    return invalid_argument("Indices and updates specified for empty output shape ", shape);
  }
  if (indices.rank() > 0 && indices.dim(indices.rank() - 1) == 0) {
    return invalid_argument("Only indices.shape[-1] values of at least 1 are supported, got indices ", indices.shape());
  }
  // Booleans are added by "or", strings by joining them.
  const BinaryOp op = updates.dtype() == DType::kBool ? BinaryOp::kLogicalOr : BinaryOp::kAdd;
  const BinaryFunction add = BinaryFunction::find(op, updates.dtype());
  if (!add) return unimplemented("no sums of ", dtype_name(updates.dtype()));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  TUTTI_RETURN_IF_ERROR(zero_cancellable(ctx, *out));
  return scatter_slices(indices, updates, &add, *out);
}

}  // namespace tutti::cpu
