// Decompositions and special functions at the edges of their domains; and the builders of linalg.h and layout.h. Random
// cases are compared with TensorFlow's in tests/interop/drawn.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/graph_eval.h"
#include "tutti/kernels/cpu/special_functions.h"
#include "tutti/ops/layout.h"
#include "tutti/ops/linalg.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::linalg_ops_test {

Result<std::vector<Tensor>> try_op(const std::string& op, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, {}, inputs);
}

void expect_refused(const Result<std::vector<Tensor>>& result, const std::string& word) {
  ASSERT_FALSE(result.ok()) << word;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
}

TEST(Linalg, Refusals) {
  const Tensor singular = Tensor::of<double>({2, 2}, {1, 2, 2, 4}), rhs(DType::kDouble, {2, 1});
  expect_refused(try_op("MatrixInverse", {singular}), "invertible");
  expect_refused(try_op("MatrixSolve", {singular, rhs}), "invertible");
  expect_refused(try_op("MatrixTriangularSolve", {Tensor(DType::kDouble, {2, 2}), rhs}), "invertible");
  expect_refused(try_op("Cholesky", {Tensor::of<double>({2, 2}, {1, 2, 2, 1})}), "Cholesky");
  Tensor undefined(DType::kDouble, {2, 2});
  undefined.data<double>()[0] = std::nan("");
  expect_refused(try_op("Cholesky", {undefined}), "Cholesky");
  expect_refused(try_op("MatrixInverse", {undefined}), "invertible");
  const Tensor oblong(DType::kDouble, {2, 3});
  for (const char* op : {"MatrixInverse", "MatrixDeterminant", "Cholesky", "LogMatrixDeterminant"}) {
    expect_refused(try_op(op, {oblong}), "");
    expect_refused(try_op(op, {Tensor(DType::kDouble, {2})}), "");
  }
  expect_refused(try_op("MatrixSolve", {singular, Tensor(DType::kDouble, {3, 1})}), "");
  EXPECT_EQ((*try_op("MatrixDeterminant", {singular}))[0].scalar<double>(), 0);
  EXPECT_EQ((*try_op("MatrixDeterminant", {Tensor(DType::kDouble, {3, 0, 0})}))[0].data<double>()[2], 1);
  EXPECT_EQ((*try_op("LogMatrixDeterminant", {singular}))[1].scalar<double>(), -INFINITY);
}

TEST(SpecialFunctions, KnownValues) {
  const double euler = 0.57721566490153286061, pi = 3.14159265358979323846;
  EXPECT_NEAR(cpu::digamma(1), -euler, 1e-14);
  EXPECT_NEAR(cpu::digamma(0.5), -euler - 2 * std::log(2.0), 1e-14);
  EXPECT_NEAR(cpu::digamma(-0.5), 2 - euler - 2 * std::log(2.0), 1e-13);
  EXPECT_TRUE(std::isnan(cpu::digamma(0)));
  EXPECT_NEAR(cpu::polygamma(1, 1), pi * pi / 6, 1e-13);
  EXPECT_NEAR(cpu::zeta(2, 1), pi * pi / 6, 1e-14);
  EXPECT_NEAR(cpu::zeta(4, 1), std::pow(pi, 4) / 90, 1e-14);
  EXPECT_NEAR(cpu::zeta(2, 0.25), 17.19732915450711, 1e-12);  // pi^2 + 8 Catalan
  EXPECT_NEAR(cpu::igamma(1, 2), 1 - std::exp(-2.0), 1e-14);
  EXPECT_NEAR(cpu::igammac(0.5, 4), std::erfc(2.0), 1e-16);
  EXPECT_NEAR(cpu::igamma(100, 100), 0.5132987982791487, 1e-12);
  EXPECT_NEAR(cpu::betainc(2, 3, 0.4), 0.5248, 1e-14);
  EXPECT_NEAR(cpu::ndtri(0.975), 1.959963984540054, 1e-13);
  EXPECT_NEAR(cpu::ndtri(1e-300), -37.0471, 1e-4);
  for (const double x : {-0.9999, -0.3, 1e-12, 0.49, 0.51, 0.999999}) {
    EXPECT_NEAR(std::erf(cpu::erfinv(x)), x, 1e-15) << x;
  }
  EXPECT_EQ(cpu::erfinv(1), INFINITY);
  // Whatever comes in, something comes out.
  const double odd[] = {0, -0.0, -1, -1.5, 1e-310, 1e300, -1e300, INFINITY, -INFINITY, std::nan("")};
  for (const double a : odd) {
    for (const double b : odd) {
      cpu::igamma(a, b), cpu::igammac(a, b), cpu::igamma_grad_a(a, b), cpu::random_gamma_grad(a, b), cpu::zeta(a, b),
          cpu::polygamma(a, b);
      for (const double c : {0.0, 0.5, 1.0}) cpu::betainc(a, b, c);
    }
    cpu::digamma(a), cpu::ndtri(a), cpu::erfinv(a), cpu::log_gamma(a);
  }
}

