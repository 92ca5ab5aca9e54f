#include "tutti/kernels/ref/reductions.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "tutti/kernels/ref/numbers.h"

namespace tutti::ref {
namespace {

struct Axes {
  std::vector<bool> reduced;
  Shape shape;       // of the result
  Shape kept_shape;  // the same with ones for the reduced dimensions
};

Result<Axes> read_axes(const Tensor& in, const Tensor& indices, bool keep_dims) {
  Axes axes;
  axes.reduced.resize(static_cast<std::size_t>(in.rank()), false);
  if (indices.rank() > 1) return invalid_argument("axes must be a vector");
  for (Integer axis : load<Integer>(indices)) {
    if (axis < -in.rank() || axis >= in.rank()) return invalid_argument("axis out of range");
    const std::size_t at = static_cast<std::size_t>(axis < 0 ? axis + in.rank() : axis);
    if (axes.reduced[at]) return invalid_argument("axis twice");
    axes.reduced[at] = true;
  }
  for (int d = 0; d < in.rank(); ++d) {
    axes.kept_shape.append(axes.reduced[d] ? 1 : in.dim(d));
    if (!axes.reduced[d] || keep_dims) axes.shape.append(axes.reduced[d] ? 1 : in.dim(d));
  }
  return axes;
}

template <typename W>
W largest(DType dtype) {
  if constexpr (kIsReal<W>) return std::numeric_limits<double>::infinity();
  if (dtype == DType::kBool) return W(1);
  const bool is_unsigned =
      dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32 || dtype == DType::kUint64;
  return W((Integer(1) << (8 * dtype_size(dtype) - (is_unsigned ? 0 : 1))) - 1);
}

template <typename W>
W smallest(DType dtype) {
  if constexpr (kIsReal<W>) return -std::numeric_limits<double>::infinity();
  const bool is_signed =
      dtype == DType::kInt8 || dtype == DType::kInt16 || dtype == DType::kInt32 || dtype == DType::kInt64;
  return is_signed ? -largest<W>(dtype) - W(1) : W(0);
}

template <typename W>
W reduce(std::string_view op, const std::vector<W>& group, DType dtype) {
  const W sum = std::accumulate(group.begin(), group.end(), W(0));
  if (op == "Sum") return sum;
  if (op == "Prod") return std::accumulate(group.begin(), group.end(), W(1), std::multiplies<W>());
  if (op == "Mean") {
    if (!kIsReal<W> && group.empty()) return W(0);
    if constexpr (kIsInteger<W>)
      return sum / static_cast<W>(group.size());
    else
      return sum / static_cast<double>(group.size());
  }
  if constexpr (!kIsComplexW<W>) {
    if (op == "Min" || op == "All") {
      return std::accumulate(group.begin(), group.end(), largest<W>(dtype), [](W a, W b) { return std::min(a, b); });
    }
    if (op == "Max" || op == "Any") {
      return std::accumulate(group.begin(), group.end(), smallest<W>(dtype), [](W a, W b) { return std::max(a, b); });
    }
  }
  TUTTI_CHECK(op == "EuclideanNorm", op);
  double squares = 0;
  for (W x : group) {
    if constexpr (kIsComplexW<W>) {
      squares += std::norm(x);
    } else {
      squares += static_cast<double>(x) * static_cast<double>(x);
    }
  }
  return static_cast<W>(std::sqrt(squares));
}

ReferenceFn reduction_reference(std::string op) {
  return [op](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    TUTTI_ASSIGN_OR_RETURN(Axes axes, read_axes(in[0], in[1], attr_or(attrs, "keep_dims", false)));
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const std::vector<W> values = load<W>(in[0]);
      std::vector<std::vector<W>> groups(static_cast<std::size_t>(axes.shape.num_elements()));
      std::size_t i = 0;
      for (const auto& at : coordinates(in[0].shape())) {
        groups[broadcast_position(axes.kept_shape, at)].push_back(values[i++]);
      }
      std::vector<W> out;
      for (const auto& group : groups) out.push_back(reduce(op, group, in[0].dtype()));
      return {store(in[0].dtype(), axes.shape, out)};
    });
  };
}

ReferenceFn arg_reference(bool maximum) {
  return [maximum](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    if (in[0].rank() == 0) return invalid_argument("a scalar has no axis");
    TUTTI_ASSIGN_OR_RETURN(Axes axes, read_axes(in[0], in[1].reshaped({1}), false));
    const int axis = static_cast<int>(std::find(axes.reduced.begin(), axes.reduced.end(), true) - axes.reduced.begin());
    if (in[0].dim(axis) == 0) return invalid_argument("axis is empty");
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      std::vector<Integer> best(static_cast<std::size_t>(axes.shape.num_elements()), -1);
      if constexpr (!kIsComplexW<W>) {
        const std::vector<W> values = load<W>(in[0]);
        std::vector<W> best_value(best.size());
        std::size_t i = 0;
        for (const auto& at : coordinates(in[0].shape())) {
          const std::int64_t cell = broadcast_position(axes.kept_shape, at);
          const W value = values[i++];
          if (best[cell] >= 0 && !(maximum ? value > best_value[cell] : value < best_value[cell])) continue;
          best[cell] = at[axis];
          best_value[cell] = value;
        }
      }
      return {store(attr_or(attrs, "output_type", DType::kInt64), axes.shape, best)};
    });
  };
}

Result<Tensors> prod_grad(const AttrMap&, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Axes axes, read_axes(in[0], in[1], true));
  if (in[2].shape() != axes.shape) return invalid_argument("dy does not fit");
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> values = load<W>(in[0]), dy = load<W>(in[2]);
    const auto all = coordinates(in[0].shape());
    std::vector<W> out;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t cell = broadcast_position(axes.kept_shape, all[i]);
      W product = dy[cell];
      for (std::size_t j = 0; j < values.size(); ++j) {
        if (j == i || broadcast_position(axes.kept_shape, all[j]) != cell) continue;
        if constexpr (kIsComplexW<W>)
          product *= std::conj(values[j]);
        else
          product *= values[j];
      }
      out.push_back(product);
    }
    return {store(in[0].dtype(), in[0].shape(), out)};
  });
}

}  // namespace

void add_reduction_references(References& all) {
  for (const char* op : {"Sum", "Mean", "Prod", "Min", "Max", "All", "Any", "EuclideanNorm"}) {
    all[op] = reduction_reference(op);
  }
  all["_ProdGrad"] = prod_grad;
  all["ArgMax"] = arg_reference(true);
  all["ArgMin"] = arg_reference(false);
}

}  // namespace tutti::ref
