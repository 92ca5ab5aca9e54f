#include "tutti/kernels/ref/elementwise.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "tutti/kernels/ref/numbers.h"

namespace tutti::ref {
namespace {

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

}  // namespace

void add_elementwise_references(References& all) {
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
  all["Select"] = select;
  all["SelectV2"] = select_v2;
  all["ClipByValue"] = clip_by_value;
  all["AddN"] = add_n;
  all["Cast"] = cast;
}

}  // namespace tutti::ref
