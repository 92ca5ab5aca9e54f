#include "tutti/ops/internal/array_shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/strided_slice_plan.h"

namespace tutti::internal {

namespace {

using Dims = std::vector<std::int64_t>;

std::vector<std::int64_t> to_vector(std::span<const std::int64_t> dims) { return {dims.begin(), dims.end()}; }

std::optional<std::int64_t> constant_int(const ShapeContext& c, int i) {
  const auto values = constant_ints(c, i);
  if (!values || values->size() != 1) return std::nullopt;
  return values->front();
}

// Sums that are open when a part is. False when they overflow.
bool add_dim(std::int64_t* sum, std::int64_t dim) {
  if (*sum == kUnknownDim || dim == kUnknownDim) {
    *sum = kUnknownDim;
    return true;
  }
  return !__builtin_add_overflow(*sum, dim, sum);
}

// All inputs [first, first + count) have one rank and agree outside `axis`; along it they add up.
Status joined_shape(ShapeContext& c, int first, int count, std::optional<std::int64_t> axis) {
  PartialShape common;
  int rank = -1;
  for (int i = 0; i < count; ++i) {
    const PartialShape& shape = c.input(first + i);
    if (!shape.has_rank()) continue;
    if (rank >= 0 && shape.rank() != rank) {
      return invalid_argument("Shapes must be equal rank, but are ", rank, " and ", shape.rank());
    }
    rank = shape.rank();
  }
  if (rank < 0) return {};
  if (rank == 0) return invalid_argument("scalars cannot be joined (use Pack instead)");
  if (!axis) {
    c.set_output(0, PartialShape::unknown_of_rank(rank));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(*axis, rank));
  PartialShape joined = PartialShape::unknown_of_rank(rank);
  std::int64_t total = 0;
  for (int i = 0; i < count; ++i) {
    PartialShape shape = c.input(first + i).has_rank() ? c.input(first + i) : PartialShape::unknown_of_rank(rank);
    if (!add_dim(&total, shape.dim(at))) return invalid_argument("the joined dimension overflows");
    shape.set_dim(at, kUnknownDim);
    Result<PartialShape> merged = joined.merge(shape);
    if (!merged.ok()) {
      return invalid_argument("Dimension ", at, " apart, inputs must match: ", joined, " and input ", i, " ",
                              c.input(first + i));
    }
    joined = *merged;
  }
  joined.set_dim(at, total);
  c.set_output(0, std::move(joined));
  return {};
}

bool read_list(const ShapeContext& c, int i, cpu::DimList* list) {
  const auto values = constant_ints(c, i);
  if (!values || values->size() > kMaxRank) return false;
  list->size = 0;
  for (const std::int64_t value : *values) list->push_back(value);
  return true;
}

}  // namespace

std::optional<std::vector<std::int64_t>> constant_ints(const ShapeContext& c, int i) {
  const std::optional<Tensor> value = c.constant(i);
  if (!value || value->rank() > 1 || value->num_elements() > 4096) return std::nullopt;
  std::vector<std::int64_t> ints;
  for (std::int64_t k = 0; k < value->num_elements(); ++k) {
    switch (value->dtype()) {
      case DType::kInt32:
      case DType::kInt64:
      case DType::kInt16:
        ints.push_back(cpu::index_at(value->raw(), value->dtype(), k));
        break;
      case DType::kInt8:
        ints.push_back(value->data<std::int8_t>()[k]);
        break;
      default:
        return std::nullopt;
    }
  }
  return ints;
}

Status shapes_of_inputs(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) {
    const int rank = c.input(i).rank();
    c.set_output(i, PartialShape{rank >= 0 ? rank : kUnknownDim});
  }
  return {};
}

