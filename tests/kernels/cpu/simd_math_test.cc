// The vector functions against the standard library's, over their whole range and at its edges.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/support/simd_targets.h"
#include "tutti/kernels/cpu/elementwise.h"

namespace tutti::cpu::simd_math_test {

// How many representable numbers lie between a and b.
template <typename T>
double ulps(T a, long double b) {
  if (std::isnan(a) && std::isnan(b)) return 0;
  if (a == static_cast<T>(b)) return 0;
  if (std::isnan(a) || std::isinf(a) || std::isnan(b)) return 1e30;
  const T nearest = static_cast<T>(b);
  const T step = std::max(std::nextafter(std::abs(nearest), std::numeric_limits<T>::infinity()) - std::abs(nearest),
                          std::numeric_limits<T>::min() * std::numeric_limits<T>::epsilon());
  return static_cast<double>(std::abs(static_cast<long double>(a) - b) / step);
}

using Exact = long double (*)(long double);

struct Function {
  const char* name;
  UnaryOp op;
  Exact exact;
  double low, high;  // for float; double goes on to wide_low, wide_high
  double wide_low, wide_high;
};

long double exact_sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

const Function kFunctions[] = {
    {"exp", UnaryOp::kExp, [](long double x) { return std::exp(x); }, -87, 88.7, -708, 709.7},
    {"expm1", UnaryOp::kExpm1, [](long double x) { return std::expm1(x); }, -30, 88.7, -60, 709.7},
    {"log", UnaryOp::kLog, [](long double x) { return std::log(x); }, 1e-30, 1e30, 1e-300, 1e300},
    {"log1p", UnaryOp::kLog1p, [](long double x) { return std::log1p(x); }, -0.9, 1e20, -0.9, 1e200},
    {"tanh", UnaryOp::kTanh, [](long double x) { return std::tanh(x); }, -12, 12, -22, 22},
    {"sigmoid", UnaryOp::kSigmoid, exact_sigmoid, -80, 20, -700, 40},
};

template <typename T>
std::vector<T> arguments(double low, double high, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> x;
  for (int i = 0; i < 4000; ++i) x.push_back(static_cast<T>(std::uniform_real_distribution<double>(low, high)(engine)));
  // Small arguments, where cancellation shows.
  for (int i = 0; i < 4000; ++i) {
    const T small =
        static_cast<T>(std::uniform_real_distribution<double>(std::max(low, -1.0), std::min(high, 1.0))(engine));
    x.push_back(small);
    x.push_back(low > 0 ? small
                        : static_cast<T>(small * std::exp2(-std::uniform_real_distribution<double>(0, 20)(engine))));
  }
  return x;
}

template <typename T>
void check_accuracy(const Function& f, double low, double high) {
  const std::vector<T> x = arguments<T>(low, high, 17);
  std::vector<T> y(x.size());
  UnaryFunction::find(f.op, dtype_of<T>())(x.data(), y.data(), static_cast<std::int64_t>(x.size()));
  double worst = 0;
  T worst_at = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = ulps(y[i], f.exact(static_cast<long double>(x[i])));
    if (error > worst) {
      worst = error;
      worst_at = x[i];
    }
  }
  EXPECT_LE(worst, 4.5) << f.name << "(" << worst_at << ")";
}

TEST(SimdMath, WithinFourUlps) {
  testing::for_each_simd_target([] {
    for (const Function& f : kFunctions) {
      check_accuracy<float>(f, f.low, f.high);
      check_accuracy<double>(f, f.wide_low, f.wide_high);
    }
  });
}

template <typename T>
void check_special_values() {
  const T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T special[] = {0,
                       T(-0.0),
                       1,
                       -1,
                       inf,
                       -inf,
                       nan,
                       std::numeric_limits<T>::max(),
                       std::numeric_limits<T>::lowest(),
                       std::numeric_limits<T>::min(),
                       T(-1.5),
                       T(1000),
                       T(-1000)};
  for (const Function& f : kFunctions) {
    for (T x : special) {
      T y = 0;
      UnaryFunction::find(f.op, dtype_of<T>())(&x, &y, 1);
      const T want = static_cast<T>(f.exact(static_cast<long double>(x)));
      if (std::isnan(want)) {
        EXPECT_TRUE(std::isnan(y)) << f.name << "(" << x << ") = " << y;
      } else if (!std::isfinite(want) || want == 0) {
        EXPECT_EQ(y, want) << f.name << "(" << x << ")";
      } else {
        EXPECT_NEAR(y, want, std::abs(want) * 1e-6) << f.name << "(" << x << ")";
      }
    }
  }
}

TEST(SimdMath, SpecialValues) {
  testing::for_each_simd_target([] {
    check_special_values<float>();
    check_special_values<double>();
  });
}

void check_nan() {
  const float nan = std::nanf("");
  for (UnaryOp op : {UnaryOp::kRelu, UnaryOp::kRelu6, UnaryOp::kElu, UnaryOp::kSelu, UnaryOp::kLeakyRelu,
                     UnaryOp::kSoftplus, UnaryOp::kSign, UnaryOp::kAbs, UnaryOp::kSquare}) {
    float y = 0;
    UnaryFunction::find(op, DType::kFloat)(&nan, &y, 1);
    EXPECT_TRUE(std::isnan(y)) << static_cast<int>(op);
  }
  const float one = 1;
  for (BinaryOp op : {BinaryOp::kMaximum, BinaryOp::kMinimum}) {
    float y = 0;
    BinaryFunction::find(op, DType::kFloat)(&nan, &one, &y, 1, 1, 1);
    EXPECT_TRUE(std::isnan(y));
    BinaryFunction::find(op, DType::kFloat)(&one, &nan, &y, 1, 1, 1);
    EXPECT_TRUE(std::isnan(y));
  }
}

TEST(SimdMath, NanPassesThroughActivationsAndExtrema) { testing::for_each_simd_target(check_nan); }

// No loop may touch what lies behind its arrays.
void check_tails() {
  for (std::int64_t n = 0; n <= 70; ++n) {
    std::vector<float> a(static_cast<std::size_t>(n) + 1, 2), b(a), out(a.size(), -7);
    BinaryFunction::find(BinaryOp::kAdd, DType::kFloat)(a.data(), b.data(), out.data(), n, 1, 1);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], 4);
    EXPECT_EQ(out[n], -7);
    if (n > 0) BinaryFunction::find(BinaryOp::kSub, DType::kFloat)(a.data(), b.data(), out.data(), n, 1, 0);
    for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(out[i], 0);
    EXPECT_EQ(out[n], -7);
  }
}

TEST(SimdMath, TailsStayInside) { testing::for_each_simd_target(check_tails); }

}  // namespace tutti::cpu::simd_math_test