// Against how far the quantile moves.
TEST(SpecialFunctions, HowASampleMovesWithItsShape) {
  // Of shape 1: log x, Euler's constant, and 1/x - 1/x^2 + 2/x^3 - ...
  EXPECT_NEAR(cpu::random_gamma_grad(1, 40), std::log(40.0) + 0.5772157 + 0.025 - 0.000625 + 0.00003125, 5e-6);
  EXPECT_TRUE(std::isfinite(cpu::random_gamma_grad(1, 2000)));
  for (const double a : {0.05, 0.7, 3.0, 40.0, 1000.0}) {
    for (const double x : {0.3 * a, a, a + 1.5, a + 2 * std::sqrt(a), a + 4 * std::sqrt(a)}) {
      const auto quantile = [p = cpu::igamma(a, x)](double shape) {
        double low = 0, high = 10 * shape + 100;
        for (int i = 0; i < 200; ++i) (cpu::igamma(shape, (low + high) / 2) < p ? low : high) = (low + high) / 2;
        return low;
      };
      const double h = 1e-5 * a, slope = (quantile(a + h) - quantile(a - h)) / (2 * h);
      if (cpu::igamma(a, x) < 1e-10) continue;  // the quantile is not known well enough
      EXPECT_NEAR(cpu::random_gamma_grad(a, x), slope, 1e-5 * std::abs(slope)) << a << " " << x;
    }
  }
}

TEST(LayoutBuilders, MakeTheirOps) {
  Graph graph(builtin_ops());
  testing::GraphEvaluator evaluator;
  Output x = constant(graph, Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6}));
  const auto equals = [&](Output got, const Tensor& expected) { return bitwise_equal(evaluator.run(got), expected); };
  EXPECT_TRUE(equals(einsum("ij->j", {x}), Tensor::of<float>({3}, {5, 7, 9})));
  EXPECT_TRUE(equals(einsum("ij,kj->ik", {x, x}), Tensor::of<float>({2, 2}, {14, 32, 32, 77})));
  EXPECT_TRUE(equals(batch_matmul(x, x, {.adj_y = true}), Tensor::of<float>({2, 2}, {14, 32, 32, 77})));
  EXPECT_TRUE(equals(matrix_band_part(x, 0, 0), Tensor::of<float>({2, 3}, {1, 0, 0, 0, 5, 0})));
  EXPECT_TRUE(equals(matrix_diag_part(x), Tensor::of<float>({2}, {1, 5})));
  EXPECT_TRUE(equals(matrix_set_diag(x, matrix_diag_part(x)), Tensor::of<float>({2, 3}, {1, 2, 3, 4, 5, 6})));
  EXPECT_TRUE(equals(top_k(x, 2).values, Tensor::of<float>({2, 2}, {3, 2, 6, 5})));
  EXPECT_TRUE(equals(top_k(x, 1).indices, Tensor::of<std::int32_t>({2, 1}, {2, 2})));
  EXPECT_TRUE(equals(mirror_pad(x, {{0, 0}, {1, 0}}), Tensor::of<float>({2, 4}, {2, 1, 2, 3, 5, 4, 5, 6})));
  Output lengths = constant(graph, Tensor::vector<std::int64_t>({2, 3}));
  EXPECT_TRUE(equals(reverse_sequence(x, lengths, 1), Tensor::of<float>({2, 3}, {2, 1, 3, 6, 5, 4})));
  EXPECT_TRUE(equals(roll(x, {1}, {1}), Tensor::of<float>({2, 3}, {3, 1, 2, 6, 4, 5})));
  Output twice = constant(graph, Tensor::vector<float>({7, 8, 7}));
  EXPECT_TRUE(equals(unique_with_counts(twice).counts, Tensor::vector<std::int32_t>({2, 1})));
  Output place = constant(graph, Tensor::of<std::int32_t>({1, 1}, {1}));
  Output nine = constant(graph, Tensor::vector<float>({9}));
  EXPECT_TRUE(equals(tensor_scatter_update(twice, place, nine), Tensor::vector<float>({7, 9, 7})));
  EXPECT_TRUE(equals(tensor_scatter_add(twice, place, nine), Tensor::vector<float>({7, 17, 7})));
  Output two = constant(graph, Tensor::of<double>({1, 1}, {4}));
  EXPECT_TRUE(equals(cholesky(two), Tensor::of<double>({1, 1}, {2})));
  EXPECT_TRUE(equals(matrix_inverse(two), Tensor::of<double>({1, 1}, {0.25})));
  EXPECT_TRUE(equals(matrix_determinant(two), Tensor::scalar(4.0)));
  EXPECT_TRUE(equals(matrix_solve(two, two), Tensor::of<double>({1, 1}, {1})));
  EXPECT_TRUE(equals(matrix_triangular_solve(two, two), Tensor::of<double>({1, 1}, {1})));
}

}  // namespace tutti::linalg_ops_test