Status reshape_shape(ShapeContext& c) {
  PartialShape target = c.input_as_shape(1);
  const PartialShape& input = c.input(0);
  if (!target.has_rank()) return {};
  const std::int64_t count = input.num_elements();
  const auto dims = target.dims();
  const auto open = std::count(dims.begin(), dims.end(), kUnknownDim);
  if (open == 0 && count >= 0 && target.num_elements() >= 0 && target.num_elements() != count) {
    return invalid_argument("Cannot reshape a tensor with ", count, " elements to shape ", target, " (",
                            target.num_elements(), " elements)");
  }
  if (open == 1 && count >= 0) {
    std::int64_t known = 1;
    int at = 0;
    for (int i = 0; i < target.rank(); ++i) {
      if (target.dim(i) == kUnknownDim) {
        at = i;
      } else if (__builtin_mul_overflow(known, target.dim(i), &known)) {
        return invalid_argument("shape ", target, " has too many elements");
      }
    }
    if (known > 0) {
      if (count % known != 0) {
        return invalid_argument("Cannot reshape a tensor with ", count, " elements to shape ", target);
      }
      target.set_dim(at, count / known);
    }
  }
  c.set_output(0, std::move(target));
  return {};
}

Status expand_dims_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  const auto axis = constant_int(c, 1);
  if (!axis) {
    c.set_output(0, PartialShape::unknown_of_rank(input.rank() + 1));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(*axis, input.rank() + 1));
  Dims dims = to_vector(input.dims());
  dims.insert(dims.begin() + at, 1);
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

Status squeeze_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  std::vector<bool> drop(input.rank(), false);
  for (const std::int64_t axis : c.attr<std::vector<std::int64_t>>("squeeze_dims")) {
    TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(axis, input.rank()));
    if (input.dim(at) != 1 && input.dim(at) != kUnknownDim) {
      return invalid_argument("Can not squeeze dim[", at, "], expected a dimension of 1, got ", input.dim(at));
    }
    drop[at] = true;
  }
  const bool listed = std::find(drop.begin(), drop.end(), true) != drop.end();
  Dims dims;
  for (int i = 0; i < input.rank(); ++i) {
    if (!listed && input.dim(i) == kUnknownDim) return {};  // it may be 1 and go
    if (listed ? !drop[i] : input.dim(i) != 1) dims.push_back(input.dim(i));
  }
  c.set_output(0, PartialShape(std::move(dims)));
  return {};
}

Status transpose_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const auto perm = constant_ints(c, 1);
  int rank = input.rank();
  if (perm) {
    if (rank >= 0 && static_cast<int>(perm->size()) != rank) {
      return invalid_argument("perm has ", perm->size(), " values for ", rank, " dimensions");
    }
    rank = static_cast<int>(perm->size());
  }
  if (rank < 0) return {};
  PartialShape shape = PartialShape::unknown_of_rank(rank);
  if (perm && input.has_rank()) {
    for (int i = 0; i < rank; ++i) {
      TUTTI_ASSIGN_OR_RETURN(const int from, ShapeContext::normalise_axis((*perm)[i], rank));
      shape.set_dim(i, input.dim(from));
    }
  }
  c.set_output(0, std::move(shape));
  return {};
}

Status vector_unchanged_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.with_rank(0, 1));
  c.set_output(0, std::move(shape));
  return {};
}

Status concat_shape(ShapeContext& c) { return joined_shape(c, 1, c.num_inputs() - 1, constant_int(c, 0)); }

Status concat_v2_shape(ShapeContext& c) {
  const int count = c.num_inputs() - 1;
  return joined_shape(c, 0, count, constant_int(c, count));
}

Status concat_offset_shape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(i + 1));
  return {};
}

Status pack_shape(ShapeContext& c) {
  PartialShape each;
  for (int i = 0; i < c.num_inputs(); ++i) {
    Result<PartialShape> merged = each.merge(c.input(i));
    if (!merged.ok()) return invalid_argument("Shapes of all inputs must match: ", each, " and ", c.input(i));
    each = *std::move(merged);
  }
  if (!each.has_rank()) return {};
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(c.attr<std::int64_t>("axis"), each.rank() + 1));
  Dims dims = to_vector(each.dims());
  dims.insert(dims.begin() + at, c.num_inputs());
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

