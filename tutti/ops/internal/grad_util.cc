#include "tutti/ops/internal/grad_util.h"

#include <algorithm>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

// Which dimensions of the result x was repeated along, and whether x lacks or flattens some of them.
struct RepeatedAxes {
  std::vector<std::int64_t> axes;
  bool needs_reshape = false;  // x has some of them, with size 1
};

// Nothing when the shapes do not tell.
std::optional<RepeatedAxes> repeated_axes(const PartialShape& x, const PartialShape& other) {
  if (!x.has_rank()) {
    // Against a scalar, x keeps its shape, whatever that is.
    if (other.has_rank() && other.rank() == 0) return RepeatedAxes{};
    return std::nullopt;
  }
  if (!other.has_rank()) return std::nullopt;
  const int rank = std::max(x.rank(), other.rank());
  RepeatedAxes result;
  for (int d = 0; d < rank; ++d) {
    const int at_x = d - (rank - x.rank());
    const int at_other = d - (rank - other.rank());
    const std::int64_t mine = at_x < 0 ? 1 : x.dim(at_x);
    const std::int64_t theirs = at_other < 0 ? 1 : other.dim(at_other);
    if (at_x < 0) {
      result.axes.push_back(d);
    } else if (theirs == 1 || (mine == theirs && mine != kUnknownDim)) {
      continue;
    } else if (mine == 1 && theirs != kUnknownDim) {
      result.axes.push_back(d);
      result.needs_reshape = true;
    } else if (mine > 1) {
      continue;  // theirs is open: 1 or the same
    } else {
      return std::nullopt;
    }
  }
  return result;
}

// Reduced dimensions as 1, the others as they are, at most one of them -1; nothing when more are open.
std::optional<std::vector<std::int64_t>> static_kept_shape(const PartialShape& in,
                                                           const std::vector<std::int64_t>& axes) {
  if (!in.has_rank()) return std::nullopt;
  std::vector<std::int64_t> dims(in.dims().begin(), in.dims().end());
  for (std::int64_t axis : axes) dims[axis < 0 ? axis + in.rank() : axis] = 1;
  if (std::count(dims.begin(), dims.end(), kUnknownDim) > 1) return std::nullopt;
  return dims;
}

}  // namespace

Output conjugate(Output x) { return is_complex(x.dtype()) ? op1("Conj", {x}) : x; }

Output scalar_like(Output x, double value) { return constant(x.graph(), value, x.dtype()); }

Output int_vector(Graph& graph, const std::vector<std::int64_t>& values) { return Ints(values).in(graph); }

Output known_shape_of(Output x) {
  if (std::optional<Shape> known = x.shape().as_shape()) return Ints(*known).in(x.graph());
  return shape_of(x);
}

std::optional<std::vector<std::int64_t>> known_integers(Output x) {
  if (x.node->op_name() != "Const") return std::nullopt;
  const Tensor& value = x.node->attr<Tensor>("value");
  std::vector<std::int64_t> result;
  if (value.dtype() == DType::kInt32) {
    for (std::int32_t v : value.flat<std::int32_t>()) result.push_back(v);
  } else if (value.dtype() == DType::kInt64) {
    for (std::int64_t v : value.flat<std::int64_t>()) result.push_back(v);
  } else {
    return std::nullopt;
  }
  return result;
}

Output unbroadcast(Output grad, Output x, Output other) {
  std::optional<RepeatedAxes> known = repeated_axes(x.shape(), other.shape());
  if (known && known->axes.empty()) return grad;
  if (known) {
    Output sum = reduce_sum(grad, Ints(known->axes));
    return known->needs_reshape ? reshape(sum, known_shape_of(x)) : sum;
  }
  Output own = shape_of(x);
  Output axes = op1("BroadcastGradientArgs", {own, shape_of(other)});
  return reshape(reduce_sum(grad, Ints(axes)), own);
}

Output kept_dims_shape(Node& reduction) {
  Output x = reduction.input(0);
  Output axes = reduction.input(1);
  Graph& graph = x.graph();
  if (std::optional<std::vector<std::int64_t>> known = known_integers(axes)) {
    if (std::optional<std::vector<std::int64_t>> dims = static_kept_shape(x.shape(), *known)) {
      return int_vector(graph, *dims);
    }
  }
  // Ones written over the reduced places of the shape.
  Output in_shape = shape_of(x);
  Output count = size(in_shape);
  Output places = reshape(mod(add(cast(axes, DType::kInt32), count), count), Ints{-1});
  Output all = range(constant(graph, 0, DType::kInt32), count, constant(graph, 1, DType::kInt32));
  Output ones = fill(shape_of(places), constant(graph, 1, DType::kInt32));
  return op1("DynamicStitch", {all, places, in_shape, ones});
}

}  // namespace tutti::internal
