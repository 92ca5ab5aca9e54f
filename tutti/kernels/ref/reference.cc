#include "tutti/kernels/ref/reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <string>

#include "tutti/kernels/ref/numbers.h"
#include "tutti/kernels/ref/windows.h"

namespace tutti {
namespace {

using ref::broadcast_position;
using ref::Complex;
using ref::coordinates;
using ref::Integer;
using ref::load;
using ref::store;
using ref::with_wide;

using Tensors = std::vector<Tensor>;

template <typename T>
T attr_or(const AttrMap& attrs, std::string_view name, T otherwise) {
  auto it = attrs.find(name);
  if (it == attrs.end()) return otherwise;
  const T* value = it->second.get<T>();
  return value != nullptr ? *value : otherwise;
}

template <typename W>
inline constexpr bool kIsReal = std::is_same_v<W, double>;
template <typename W>
inline constexpr bool kIsInteger = std::is_same_v<W, Integer>;
template <typename W>
inline constexpr bool kIsComplexW = std::is_same_v<W, Complex>;

// --- Functions of one element. ---

template <typename W>
W relu6(W x) {
  return x < W(0) ? W(0) : x > W(6) ? W(6) : x;
}

double activation(std::string_view op, double x, double alpha) {
  constexpr double kScale = 1.0507009873554804934, kScaleAlpha = 1.7580993408473768599;
  if (op == "Elu") return x < 0 ? std::expm1(x) : x;
  if (op == "Selu") return x < 0 ? kScaleAlpha * std::expm1(x) : kScale * x;
  if (op == "LeakyRelu") return x > 0 ? x : alpha * x;
  if (op == "Softplus") return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
  if (op == "Softsign") return x / (1 + std::abs(x));
  TUTTI_CHECK(false, op);
}

double real_function(std::string_view op, double x) {
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Rsqrt") return 1 / std::sqrt(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Expm1") return std::expm1(x);
  if (op == "Log") return std::log(x);
  if (op == "Log1p") return std::log1p(x);
  if (op == "Floor") return std::floor(x);
  if (op == "Ceil") return std::ceil(x);
  if (op == "Round" || op == "Rint") return std::nearbyint(x);
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Tan") return std::tan(x);
  if (op == "Tanh") return std::tanh(x);
  if (op == "Sigmoid") return 1 / (1 + std::exp(-x));
  if (op == "Erf") return std::erf(x);
  if (op == "Reciprocal" || op == "Inv") return 1 / x;
  return activation(op, x, 0);
}

Complex complex_function(std::string_view op, Complex x) {
  if (op == "Sqrt") return std::sqrt(x);
  if (op == "Rsqrt") return 1.0 / std::sqrt(x);
  if (op == "Exp") return std::exp(x);
  if (op == "Expm1") return std::exp(x) - 1.0;
  if (op == "Log") return std::log(x);
  if (op == "Log1p") return std::log(1.0 + x);
  if (op == "Round") return {std::nearbyint(x.real()), std::nearbyint(x.imag())};
  if (op == "Sin") return std::sin(x);
  if (op == "Cos") return std::cos(x);
  if (op == "Tan") return std::tan(x);
  if (op == "Tanh") return std::tanh(x);
  if (op == "Sigmoid") return 1.0 / (1.0 + std::exp(-x));
  if (op == "Reciprocal" || op == "Inv") return 1.0 / x;
  if (op == "Conj") return std::conj(x);
  if (op == "Sign") return x == 0.0 ? x : x / std::abs(x);
  TUTTI_CHECK(false, op);
}

template <typename W>
W unary(std::string_view op, W x, double alpha) {
  if (op == "Neg") return -x;
  if (op == "Square") return x * x;
  if constexpr (kIsComplexW<W>) {
    return complex_function(op, x);
  } else {
    if (op == "Abs") return x < W(0) ? -x : x;
    if (op == "Sign") return x > W(0) ? W(1) : x < W(0) ? W(-1) : x;
    if (op == "Relu") return x < W(0) ? W(0) : x;
    if (op == "Relu6") return relu6(x);
    if constexpr (kIsInteger<W>) {
      if (op == "Round") return x;
      if (op == "Reciprocal" || op == "Inv") return x == 1 || x == -1 ? x : W(0);
      TUTTI_CHECK(false, op);
    } else {
      if (op == "LeakyRelu") return activation(op, x, alpha);
      return real_function(op, x);
    }
  }
}

// --- Functions of two elements. ---

double real_gradient(std::string_view op, double a, double b, double alpha) {
  constexpr double kScale = 1.0507009873554804934, kScaleAlpha = 1.7580993408473768599;
  if (op == "EluGrad") return b < 0 ? a * (b + 1) : a;
  if (op == "SeluGrad") return b < 0 ? a * (b + kScaleAlpha) : a * kScale;
  if (op == "LeakyReluGrad") return b > 0 ? a : alpha * a;
  if (op == "SoftplusGrad") return a / (1 + std::exp(-b));
  if (op == "SoftsignGrad") return a / ((1 + std::abs(b)) * (1 + std::abs(b)));
  TUTTI_CHECK(false, op);
}

double real_binary(std::string_view op, double a, double b, double alpha) {
  if (op == "FloorDiv") return std::floor(a / b);
  if (op == "TruncateDiv") return std::trunc(a / b);
  if (op == "FloorMod") return a - std::floor(a / b) * b;
  if (op == "Mod" || op == "TruncateMod") return std::fmod(a, b);
  if (op == "Pow") return std::pow(a, b);
  if (op == "SquaredDifference") return (a - b) * (a - b);
  return real_gradient(op, a, b, alpha);
}

Integer integer_binary(std::string_view op, Integer a, Integer b) {
  if (op == "Div" || op == "TruncateDiv") return a / b;
  if (op == "Mod" || op == "TruncateMod") return a % b;
  if (op == "FloorDiv") return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  if (op == "FloorMod") return a - integer_binary("FloorDiv", a, b) * b;
  if (op == "SquaredDifference") return (a - b) * (a - b);
  if (op == "Pow") {
    Integer result = 1;
    for (Integer i = 0; i < b; ++i) result *= a;
    return result;
  }
  TUTTI_CHECK(false, op);
}

// Ops that are defined alike on real and complex numbers.
template <typename W>
W field_binary(std::string_view op, W a, W b, double alpha) {
  W y = a;
  if constexpr (kIsComplexW<W>) y = std::conj(a);
  if (op == "Div" || op == "RealDiv") return a / b;
  if (op == "DivNoNan") return b == W(0) ? W(0) : a / b;
  if (op == "MulNoNan") return b == W(0) ? W(0) : a * b;
  if (op == "Xlogy") return a == W(0) ? W(0) : a * std::log(b);
  if (op == "Xdivy") return a == W(0) ? W(0) : a / b;
  if (op == "SigmoidGrad") return b * a * (W(1) - a);
  if (op == "TanhGrad") return b * (W(1) - a * a);
  if (op == "SqrtGrad") return W(0.5) * b / y;
  if (op == "RsqrtGrad") return W(-0.5) * b * y * y * y;
  if (op == "ReciprocalGrad" || op == "InvGrad") return -b * y * y;
  if constexpr (kIsComplexW<W>) {
    if (op == "Pow") return std::pow(a, b);
    if (op == "SquaredDifference") return (a - b) * std::conj(a - b);
    TUTTI_CHECK(false, op);
  } else {
    return real_binary(op, a, b, alpha);
  }
}

template <typename W>
W binary(std::string_view op, W a, W b, double alpha) {
  if (op == "Add" || op == "AddV2") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if constexpr (!kIsComplexW<W>) {
    if (op == "Maximum") return a < b ? b : a;
    if (op == "Minimum") return b < a ? b : a;
    if (op == "ReluGrad") return b > W(0) ? a : W(0);
    if (op == "Relu6Grad") return b > W(0) && b < W(6) ? a : W(0);
  }
  if constexpr (kIsInteger<W>) {
    return integer_binary(op, a, b);
  } else {
    return field_binary(op, a, b, alpha);
  }
}

template <typename W>
bool compare(std::string_view op, W a, W b) {
  if (op == "Equal") return a == b;
  if (op == "NotEqual") return a != b;
  if (op == "LogicalAnd") return a != W(0) && b != W(0);
  if (op == "LogicalOr") return a != W(0) || b != W(0);
  if constexpr (!kIsComplexW<W>) {
    if (op == "Less") return a < b;
    if (op == "LessEqual") return a <= b;
    if (op == "Greater") return a > b;
    if (op == "GreaterEqual") return a >= b;
  }
  TUTTI_CHECK(false, op);
}

// --- Element-wise ops over tensors. ---

ReferenceFn unary_reference(std::string op) {
  return [op](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    const double alpha = attr_or(attrs, "alpha", 0.2f);
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      std::vector<W> values = load<W>(in[0]);
      for (W& value : values) value = unary(op, value, alpha);
      return {store(in[0].dtype(), in[0].shape(), values)};
    });
  };
}

