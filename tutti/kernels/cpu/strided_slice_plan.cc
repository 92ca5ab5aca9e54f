#include "tutti/kernels/cpu/strided_slice_plan.h"

#include <algorithm>

namespace tutti::cpu {

namespace {

// One dimension as the index list describes it.
struct DimSpec {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t stride = 1;
  bool from_edge = true;
  bool to_edge = true;
  bool shrink = false;
};

bool has_bit(std::int64_t mask, int i) { return i < 64 && ((static_cast<std::uint64_t>(mask) >> i) & 1) != 0; }

std::int64_t clamp_to_edges(std::int64_t x, std::int64_t dim, std::int64_t low, std::int64_t high) {
  return std::clamp(x < 0 ? x + dim : x, low, high);
}

Status plan_dim(const DimSpec& spec, int i, std::int64_t dim, StridedSlicePlan::Dim* out) {
  if (spec.stride == 0) return invalid_argument("strides[", i, "] must be non-zero");
  if (spec.shrink) {
    if (spec.stride < 0) return invalid_argument("only stride 1 allowed on non-range indexing.");
    *out = {spec.begin, 1, 1};
    if (dim == kUnknownDim) return {};
    const std::int64_t at = spec.begin < 0 ? spec.begin + dim : spec.begin;
    if (at < 0 || at >= dim) {
      return invalid_argument("slice index ", spec.begin, " of dimension ", i, " out of bounds.");
    }
    out->begin = at;
    return {};
  }
  if (dim == kUnknownDim) {
    *out = {0, spec.stride, kUnknownDim};
    return {};
  }
  const bool forwards = spec.stride > 0;
  const std::int64_t low = forwards ? 0 : -1;
  const std::int64_t high = forwards ? dim : dim - 1;
  const std::int64_t begin = spec.from_edge ? (forwards ? low : high) : clamp_to_edges(spec.begin, dim, low, high);
  const std::int64_t end = spec.to_edge ? (forwards ? high : low) : clamp_to_edges(spec.end, dim, low, high);
  const std::int64_t length = end - begin;
  std::int64_t size = 0;
  if (length != 0 && (length < 0) == (spec.stride < 0)) size = length / spec.stride + (length % spec.stride != 0);
  *out = {begin, spec.stride, size};
  return {};
}

}  // namespace

bool StridedSlicePlan::whole(std::span<const std::int64_t> input, bool except_first) const {
  for (int d = 0; d < rank; ++d) {
    if (dims[d].stride != 1 && dims[d].size > 1) return false;
    if (d == 0 && except_first) continue;
    if (dims[d].begin != 0 || dims[d].size != input[d]) return false;
  }
  return true;
}

Status plan_strided_slice(const StridedSliceMasks& masks, const DimList& begin, const DimList& end,
                          const DimList& strides, std::span<const std::int64_t> input, StridedSlicePlan* plan) {
  const int count = begin.size;
  if (end.size != count || strides.size != count || count > 63) {
    return invalid_argument("begin, end and strides have ", begin.size, ", ", end.size, " and ", strides.size,
                            " values; they must have the same number, at most 63");
  }
  const int rank = static_cast<int>(input.size());
  int consumed = 0;  // dimensions of the input that entries name one by one
  int ellipses = 0;
  for (int i = 0; i < count; ++i) {
    if (has_bit(masks.ellipsis, i)) {
      ++ellipses;
    } else if (!has_bit(masks.new_axis, i)) {
      ++consumed;
    }
  }
  if (ellipses > 1) return invalid_argument("Multiple ellipses in slice spec not allowed");
  if (consumed > rank) return invalid_argument("Index out of range: ", consumed, " indices into ", rank, " dimensions");

  plan->rank = rank;
  plan->output.size = 0;
  int dim = 0;
  const auto take_whole = [&](int how_many) -> Status {
    for (int k = 0; k < how_many; ++k, ++dim) {
      TUTTI_RETURN_IF_ERROR(plan_dim(DimSpec(), dim, input[dim], &plan->dims[dim]));
      plan->output.push_back(plan->dims[dim].size);
    }
    return {};
  };
  for (int i = 0; i < count; ++i) {
    if (has_bit(masks.ellipsis, i)) {
      TUTTI_RETURN_IF_ERROR(take_whole(rank - consumed));
    } else if (has_bit(masks.new_axis, i)) {
      if (plan->output.size == kMaxRank) return invalid_argument("the slice has more than ", kMaxRank, " dimensions");
      plan->output.push_back(1);
    } else {
      const DimSpec spec{.begin = begin[i],
                         .end = end[i],
                         .stride = strides[i],
                         .from_edge = has_bit(masks.begin, i),
                         .to_edge = has_bit(masks.end, i),
                         .shrink = has_bit(masks.shrink_axis, i)};
      TUTTI_RETURN_IF_ERROR(plan_dim(spec, dim, input[dim], &plan->dims[dim]));
      if (plan->output.size == kMaxRank) return invalid_argument("the slice has more than ", kMaxRank, " dimensions");
      if (!spec.shrink) plan->output.push_back(plan->dims[dim].size);
      ++dim;
    }
  }
  if (plan->output.size + rank - dim > kMaxRank) {
    return invalid_argument("the slice has more than ", kMaxRank, " dimensions");
  }
  return take_whole(rank - dim);
}

}  // namespace tutti::cpu
