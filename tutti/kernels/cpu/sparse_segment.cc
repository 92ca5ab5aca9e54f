#include "tutti/kernels/cpu/sparse_segment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/row_loops.h"

namespace tutti::cpu {

namespace {

double scale_of(SegmentScale scale, std::int64_t count) {
  const auto n = static_cast<double>(std::max<std::int64_t>(count, 1));
  switch (scale) {
    case SegmentScale::kMean:
      return 1.0 / n;
    case SegmentScale::kSqrtN:
      return 1.0 / std::sqrt(n);
    case SegmentScale::kOne:
      break;
  }
  return 1.0;
}

Status check_index_lists(const Tensor& indices, const Tensor& ids) {
  if (indices.rank() != 1) return invalid_argument("indices should be a vector, got shape ", indices.shape());
  if (ids.rank() != 1) return invalid_argument("segment_ids should be a vector, got shape ", ids.shape());
  if (indices.dim(0) == ids.dim(0)) return {};
  return invalid_argument("segment_ids ", ids.shape(), " and indices ", indices.shape(), " should have the same size");
}

Status check_range(const Tensor& values, std::int64_t limit, const char* what) {
  const bool all_inside = with_indices(values, [limit](auto span) {
    bool outside = false;
    // Negative ones are large, too.
    for (const std::int64_t value : span)
      outside |= static_cast<std::uint64_t>(value) >= static_cast<std::uint64_t>(limit);
    return !outside;
  });
  if (all_inside) return {};
  const std::int64_t count = values.num_elements();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t value = index_at(values.raw(), values.dtype(), i);
    if (value >= 0 && value < limit) continue;
    return invalid_argument(what, "[", i, "] == ", value, " out of range [0, ", limit, ")");
  }
  return {};
}

// `shape` with its first dimension replaced.
Result<Shape> with_rows(const Shape& shape, std::int64_t rows) {
  DimList dims;
  for (int d = 0; d < shape.rank(); ++d) dims.push_back(d == 0 ? rows : shape.dim(d));
  return Shape::create(dims.span());
}

class SparseSegment : public Kernel {
 public:
  SparseSegment(SegmentScale scale, bool counted, DType dtype)
      : scale_(scale), counted_(counted), loops_(find_row_loops(dtype)) {}