ReferenceFn predicate_reference(std::string op) {
  return [op](const AttrMap&, const Tensors& in) -> Result<Tensors> {
    Tensor out(DType::kBool, in[0].shape());
    std::vector<double> values = load<double>(in[0]);
    for (std::size_t i = 0; i < values.size(); ++i) {
      out.data<bool>()[i] = op == "LogicalNot" ? values[i] == 0
                            : op == "IsNan"    ? std::isnan(values[i])
                            : op == "IsInf"    ? std::isinf(values[i])
                                               : std::isfinite(values[i]);
    }
    return Tensors{out};
  };
}

ReferenceFn binary_reference(std::string op, bool same_shape) {
  return [op, same_shape](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    const double alpha = attr_or(attrs, "alpha", 0.2f);
    if (same_shape && in[0].shape() != in[1].shape()) return invalid_argument("shapes differ");
    TUTTI_ASSIGN_OR_RETURN(Shape shape, broadcast_shapes(in[0].shape(), in[1].shape()));
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const std::vector<W> a = load<W>(in[0]), b = load<W>(in[1]);
      std::vector<W> out;
      for (const auto& at : coordinates(shape)) {
        out.push_back(
            binary(op, a[broadcast_position(in[0].shape(), at)], b[broadcast_position(in[1].shape(), at)], alpha));
      }
      return {store(in[0].dtype(), shape, out)};
    });
  };
}

