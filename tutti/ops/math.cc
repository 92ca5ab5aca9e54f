#include "tutti/ops/math.h"

#include "tutti/ops/builders.h"

namespace tutti {

#define TUTTI_UNARY_BUILDER(function, op) \
  Output function(Output x, const std::string& name) { return op1(op, {x}, {}, name); }
TUTTI_UNARY_BUILDER(neg, "Neg")
TUTTI_UNARY_BUILDER(square, "Square")
TUTTI_UNARY_BUILDER(sqrt, "Sqrt")
TUTTI_UNARY_BUILDER(rsqrt, "Rsqrt")
TUTTI_UNARY_BUILDER(reciprocal, "Reciprocal")
TUTTI_UNARY_BUILDER(exp, "Exp")
TUTTI_UNARY_BUILDER(expm1, "Expm1")
TUTTI_UNARY_BUILDER(log, "Log")
TUTTI_UNARY_BUILDER(log1p, "Log1p")
TUTTI_UNARY_BUILDER(abs, "Abs")
TUTTI_UNARY_BUILDER(sign, "Sign")
TUTTI_UNARY_BUILDER(floor, "Floor")
TUTTI_UNARY_BUILDER(ceil, "Ceil")
TUTTI_UNARY_BUILDER(round, "Round")
TUTTI_UNARY_BUILDER(sin, "Sin")
TUTTI_UNARY_BUILDER(cos, "Cos")
TUTTI_UNARY_BUILDER(tanh, "Tanh")
TUTTI_UNARY_BUILDER(sigmoid, "Sigmoid")
TUTTI_UNARY_BUILDER(erf, "Erf")
TUTTI_UNARY_BUILDER(is_nan, "IsNan")
TUTTI_UNARY_BUILDER(is_finite, "IsFinite")
TUTTI_UNARY_BUILDER(logical_not, "LogicalNot")
#undef TUTTI_UNARY_BUILDER

#define TUTTI_BINARY_BUILDER(function, op) \
  Output function(Output x, Output y, const std::string& name) { return op1(op, {x, y}, {}, name); }
TUTTI_BINARY_BUILDER(add, "AddV2")
TUTTI_BINARY_BUILDER(sub, "Sub")
TUTTI_BINARY_BUILDER(mul, "Mul")
TUTTI_BINARY_BUILDER(div, "RealDiv")
TUTTI_BINARY_BUILDER(div_no_nan, "DivNoNan")
TUTTI_BINARY_BUILDER(floordiv, "FloorDiv")
TUTTI_BINARY_BUILDER(mod, "FloorMod")
TUTTI_BINARY_BUILDER(pow, "Pow")
TUTTI_BINARY_BUILDER(maximum, "Maximum")
TUTTI_BINARY_BUILDER(minimum, "Minimum")
TUTTI_BINARY_BUILDER(squared_difference, "SquaredDifference")
TUTTI_BINARY_BUILDER(equal, "Equal")
TUTTI_BINARY_BUILDER(not_equal, "NotEqual")
TUTTI_BINARY_BUILDER(less, "Less")
TUTTI_BINARY_BUILDER(less_equal, "LessEqual")
TUTTI_BINARY_BUILDER(greater, "Greater")
TUTTI_BINARY_BUILDER(greater_equal, "GreaterEqual")
TUTTI_BINARY_BUILDER(logical_and, "LogicalAnd")
TUTTI_BINARY_BUILDER(logical_or, "LogicalOr")
#undef TUTTI_BINARY_BUILDER

namespace {

Output like(Output x, double value) {
  if (!x) throw_error(invalid_argument("an operand is empty"));
  return constant(x.graph(), value, x.dtype());
}

Output reduce(const std::string& op, Output x, const Reduce& over, const std::string& name) {
  if (!x) throw_error(invalid_argument(op, ": input 0 is empty"));
  Graph& graph = x.graph();
  Output axes;
  if (over.axes) {
    axes = over.axes->in(graph);
  } else if (x.shape().has_rank()) {
    std::vector<std::int64_t> all;
    for (int d = 0; d < x.shape().rank(); ++d) all.push_back(d);
    axes = Ints(all).in(graph);
  } else {
    axes = range(constant(graph, 0, DType::kInt32), rank(x), constant(graph, 1, DType::kInt32));
  }
  return op1(op, {x, axes}, {{"keep_dims", over.keep_dims}}, name);
}

Output arg_reduce(const std::string& op, Output x, std::int64_t axis, DType output_type, const std::string& name) {
  if (!x) throw_error(invalid_argument(op, ": input 0 is empty"));
  Output dimension = constant(x.graph(), axis, DType::kInt32);
  return op1(op, {x, dimension}, {{"output_type", output_type}}, name);
}

}  // namespace

Output operator+(Output x, Output y) { return add(x, y); }
Output operator-(Output x, Output y) { return sub(x, y); }
Output operator*(Output x, Output y) { return mul(x, y); }
Output operator/(Output x, Output y) { return div(x, y); }
Output operator-(Output x) { return neg(x); }
Output operator+(Output x, double y) { return add(x, like(x, y)); }
Output operator-(Output x, double y) { return sub(x, like(x, y)); }
Output operator*(Output x, double y) { return mul(x, like(x, y)); }
Output operator/(Output x, double y) { return div(x, like(x, y)); }
Output operator+(double x, Output y) { return add(like(y, x), y); }
Output operator-(double x, Output y) { return sub(like(y, x), y); }
Output operator*(double x, Output y) { return mul(like(y, x), y); }
Output operator/(double x, Output y) { return div(like(y, x), y); }

Output where(Output condition, Output x, Output y, const std::string& name) {
  return op1("SelectV2", {condition, x, y}, {}, name);
}

Output add_n(const std::vector<Output>& values, const std::string& name) { return op1("AddN", values, {}, name); }

Output cast(Output x, DType dtype, const std::string& name) {
  if (x && x.dtype() == dtype) return x;
  return op1("Cast", {x}, {{"DstT", dtype}}, name);
}

Output clip_by_value(Output x, double low, double high, const std::string& name) {
  return op1("ClipByValue", {x, like(x, low), like(x, high)}, {}, name);
}

Output matmul(Output a, Output b, const MatMulOptions& options, const std::string& name) {
  return op1("MatMul", {a, b}, {{"transpose_a", options.transpose_a}, {"transpose_b", options.transpose_b}}, name);
}

Output reduce_sum(Output x, const Reduce& over, const std::string& name) { return reduce("Sum", x, over, name); }
Output reduce_mean(Output x, const Reduce& over, const std::string& name) { return reduce("Mean", x, over, name); }
Output reduce_prod(Output x, const Reduce& over, const std::string& name) { return reduce("Prod", x, over, name); }
Output reduce_max(Output x, const Reduce& over, const std::string& name) { return reduce("Max", x, over, name); }
Output reduce_min(Output x, const Reduce& over, const std::string& name) { return reduce("Min", x, over, name); }
Output reduce_all(Output x, const Reduce& over, const std::string& name) { return reduce("All", x, over, name); }
Output reduce_any(Output x, const Reduce& over, const std::string& name) { return reduce("Any", x, over, name); }

Output argmax(Output x, std::int64_t axis, DType output_type, const std::string& name) {
  return arg_reduce("ArgMax", x, axis, output_type, name);
}
Output argmin(Output x, std::int64_t axis, DType output_type, const std::string& name) {
  return arg_reduce("ArgMin", x, axis, output_type, name);
}

}  // namespace tutti