  Status compute(KernelContext& ctx) override {
    const Tensor &data = ctx.input(0), &indices = ctx.input(1), &ids = ctx.input(2);
    if (data.rank() < 1) return invalid_argument("data must be at least a vector, got shape ", data.shape());
    TUTTI_RETURN_IF_ERROR(check_index_lists(indices, ids));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t segments, count_segments(ctx));
    TUTTI_RETURN_IF_ERROR(check_order(ids, segments));
    TUTTI_RETURN_IF_ERROR(check_range(indices, data.dim(0), "indices"));
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, with_rows(data.shape(), segments));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const std::int64_t width = elements_from(data.shape(), 1);
    if (out->num_elements() == 0) return {};
    if (ids.num_elements() == 0) {
      zero_elements(out->dtype(), out->raw(), out->num_elements());
      return {};
    }
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / width);
    with_indices(ids, [&](auto segment_ids) {
      parallel_for(ctx.team(), ids.num_elements(), grain, [&](std::int64_t begin, std::int64_t end) {
        sum_entries(data, indices, segment_ids, width, begin, end, *out);
      });
    });
    return {};
  }

 private:
  Result<std::int64_t> count_segments(KernelContext& ctx) const {
    const Tensor& ids = ctx.input(2);
    if (counted_) {
      TUTTI_ASSIGN_OR_RETURN(const std::int64_t given, read_scalar_integer(ctx.input(3), "num_segments"));
      if (given < 0) return invalid_argument("num_segments ", given, " must not be negative");
      return given;
    }
    if (ids.num_elements() == 0) return std::int64_t{0};
    const std::int64_t last = index_at(ids.raw(), ids.dtype(), ids.num_elements() - 1);
    if (last < 0 || last == std::numeric_limits<std::int64_t>::max()) {
      return invalid_argument("segment ids must be >= 0, and ", last, " is not or is too large");
    }
    return last + 1;
  }

  static Status check_order(const Tensor& ids, std::int64_t segments) {
    // Where they rise, the first and the last have all between them.
    const bool rise_inside = with_indices(ids, [segments](auto span) {
      bool falls = false;
      for (std::size_t i = 1; i < span.size(); ++i) falls |= span[i] < span[i - 1];
      return !falls && (span.empty() || (span.front() >= 0 && span.back() < segments));
    });
    if (rise_inside) return {};
    TUTTI_RETURN_IF_ERROR(check_range(ids, segments, "segment_ids"));
    for (std::int64_t i = 1; i < ids.num_elements(); ++i) {
      if (index_at(ids.raw(), ids.dtype(), i) >= index_at(ids.raw(), ids.dtype(), i - 1)) continue;
      return invalid_argument("segment ids are not increasing: segment_ids[", i, "] is less than the one before it");
    }
    return {};
  }

  // Sums the segments that begin within entries [begin, end), and zeroes the empty ones between them and the next.
  template <typename Id>
  void sum_entries(const Tensor& data, const Tensor& indices, std::span<const Id> ids, std::int64_t width,
                   std::int64_t begin, std::int64_t end, Tensor& out) const {
    const auto count = static_cast<std::int64_t>(ids.size());
    const auto id = [ids](std::int64_t i) { return ids[static_cast<std::size_t>(i)]; };
    while (begin > 0 && begin < end && id(begin) == id(begin - 1)) ++begin;
    if (begin == end) return;
    if (begin == 0) zero_rows(out, width, 0, id(0));
    while (begin < end) {
      const std::int64_t segment = id(begin);
      std::int64_t next = begin + 1;
      while (next < count && id(next) == segment) ++next;
      sum_one(data, indices, begin, next, width, at_element(out.dtype(), out.raw(), segment * width));
      zero_rows(out, width, segment + 1, next < count ? id(next) : out.dim(0));
      begin = next;
    }
  }

  void sum_one(const Tensor& data, const Tensor& indices, std::int64_t begin, std::int64_t end, std::int64_t width,
               void* to) const {
    const double scale = scale_of(scale_, end - begin);
    const std::int64_t ahead = indices.num_elements() - begin;
    if (indices.dtype() == DType::kInt32) {
      loops_.sum_of_32(data.raw(), indices.data<std::int32_t>() + begin, end - begin, ahead, width, scale, to);
    } else {
      loops_.sum_of_64(data.raw(), indices.data<std::int64_t>() + begin, end - begin, ahead, width, scale, to);
    }
  }

  static void zero_rows(Tensor& out, std::int64_t width, std::int64_t first, std::int64_t last) {
    if (first < last) {
      zero_elements(out.dtype(), at_element(out.dtype(), out.raw(), first * width), (last - first) * width);
    }
  }

  const SegmentScale scale_;
  const bool counted_;
  const RowLoops loops_;
};

// --- Gradients. ---

// The positions of `values` in the order of the values, equal ones as they came: by digits of 11 bits, lowest first.
std::vector<std::int64_t> order_of(const Tensor& values, std::int64_t limit) {
  constexpr int kBits = 11;
  constexpr std::size_t kDigits = std::size_t{1} << kBits;
  const auto count = static_cast<std::size_t>(values.num_elements());
  std::vector<std::int64_t> order(count), next(count);
  for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::int64_t>(i);
  for (int shift = 0; shift < 63 && (limit - 1) >> shift > 0; shift += kBits) {
    const auto digit = [&](std::int64_t i) {
      return static_cast<std::size_t>(index_at(values.raw(), values.dtype(), i) >> shift) & (kDigits - 1);
    };
    std::array<std::size_t, kDigits + 1> starts{};
    for (const std::int64_t i : order) ++starts[digit(i) + 1];
    for (std::size_t d = 0; d < kDigits; ++d) starts[d + 1] += starts[d];
    for (const std::int64_t i : order) next[starts[digit(i)]++] = i;
    order.swap(next);
  }
  return order;
}

class SparseSegmentGrad : public Kernel {
 public:
  SparseSegmentGrad(SegmentScale scale, bool sparse, DType dtype)
      : scale_(scale), sparse_(sparse), loops_(find_row_loops(dtype)) {}