Status unpack_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(c.attr<std::int64_t>("axis"), input.rank()));
  if (input.dim(at) != kUnknownDim && input.dim(at) != c.num_outputs()) {
    return invalid_argument("dimension ", at, " of ", input, " must be num = ", c.num_outputs());
  }
  Dims dims = to_vector(input.dims());
  dims.erase(dims.begin() + at);
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape(dims));
  return {};
}

Status split_shape(ShapeContext& c) {
  const PartialShape& input = c.input(1);
  if (!input.has_rank()) return {};
  PartialShape part = PartialShape::unknown_of_rank(input.rank());
  if (const auto axis = constant_int(c, 0)) {
    TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(*axis, input.rank()));
    part = input;
    if (input.dim(at) != kUnknownDim) {
      if (input.dim(at) % c.num_outputs() != 0) {
        return invalid_argument("dimension ", at, " of ", input, " is not divisible by num_split = ", c.num_outputs());
      }
      part.set_dim(at, input.dim(at) / c.num_outputs());
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, part);
  return {};
}

Status split_v_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  const auto axis = constant_int(c, 2);
  if (!axis) {
    for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape::unknown_of_rank(input.rank()));
    return {};
  }
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(*axis, input.rank()));
  const auto sizes = constant_ints(c, 1);
  if (sizes && static_cast<int>(sizes->size()) != c.num_outputs()) {
    return invalid_argument("size_splits has ", sizes->size(), " values, num_split is ", c.num_outputs());
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    PartialShape part = input;
    part.set_dim(at, sizes && (*sizes)[i] >= 0 ? (*sizes)[i] : kUnknownDim);
    c.set_output(i, std::move(part));
  }
  return {};
}

Status slice_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  const auto begin = constant_ints(c, 1);
  const auto size = constant_ints(c, 2);
  int rank = input.rank();
  for (const auto& list : {begin, size}) {
    if (!list) continue;
    if (rank >= 0 && static_cast<int>(list->size()) != rank) {
      return invalid_argument("begin and size must have ", rank, " values, not ", list->size());
    }
    rank = static_cast<int>(list->size());
  }
  if (rank < 0) return {};
  if (rank > kMaxRank) return invalid_argument("too many dimensions: ", rank);
  PartialShape shape = PartialShape::unknown_of_rank(rank);
  for (int i = 0; size && i < rank; ++i) {
    const std::int64_t dim = input.has_rank() ? input.dim(i) : kUnknownDim;
    const std::int64_t from = begin ? (*begin)[i] : kUnknownDim;
    const std::int64_t length = (*size)[i];
    if (length < -1) return invalid_argument("size[", i, "] = ", length, " is negative");
    if (begin && from < 0) return invalid_argument("begin[", i, "] = ", from, " is negative");
    if (dim != kUnknownDim && begin && (from > dim || (length >= 0 && length > dim - from))) {
      return invalid_argument("[", from, ", ", from, " + ", length, ") lies outside dimension ", i, " of ", input);
    }
    if (length >= 0) {
      shape.set_dim(i, length);
    } else if (dim != kUnknownDim && begin) {
      shape.set_dim(i, dim - from);
    }
  }
  c.set_output(0, std::move(shape));
  return {};
}

Status strided_slice_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  cpu::DimList begin, end, strides;
  if (!input.has_rank() || !read_list(c, 1, &begin) || !read_list(c, 2, &end) || !read_list(c, 3, &strides)) return {};
  const cpu::StridedSliceMasks masks{.begin = c.attr<std::int64_t>("begin_mask"),
                                     .end = c.attr<std::int64_t>("end_mask"),
                                     .ellipsis = c.attr<std::int64_t>("ellipsis_mask"),
                                     .new_axis = c.attr<std::int64_t>("new_axis_mask"),
                                     .shrink_axis = c.attr<std::int64_t>("shrink_axis_mask")};
  cpu::StridedSlicePlan plan;
  TUTTI_RETURN_IF_ERROR(cpu::plan_strided_slice(masks, begin, end, strides, input.dims(), &plan));
  c.set_output(0, PartialShape(to_vector(plan.output.span())));
  return {};
}