ReferenceFn comparison_reference(std::string op) {
  return [op](const AttrMap& attrs, const Tensors& in) -> Result<Tensors> {
    Result<Shape> shape = broadcast_shapes(in[0].shape(), in[1].shape());
    if (!shape.ok()) {
      if (attr_or(attrs, "incompatible_shape_error", true)) return shape.status();
      return Tensors{Tensor::scalar(op == "NotEqual")};
    }
    return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
      using W = decltype(wide);
      const std::vector<W> a = load<W>(in[0]), b = load<W>(in[1]);
      Tensor out(DType::kBool, *shape);
      std::int64_t i = 0;
      for (const auto& at : coordinates(*shape)) {
        out.data<bool>()[i++] =
            compare(op, a[broadcast_position(in[0].shape(), at)], b[broadcast_position(in[1].shape(), at)]);
      }
      return {out};
    });
  };
}

Result<Tensors> select_v2(const AttrMap&, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Shape branches, broadcast_shapes(in[1].shape(), in[2].shape()));
  TUTTI_ASSIGN_OR_RETURN(Shape shape, broadcast_shapes(in[0].shape(), branches));
  return with_wide(in[1].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> yes = load<W>(in[1]), no = load<W>(in[2]);
    std::vector<W> out;
    for (const auto& at : coordinates(shape)) {
      const bool chosen = in[0].data<bool>()[broadcast_position(in[0].shape(), at)];
      out.push_back(chosen ? yes[broadcast_position(in[1].shape(), at)] : no[broadcast_position(in[2].shape(), at)]);
    }
    return {store(in[1].dtype(), shape, out)};
  });
}