  Status compute(KernelContext& ctx) override {
    const Tensor &grad = ctx.input(0), &indices = ctx.input(1), &ids = ctx.input(2);
    if (grad.rank() < 1) return invalid_argument("grad must be at least a vector, got shape ", grad.shape());
    TUTTI_RETURN_IF_ERROR(check_index_lists(indices, ids));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t rows, read_scalar_integer(ctx.input(3), "output_dim0"));
    if (rows < 0) return invalid_argument("output_dim0 ", rows, " must not be negative");
    TUTTI_RETURN_IF_ERROR(check_range(ids, grad.dim(0), "segment_ids"));
    TUTTI_RETURN_IF_ERROR(check_range(indices, rows, "indices"));
    TUTTI_ASSIGN_OR_RETURN(const Tensor scales, scales_of(ctx, ids, grad.dim(0)));
    const double* factors = scales.has_value() ? scales.data<double>() : nullptr;
    if (sparse_) return add_used_rows(ctx, rows, factors);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, with_rows(grad.shape(), rows));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    scatter_rows(ctx.team(), loops_, grad, indices, &ids, factors, elements_from(grad.shape(), 1), *out);
    return {};
  }

 private:
  // Each segment's scale; nothing when all are 1.
  Result<Tensor> scales_of(KernelContext& ctx, const Tensor& ids, std::int64_t segments) const {
    if (scale_ == SegmentScale::kOne) return Tensor();
    TUTTI_ASSIGN_OR_RETURN(Tensor scales, ctx.allocate_temp(DType::kDouble, Shape{segments}));
    double* scale = scales.data<double>();
    std::fill_n(scale, segments, 0.0);
    for (std::int64_t i = 0; i < ids.num_elements(); ++i) ++scale[index_at(ids.raw(), ids.dtype(), i)];
    for (std::int64_t s = 0; s < segments; ++s) scale[s] = scale_of(scale_, static_cast<std::int64_t>(scale[s]));
    return scales;
  }

  Status add_used_rows(KernelContext& ctx, std::int64_t limit, const double* factors) const {
    const Tensor &grad = ctx.input(0), &indices = ctx.input(1), &ids = ctx.input(2);
    const std::vector<std::int64_t> order = order_of(indices, limit);
    const auto row = [&](std::size_t i) { return index_at(indices.raw(), indices.dtype(), order[i]); };
    std::vector<std::int64_t> used;
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && row(i) == row(i - 1)) continue;
      used.push_back(row(i));
      starts.push_back(i);
    }
    starts.push_back(order.size());
    const auto rows = static_cast<std::int64_t>(used.size());
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, with_rows(grad.shape(), rows));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * names, ctx.allocate_output(1, Shape{rows}));
    write_indices(used, *names);
    const std::int64_t width = elements_from(grad.shape(), 1);
    if (width == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(const Tensor scaled, scaled_rows(ctx, grad, width, factors));
    std::vector<std::int64_t> sources(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) sources[i] = index_at(ids.raw(), ids.dtype(), order[i]);
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / width);
    parallel_for(ctx.team(), rows, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::size_t first = starts[static_cast<std::size_t>(r)];
        const auto count = static_cast<std::int64_t>(starts[static_cast<std::size_t>(r) + 1] - first);
        loops_.sum_of_64(scaled.raw(), sources.data() + first, count, static_cast<std::int64_t>(order.size() - first),
                         width, 1.0, at_element(out->dtype(), out->raw(), r * width));
      }
    });
    return {};
  }

  // Each row of `grad` times its factor. There are far fewer of them than of uses.
  Result<Tensor> scaled_rows(KernelContext& ctx, const Tensor& grad, std::int64_t width, const double* factors) const {
    if (factors == nullptr) return grad;
    const DType dtype = grad.dtype();
    TUTTI_ASSIGN_OR_RETURN(Tensor scaled, ctx.allocate_temp(dtype, grad.shape()));
    for (std::int64_t row = 0; row < grad.dim(0); ++row) {
      loops_.sum_of_64(grad.raw(), &row, 1, 1, width, factors[row], at_element(dtype, scaled.raw(), row * width));
    }
    return scaled;
  }

  const SegmentScale scale_;
  const bool sparse_;
  const RowLoops loops_;
};

template <typename K>
KernelFactory make_bag_kernel(SegmentScale scale, bool flag) {
  return [scale, flag](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.attr<DType>("T");
    if (!find_row_loops(dtype)) return unimplemented("no sums of rows of ", dtype_name(dtype));
    return std::unique_ptr<Kernel>(std::make_unique<K>(scale, flag, dtype));
  };
}

}  // namespace

KernelFactory sparse_segment_kernel(SegmentScale scale, bool counted) {
  return make_bag_kernel<SparseSegment>(scale, counted);
}
KernelFactory sparse_segment_grad_kernel(SegmentScale scale, bool sparse) {
  return make_bag_kernel<SparseSegmentGrad>(scale, sparse);
}

}  // namespace tutti::cpu