Status tile_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  PartialShape shape = PartialShape::unknown_of_rank(input.rank());
  if (const auto multiples = constant_ints(c, 1)) {
    if (static_cast<int>(multiples->size()) != input.rank()) {
      return invalid_argument("multiples has ", multiples->size(), " values for input ", input);
    }
    for (int i = 0; i < input.rank(); ++i) {
      std::int64_t dim;
      if ((*multiples)[i] < 0) return invalid_argument("multiples[", i, "] = ", (*multiples)[i], " is negative");
      if (input.dim(i) == kUnknownDim) continue;
      if (__builtin_mul_overflow(input.dim(i), (*multiples)[i], &dim)) {
        return invalid_argument("multiples[", i, "] = ", (*multiples)[i], " is too large for ", input);
      }
      shape.set_dim(i, dim);
    }
  }
  c.set_output(0, std::move(shape));
  return {};
}

Status broadcast_to_shape(ShapeContext& c) {
  PartialShape target = c.input_as_shape(1);
  const PartialShape& input = c.input(0);
  if (target.has_rank() && input.has_rank()) {
    bool fits = input.rank() <= target.rank();
    for (int i = 0; fits && i < input.rank(); ++i) {
      const std::int64_t to = target.dim(target.rank() - input.rank() + i);
      fits = input.dim(i) == 1 || input.dim(i) == to || input.dim(i) == kUnknownDim || to == kUnknownDim;
    }
    if (!fits) return invalid_argument("Incompatible shapes: ", input, " vs. ", target);
  }
  c.set_output(0, std::move(target));
  return {};
}

Status broadcast_args_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape a, c.with_rank(0, 1));
  TUTTI_ASSIGN_OR_RETURN(const PartialShape b, c.with_rank(1, 1));
  const bool known = a.dim(0) != kUnknownDim && b.dim(0) != kUnknownDim;
  c.set_output(0, PartialShape{known ? std::max(a.dim(0), b.dim(0)) : kUnknownDim});
  return {};
}

Status open_vectors_shape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, PartialShape{kUnknownDim});
  return {};
}

Result<PartialShape> gathered_shape(const PartialShape& params, const PartialShape& indices, std::int64_t axis,
                                    std::int64_t batch_dims) {
  if (!params.has_rank() || !indices.has_rank()) return PartialShape();
  if (params.rank() < 1) return invalid_argument("params must have at least one dimension");
  if (batch_dims < 0) batch_dims += indices.rank();
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(axis, params.rank()));
  if (batch_dims < 0 || batch_dims > indices.rank() || batch_dims > at) {
    return invalid_argument("batch_dims ", batch_dims, " does not fit params ", params, ", indices ", indices,
                            " and axis ", at);
  }
  Dims dims;
  for (int i = 0; i < at; ++i) dims.push_back(params.dim(i));
  for (int i = static_cast<int>(batch_dims); i < indices.rank(); ++i) dims.push_back(indices.dim(i));
  for (int i = at + 1; i < params.rank(); ++i) dims.push_back(params.dim(i));
  return PartialShape::create(std::move(dims));
}

Status gather_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, gathered_shape(c.input(0), c.input(1), 0, 0));
  c.set_output(0, std::move(shape));
  return {};
}

Status gather_v2_shape(ShapeContext& c) {
  const auto axis = constant_int(c, 2);
  if (!axis) return {};
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape,
                         gathered_shape(c.input(0), c.input(1), *axis, c.attr<std::int64_t>("batch_dims")));
  c.set_output(0, std::move(shape));
  return {};
}