Result<Tensors> select(const AttrMap& attrs, const Tensors& in) {
  if (in[1].shape() != in[2].shape()) return invalid_argument("branches differ");
  Tensor condition = in[0];
  if (condition.rank() == 1 && in[1].rank() > 1) {
    if (condition.dim(0) != in[1].dim(0)) return invalid_argument("rows differ");
    Shape column{condition.dim(0)};
    for (int d = 1; d < in[1].rank(); ++d) column.append(1);
    condition = condition.reshaped(column);
  } else if (condition.rank() != 0 && condition.shape() != in[1].shape()) {
    return invalid_argument("condition does not fit");
  }
  return select_v2(attrs, {condition, in[1], in[2]});
}

Result<Tensors> clip_by_value(const AttrMap&, const Tensors& in) {
  for (int i = 1; i < 3; ++i) {
    if (in[i].rank() != 0 && in[i].shape() != in[0].shape()) return invalid_argument("bounds do not fit");
  }
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    std::vector<W> out = load<W>(in[0]);
    const std::vector<W> low = load<W>(in[1]), high = load<W>(in[2]);
    const auto clip = [](auto x, auto bottom, auto top) { return std::max(std::min(x, top), bottom); };
    for (std::size_t i = 0; i < out.size(); ++i) {
      const W top = high[high.size() == 1 ? 0 : i], bottom = low[low.size() == 1 ? 0 : i];
      if constexpr (kIsComplexW<W>) {
        out[i] = {clip(out[i].real(), bottom.real(), top.real()), clip(out[i].imag(), bottom.imag(), top.imag())};
      } else {
        out[i] = clip(out[i], bottom, top);
      }
    }
    return {store(in[0].dtype(), in[0].shape(), out)};
  });
}

Result<Tensors> add_n(const AttrMap&, const Tensors& in) {
  for (const Tensor& t : in) {
    if (t.shape() != in[0].shape()) return invalid_argument("shapes differ");
  }
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    std::vector<W> sum(static_cast<std::size_t>(in[0].num_elements()), W(0));
    for (const Tensor& t : in) {
      const std::vector<W> values = load<W>(t);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
    }
    return {store(in[0].dtype(), in[0].shape(), sum)};
  });
}

Result<Tensors> cast(const AttrMap& attrs, const Tensors& in) {
  const DType to = attr_or(attrs, "DstT", DType::kFloat);
  return with_wide(in[0].dtype(),
                   [&](auto wide) -> Tensors { return {store(to, in[0].shape(), load<decltype(wide)>(in[0]))}; });
}

Result<Tensors> l2_loss(const AttrMap&, const Tensors& in) {
  double sum = 0;
  for (double x : load<double>(in[0])) sum += x * x;
  return Tensors{store<double>(in[0].dtype(), {}, {sum / 2})};
}

// --- Reductions. ---

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

// --- Products. ---

template <typename W>
W element(const std::vector<W>& m, std::int64_t base, std::int64_t rows, std::int64_t columns, bool transposed,
          bool conj, std::int64_t i, std::int64_t j) {
  W value = transposed ? m[base + j * rows + i] : m[base + i * columns + j];
  if constexpr (kIsComplexW<W>) {
    if (conj) value = std::conj(value);
  }
  return value;
}

