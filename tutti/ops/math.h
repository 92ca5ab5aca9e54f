// Builders of arithmetic, comparison, reduction and matrix product. They throw Error.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti {

// --- Two values, broadcast against each other. ---
Output add(Output x, Output y, const std::string& name = "");
Output sub(Output x, Output y, const std::string& name = "");
Output mul(Output x, Output y, const std::string& name = "");
Output div(Output x, Output y, const std::string& name = "");
Output div_no_nan(Output x, Output y, const std::string& name = "");
Output floordiv(Output x, Output y, const std::string& name = "");
// With the sign of the divisor.
Output mod(Output x, Output y, const std::string& name = "");
Output pow(Output x, Output y, const std::string& name = "");
Output maximum(Output x, Output y, const std::string& name = "");
Output minimum(Output x, Output y, const std::string& name = "");
Output squared_difference(Output x, Output y, const std::string& name = "");

Output operator+(Output x, Output y);
Output operator-(Output x, Output y);
Output operator*(Output x, Output y);
Output operator/(Output x, Output y);
Output operator-(Output x);
// The number becomes a constant of the other side's type.
Output operator+(Output x, double y);
Output operator-(Output x, double y);
Output operator*(Output x, double y);
Output operator/(Output x, double y);
Output operator+(double x, Output y);
Output operator-(double x, Output y);
Output operator*(double x, Output y);
Output operator/(double x, Output y);

// --- One value. ---
Output neg(Output x, const std::string& name = "");
Output square(Output x, const std::string& name = "");
Output sqrt(Output x, const std::string& name = "");
Output rsqrt(Output x, const std::string& name = "");
Output reciprocal(Output x, const std::string& name = "");
Output exp(Output x, const std::string& name = "");
Output expm1(Output x, const std::string& name = "");
Output log(Output x, const std::string& name = "");
Output log1p(Output x, const std::string& name = "");
Output abs(Output x, const std::string& name = "");
Output sign(Output x, const std::string& name = "");
Output floor(Output x, const std::string& name = "");
Output ceil(Output x, const std::string& name = "");
Output round(Output x, const std::string& name = "");
Output sin(Output x, const std::string& name = "");
Output cos(Output x, const std::string& name = "");
Output tanh(Output x, const std::string& name = "");
Output sigmoid(Output x, const std::string& name = "");
Output erf(Output x, const std::string& name = "");
Output is_nan(Output x, const std::string& name = "");
Output is_finite(Output x, const std::string& name = "");

// --- Truth. ---
Output equal(Output x, Output y, const std::string& name = "");
Output not_equal(Output x, Output y, const std::string& name = "");
Output less(Output x, Output y, const std::string& name = "");
Output less_equal(Output x, Output y, const std::string& name = "");
Output greater(Output x, Output y, const std::string& name = "");
Output greater_equal(Output x, Output y, const std::string& name = "");
Output logical_and(Output x, Output y, const std::string& name = "");
Output logical_or(Output x, Output y, const std::string& name = "");
Output logical_not(Output x, const std::string& name = "");
// x where `condition` is true, else y.
Output where(Output condition, Output x, Output y, const std::string& name = "");

// --- Others. ---
Output add_n(const std::vector<Output>& values, const std::string& name = "");
Output cast(Output x, DType dtype, const std::string& name = "");
Output clip_by_value(Output x, double low, double high, const std::string& name = "");

struct MatMulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
};
Output matmul(Output a, Output b, const MatMulOptions& options = {}, const std::string& name = "");

// --- Reductions: over `axes`, or over everything when none are given. ---
struct Reduce {
  // An integer that is not a bool, so that {{0}, true} means axis 0 kept, and not axes 0 and 1.
  struct Axis {
    template <std::integral T>
    requires(!std::same_as<T, bool>) Axis(T v) : value(static_cast<std::int64_t>(v)) {}  // NOLINT: implicit
    std::int64_t value;
  };

  Reduce() = default;
  Reduce(std::initializer_list<Axis> list) {  // NOLINT: implicit
    std::vector<std::int64_t> values;
    for (const Axis& axis : list) values.push_back(axis.value);
    axes = Ints(std::move(values));
  }
  Reduce(Ints a, bool keep = false) : axes(std::move(a)), keep_dims(keep) {}  // NOLINT: implicit

  std::optional<Ints> axes;
  bool keep_dims = false;
};
Output reduce_sum(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_mean(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_prod(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_max(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_min(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_all(Output x, const Reduce& over = {}, const std::string& name = "");
Output reduce_any(Output x, const Reduce& over = {}, const std::string& name = "");
// The place of the largest (smallest) element along `axis`, the first when several are equal.
Output argmax(Output x, std::int64_t axis, DType output_type = DType::kInt64, const std::string& name = "");
Output argmin(Output x, std::int64_t axis, DType output_type = DType::kInt64, const std::string& name = "");

}  // namespace tutti