Status gather_nd_shape(ShapeContext& c) {
  const PartialShape& params = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const PartialShape indices, c.with_rank_at_least(1, 1));
  if (!params.has_rank() || !indices.has_rank()) return {};
  const std::int64_t depth = indices.dim(indices.rank() - 1);
  if (depth == kUnknownDim) return {};
  if (depth > params.rank()) {
    return invalid_argument("indices ", indices, " name ", depth, " of ", params.rank(), " dimensions");
  }
  Dims dims = to_vector(indices.dims());
  dims.pop_back();
  for (int i = static_cast<int>(depth); i < params.rank(); ++i) dims.push_back(params.dim(i));
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

Status scatter_nd_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank_at_least(0, 1).status());
  c.set_output(0, c.input_as_shape(2));
  return {};
}

Status where_shape(ShapeContext& c) {
  const int rank = c.input(0).rank();
  c.set_output(0, PartialShape{kUnknownDim, rank >= 0 ? rank : kUnknownDim});
  return {};
}

Status unique_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank(0, 1));
  c.set_output(0, PartialShape{kUnknownDim});
  c.set_output(1, std::move(input));
  return {};
}

Status list_diff_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 1).status());
  c.set_output(0, PartialShape{kUnknownDim});
  c.set_output(1, PartialShape{kUnknownDim});
  return {};
}

Status sparse_to_dense_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 1).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(3, 0).status());
  c.set_output(0, c.input_as_shape(1));
  return {};
}

Status one_hot_shape(ShapeContext& c) {
  const PartialShape& indices = c.input(0);
  if (!indices.has_rank()) return {};
  TUTTI_ASSIGN_OR_RETURN(const int at, ShapeContext::normalise_axis(c.attr<std::int64_t>("axis"), indices.rank() + 1));
  const auto depth = constant_int(c, 1);
  if (depth && *depth < 0) return invalid_argument("depth must be non-negative, got: ", *depth);
  Dims dims = to_vector(indices.dims());
  dims.insert(dims.begin() + at, depth.value_or(kUnknownDim));
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

namespace {

// Of floats, as the kernel counts them.
std::int64_t count_real_steps(const ShapeContext& c) {
  double bounds[3];
  for (int i = 0; i < 3; ++i) {
    const std::optional<Tensor> value = c.constant(i);
    if (!value || value->num_elements() != 1) return kUnknownDim;
    cpu::find_convert(value->dtype(), DType::kDouble)(value->raw(), &bounds[i], 1);
  }
  const double count = std::ceil(std::abs((bounds[1] - bounds[0]) / bounds[2]));
  return count < 1e15 ? static_cast<std::int64_t>(count) : kUnknownDim;  // unknown also when it is NaN
}

}  // namespace

Status range_shape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
  if (is_floating(c.attr<DType>("Tidx"))) {
    c.set_output(0, PartialShape{count_real_steps(c)});
    return {};
  }
  const auto start = constant_int(c, 0);
  const auto limit = constant_int(c, 1);
  const auto delta = constant_int(c, 2);
  std::int64_t count = kUnknownDim;
  std::int64_t length;
  if (start && limit && delta && *delta != 0 && !__builtin_sub_overflow(*limit, *start, &length)) {
    if (length == 0) {
      count = 0;
    } else if ((length > 0) == (*delta > 0) && length != std::numeric_limits<std::int64_t>::min()) {
      count = length / *delta + (length % *delta != 0);
    }
  }
  c.set_output(0, PartialShape{count});
  return {};
}

Status lin_space_shape(ShapeContext& c) {
  for (int i = 0; i < 3; ++i) TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
  const auto count = constant_int(c, 2);
  if (count && *count <= 0) return invalid_argument("Requires num > 0: ", *count);
  c.set_output(0, PartialShape{count.value_or(kUnknownDim)});
  return {};
}