// Matrices in the last two dimensions, batches broadcast.
Result<Tensor> multiply(const Tensor& x, const Tensor& y, bool flip_x, bool flip_y, bool conj) {
  if (x.rank() < 2 || y.rank() < 2) return invalid_argument("no matrices");
  const auto size = [](const Tensor& t, int from_end) { return t.dim(t.rank() - from_end); };
  const std::int64_t m = size(x, flip_x ? 1 : 2), k = size(x, flip_x ? 2 : 1), n = size(y, flip_y ? 2 : 1);
  if (k != size(y, flip_y ? 1 : 2)) return invalid_argument("inner dimensions differ");
  const Shape batch_x(x.shape().dims().first(x.rank() - 2)), batch_y(y.shape().dims().first(y.rank() - 2));
  TUTTI_ASSIGN_OR_RETURN(Shape batch, broadcast_shapes(batch_x, batch_y));
  Shape shape = batch;
  shape.append(m);
  shape.append(n);
  return with_wide(x.dtype(), [&](auto wide) -> Tensor {
    using W = decltype(wide);
    const std::vector<W> a = load<W>(x), b = load<W>(y);
    std::vector<W> out;
    for (const auto& at : coordinates(batch)) {
      const std::int64_t base_a = broadcast_position(batch_x, at) * m * k,
                         base_b = broadcast_position(batch_y, at) * k * n;
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          W sum(0);
          for (std::int64_t l = 0; l < k; ++l) {
            sum += element(a, base_a, m, k, flip_x, conj && flip_x, i, l) *
                   element(b, base_b, k, n, flip_y, conj && flip_y, l, j);
          }
          out.push_back(sum);
        }
      }
    }
    return store(x.dtype(), shape, out);
  });
}

Result<Tensors> matmul(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 2) return invalid_argument("no matrices");
  TUTTI_ASSIGN_OR_RETURN(Tensor out, multiply(in[0], in[1], attr_or(attrs, "transpose_a", false),
                                              attr_or(attrs, "transpose_b", false), false));
  return Tensors{out};
}

Result<Tensors> batch_matmul(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensor out,
                         multiply(in[0], in[1], attr_or(attrs, "adj_x", false), attr_or(attrs, "adj_y", false), true));
  return Tensors{out};
}

// The old form repeats no batch.
Result<Tensors> batch_matmul_v1(const AttrMap& attrs, const Tensors& in) {
  bool same = in[0].rank() == in[1].rank();
  for (int d = 0; same && d < in[0].rank() - 2; ++d) same = in[0].dim(d) == in[1].dim(d);
  if (!same) return invalid_argument("batches differ");
  return batch_matmul(attrs, in);
}

// --- Networks. ---

int channel_axis(const AttrMap& attrs, const Tensor& value) {
  return attr_or(attrs, "data_format", std::string("NHWC")) == "NCHW" ? 1 : value.rank() - 1;
}

Result<Tensors> bias_add(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() < 2 || in[1].rank() != 1) return invalid_argument("ranks");
  const int axis = channel_axis(attrs, in[0]);
  if (in[1].dim(0) != in[0].dim(axis)) return invalid_argument("channels");
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    std::vector<W> out = load<W>(in[0]);
    const std::vector<W> bias = load<W>(in[1]);
    std::size_t i = 0;
    for (const auto& at : coordinates(in[0].shape())) out[i++] += bias[at[axis]];
    return {store(in[0].dtype(), in[0].shape(), out)};
  });
}

Result<Tensors> bias_add_grad(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() < 2) return invalid_argument("rank");
  const int axis = channel_axis(attrs, in[0]);
  return with_wide(in[0].dtype(), [&](auto wide) -> Tensors {
    using W = decltype(wide);
    const std::vector<W> values = load<W>(in[0]);
    std::vector<W> out(static_cast<std::size_t>(in[0].dim(axis)), W(0));
    std::size_t i = 0;
    for (const auto& at : coordinates(in[0].shape())) out[at[axis]] += values[i++];
    return {store(in[0].dtype(), {in[0].dim(axis)}, out)};
  });
}

Result<Tensors> fused_matmul(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensors product, matmul(attrs, {in[0], in[1]}));
  TUTTI_ASSIGN_OR_RETURN(Tensors sum, bias_add({}, {product[0], in[2]}));
  const std::string name = attr_or(attrs, "activation", std::string());
  return name.empty() ? sum : unary_reference(name)({}, sum);
}

Result<Tensors> matmul_add(const AttrMap& attrs, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Tensors product, matmul(attrs, {in[0], in[1]}));
  return binary_reference("AddV2", false)({}, {in[2], product[0]});
}

// log(sum(e^x)) of one row.
double log_sum_exp(const double* row, std::int64_t n) {
  const double top = *std::max_element(row, row + n);
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += std::exp(row[i] - top);
  return top + std::log(sum);
}

ReferenceFn softmax_reference(bool log) {
  return [log](const AttrMap&, const Tensors& in) -> Result<Tensors> {
    if (in[0].rank() < 1) return invalid_argument("rank");
    std::vector<double> x = load<double>(in[0]);
    const std::int64_t n = in[0].dim(in[0].rank() - 1);
    for (std::size_t r = 0; r < x.size(); r += static_cast<std::size_t>(n)) {
      const double total = log_sum_exp(&x[r], n);
      for (std::int64_t i = 0; i < n; ++i) x[r + i] = log ? x[r + i] - total : std::exp(x[r + i] - total);
    }
    return Tensors{store(in[0].dtype(), in[0].shape(), x)};
  };
}

// Both as matrices of wide numbers; loss = sum of p (logsumexp - x), backprop = softmax - p.
Tensors cross_entropy_of(DType dtype, std::int64_t rows, std::int64_t n, const std::vector<double>& x,
                         const std::vector<double>& p) {
  std::vector<double> loss, backprop;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double total = n == 0 ? 0 : log_sum_exp(&x[r * n], n);
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      sum += p[r * n + i] * (total - x[r * n + i]);
      backprop.push_back(std::exp(x[r * n + i] - total) - p[r * n + i]);
    }
    loss.push_back(sum);
  }
  return {store(dtype, {rows}, loss), store(dtype, {rows, n}, backprop)};
}

Result<Tensors> cross_entropy(const AttrMap&, const Tensors& in) {
  TUTTI_ASSIGN_OR_RETURN(Shape shape, broadcast_shapes(in[0].shape(), in[1].shape()));
  if (shape.rank() != 2) return invalid_argument("rank");
  const std::vector<double> logits = load<double>(in[0]), labels = load<double>(in[1]);
  std::vector<double> x, p;
  for (const auto& at : coordinates(shape)) {
    x.push_back(logits[broadcast_position(in[0].shape(), at)]);
    p.push_back(labels[broadcast_position(in[1].shape(), at)]);
  }
  return cross_entropy_of(in[0].dtype(), shape.dim(0), shape.dim(1), x, p);
}

Result<Tensors> sparse_cross_entropy(const AttrMap&, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 1 || in[0].dim(0) != in[1].dim(0)) return invalid_argument("shapes");
  const std::int64_t rows = in[0].dim(0), n = in[0].dim(1);
  std::vector<double> p(static_cast<std::size_t>(rows * n), 0);
  std::int64_t r = 0;
  for (Integer label : load<Integer>(in[1])) {
    if (label < 0 || label >= n) return invalid_argument("label out of range");
    p[r++ * n + static_cast<std::int64_t>(label)] = 1;
  }
  return cross_entropy_of(in[0].dtype(), rows, n, load<double>(in[0]), p);
}