namespace {

// An open number of rows, each of what is left of `data` after the dimensions of `prefix`.
Result<PartialShape> rows_shape(const PartialShape& data, const PartialShape& prefix) {
  if (!data.has_rank() || !prefix.has_rank()) return PartialShape();
  bool fits = data.rank() >= prefix.rank();
  for (int i = 0; fits && i < prefix.rank(); ++i) {
    fits = data.dim(i) == kUnknownDim || prefix.dim(i) == kUnknownDim || data.dim(i) == prefix.dim(i);
  }
  if (!fits) return invalid_argument("shape ", data, " does not start with ", prefix);
  Dims dims{kUnknownDim};
  for (int i = prefix.rank(); i < data.rank(); ++i) dims.push_back(data.dim(i));
  return PartialShape::create(std::move(dims));
}

}  // namespace

Status dynamic_partition_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape rows, rows_shape(c.input(0), c.input(1)));
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, rows);
  return {};
}

Status dynamic_stitch_shape(ShapeContext& c) {
  const int pairs = c.num_inputs() / 2;
  PartialShape rows;
  for (int i = 0; i < pairs; ++i) {
    TUTTI_ASSIGN_OR_RETURN(const PartialShape part, rows_shape(c.input(pairs + i), c.input(i)));
    TUTTI_ASSIGN_OR_RETURN(rows, rows.merge(part));
  }
  c.set_output(0, std::move(rows));
  return {};
}

Status pad_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const PartialShape paddings, c.with_rank(1, 2));
  if (paddings.dim(1) != kUnknownDim && paddings.dim(1) != 2) {
    return invalid_argument("paddings must have two columns, not ", paddings);
  }
  if (!input.has_rank()) return {};
  if (paddings.dim(0) != kUnknownDim && paddings.dim(0) != input.rank()) {
    return invalid_argument("paddings ", paddings, " do not fit input ", input);
  }
  PartialShape shape = PartialShape::unknown_of_rank(input.rank());
  const std::optional<Tensor> value = c.constant(1);
  if (value && value->rank() == 2 && kIndexTypes.contains(value->dtype())) {
    for (int i = 0; i < input.rank(); ++i) {
      std::int64_t dim = input.dim(i);
      for (int side = 0; side < 2; ++side) {
        const std::int64_t amount = cpu::index_at(value->raw(), value->dtype(), 2 * i + side);
        if (amount < 0) return invalid_argument("paddings must be non-negative: ", amount);
        if (!add_dim(&dim, amount)) return invalid_argument("padding ", amount, " is too large");
      }
      shape.set_dim(i, dim);
    }
  }
  c.set_output(0, std::move(shape));
  return {};
}

Status unsorted_segment_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape rows, rows_shape(c.input(0), c.input(1)));
  const auto count = constant_int(c, 2);
  if (count && *count < 0) return invalid_argument("num_segments ", *count, " is negative");
  if (rows.has_rank() && count) rows.set_dim(0, *count);
  c.set_output(0, std::move(rows));
  return {};
}

Status segment_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape ids, c.with_rank(1, 1));
  TUTTI_ASSIGN_OR_RETURN(PartialShape rows, rows_shape(c.input(0), ids));
  c.set_output(0, std::move(rows));
  return {};
}

Status ensure_shape_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, c.input(0).merge(c.attr<PartialShape>("shape")));
  c.set_output(0, std::move(shape));
  return {};
}

Status bitcast_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  if (!input.has_rank()) return {};
  const auto from = static_cast<std::int64_t>(dtype_size(c.attr<DType>("T")));
  const auto to = static_cast<std::int64_t>(dtype_size(c.attr<DType>("type")));
  Dims dims = to_vector(input.dims());
  if (from > to && to > 0) {
    dims.push_back(from / to);
  } else if (from < to && from > 0) {
    if (dims.empty() || (dims.back() != kUnknownDim && dims.back() != to / from)) {
      return invalid_argument("the last dimension of ", input, " must be ", to / from);
    }
    dims.pop_back();
  }
  TUTTI_ASSIGN_OR_RETURN(PartialShape shape, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(shape));
  return {};
}

}  // namespace tutti::internal