Result<Tensors> in_top_k(const AttrMap& attrs, const Tensors& in) {
  if (in[0].rank() != 2 || in[1].rank() != 1 || in[0].dim(0) != in[1].dim(0)) return invalid_argument("shapes");
  const Integer k = in.size() > 2 ? load<Integer>(in[2])[0] : Integer(attr_or(attrs, "k", std::int64_t{1}));
  const std::vector<double> scores = load<double>(in[0]);
  const std::vector<Integer> targets = load<Integer>(in[1]);
  Tensor out(DType::kBool, in[1].shape());
  const std::int64_t n = in[0].dim(1);
  for (std::size_t r = 0; r < targets.size(); ++r) {
    std::vector<double> row(scores.begin() + r * n, scores.begin() + (r + 1) * n);
    const bool valid = targets[r] >= 0 && targets[r] < n;
    const double score = valid ? row[static_cast<std::size_t>(targets[r])] : 0;
    out.data<bool>()[r] = valid && std::count_if(row.begin(), row.end(), [&](double s) { return s > score; }) < k;
  }
  return Tensors{out};
}

std::map<std::string, ReferenceFn, std::less<>> all_references() {
  std::map<std::string, ReferenceFn, std::less<>> all;
  for (const char* op :
       {"Neg",     "Square", "Sqrt",  "Rsqrt", "Reciprocal", "Inv",  "Exp",  "Expm1",     "Log",      "Log1p",
        "Abs",     "Sign",   "Floor", "Ceil",  "Round",      "Rint", "Sin",  "Cos",       "Tan",      "Tanh",
        "Sigmoid", "Erf",    "Conj",  "Relu",  "Relu6",      "Elu",  "Selu", "LeakyRelu", "Softplus", "Softsign"}) {
    all[op] = unary_reference(op);
  }
  for (const char* op : {"IsNan", "IsInf", "IsFinite", "LogicalNot"}) all[op] = predicate_reference(op);
  for (const char* op :
       {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod",
        "DivNoNan", "MulNoNan", "Pow", "Maximum", "Minimum", "SquaredDifference", "Xlogy", "Xdivy"}) {
    all[op] = binary_reference(op, false);
  }
  for (const char* op : {"SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad", "ReluGrad",
                         "Relu6Grad", "EluGrad", "SeluGrad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad"}) {
    all[op] = binary_reference(op, true);
  }
  for (const char* op :
       {"Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual", "LogicalAnd", "LogicalOr"}) {
    all[op] = comparison_reference(op);
  }
  for (const char* op : {"Sum", "Mean", "Prod", "Min", "Max", "All", "Any", "EuclideanNorm"}) {
    all[op] = reduction_reference(op);
  }
  all["Select"] = select;
  all["SelectV2"] = select_v2;
  all["ClipByValue"] = clip_by_value;
  all["AddN"] = add_n;
  all["Cast"] = cast;
  all["L2Loss"] = l2_loss;
  all["_ProdGrad"] = prod_grad;
  all["ArgMax"] = arg_reference(true);
  all["ArgMin"] = arg_reference(false);
  all["MatMul"] = matmul;
  all["_FusedMatMul"] = fused_matmul;
  all["_MatMulAdd"] = matmul_add;
  all["BatchMatMul"] = batch_matmul_v1;
  all["BatchMatMulV2"] = batch_matmul;
  all["BiasAdd"] = bias_add;
  all["BiasAddV1"] = bias_add;
  all["BiasAddGrad"] = bias_add_grad;
  all["Softmax"] = softmax_reference(false);
  all["LogSoftmax"] = softmax_reference(true);
  all["SoftmaxCrossEntropyWithLogits"] = cross_entropy;
  all["SparseSoftmaxCrossEntropyWithLogits"] = sparse_cross_entropy;
  all["InTopK"] = in_top_k;
  all["InTopKV2"] = in_top_k;
  ref::add_window_references(all);
  return all;
}

}  // namespace

const ReferenceFn* find_reference(std::string_view op) {
  static const std::map<std::string, ReferenceFn, std::less<>> all = all_references();
  auto it = all.find(op);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace tutti
