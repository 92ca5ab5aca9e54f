#include "tutti/optim/clipping.h"

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/sgd.h"

namespace tutti::clipping_test {

using testing::Doubles;

class ClippingTest : public testing::OptimizerFixture {
 protected:
  Output vector(const Doubles& values) { return constant(graph_, Tensor::vector<double>(values)); }
  Doubles run(Output value) { return testing::to_doubles(evaluator_.run(value)); }
  // Rows 2, 0, 2 of a 4x1 table.
  Gradient rows(const Doubles& values) {
    return IndexedSlices{constant(graph_, Tensor::of<double>({3, 1}, values)),
                         constant(graph_, Tensor::vector<std::int32_t>({2, 0, 2})),
                         constant(graph_, Tensor::vector<std::int32_t>({4, 1}))};
  }
};

TEST_F(ClippingTest, ByNorm) {
  expect_near(run(clip_by_norm(vector({3, 4}), 2.5)), {1.5, 2});
  expect_near(run(clip_by_norm(vector({3, 4}), 6)), {3, 4});
  expect_near(run(clip_by_norm(vector({0, 0}), 6)), {0, 0});
}

TEST_F(ClippingTest, ByNormOfEachRow) {
  Output x = constant(graph_, Tensor::of<double>({2, 2}, {3, 4, 0.3, 0.4}));
  expect_near(run(clip_by_norm(x, 1, Ints{1})), {0.6, 0.8, 0.3, 0.4});
}

TEST_F(ClippingTest, ByAverageNorm) {
  // The norm 5 over 2 elements is 2.5.
  expect_near(run(clip_by_average_norm(vector({3, 4}), 1)), {1.2, 1.6});
  expect_near(run(clip_by_average_norm(vector({3, 4}), 3)), {3, 4});
}

TEST_F(ClippingTest, ByGlobalNorm) {
  const std::vector<Gradient> gradients = {vector({3}), Gradient(), vector({0, 4}), rows({0, 0, 12})};
  expect_near(run(global_norm(gradients)), {13});
  const ClippedGradients clipped = clip_by_global_norm(gradients, 6.5);
  expect_near(run(clipped.global_norm), {13});
  expect_near(run(clipped.gradients[0].dense()), {1.5});
  EXPECT_FALSE(clipped.gradients[1]);
  expect_near(run(clipped.gradients[2].dense()), {0, 2});
  ASSERT_TRUE(clipped.gradients[3].is_sparse());
  expect_near(run(clipped.gradients[3].slices().values), {0, 0, 6});
  expect_near(run(clip_by_global_norm(gradients, 20).gradients[2].dense()), {0, 4});
  expect_near(run(clip_by_global_norm(gradients, 1, vector({4})).gradients[0].dense()), {0.75});
}

// Nobody should go on with weights that are half gone: all become NaN.
TEST_F(ClippingTest, ANormThatIsNotFiniteShowsEverywhere) {
  const double infinity = std::numeric_limits<double>::infinity();
  const ClippedGradients clipped = clip_by_global_norm({vector({infinity}), vector({1})}, 1);
  EXPECT_TRUE(std::isnan(run(clipped.gradients[1].dense())[0]));
}

TEST_F(ClippingTest, RepeatedRowsCountAsTheyAre) { expect_near(run(global_norm({rows({3, 0, 4})})), {5}); }

TEST_F(ClippingTest, NoGradientAtAll) { EXPECT_THROW(global_norm({Gradient()}), Error); }

TEST_F(ClippingTest, BetweenComputeAndApply) {
  Var a = make_variable(Tensor::vector<double>({3, 0}), "a");
  Var b = make_variable(Tensor::vector<double>({0, 4}), "b");
  Output loss = op1("Sum", {op1("Add", {op1("Square", {a}), op1("Square", {b})}), constant(graph_, 0, DType::kInt32)});
  SGD optimizer(1);
  Node* train = optimizer.apply_gradients(clip_by_global_norm(optimizer.compute_gradients(loss), 5));
  initialize();
  evaluator_.run_target(train);
  expect_near(value_of(a), {0, 0});  // gradients (6, 0) and (0, 8) halved
  expect_near(value_of(b), {0, 0});
  Node* by_value = optimizer.apply_gradients(clip_by_value({{vector({5, -5}), a}, {rows({9, 2, -9}), b}}, -1, 3));
  EXPECT_EQ(by_value->op_name(), "NoOp");
  Node* each = optimizer.apply_gradients(clip_by_norm({{vector({5, 0}), a}, {vector({0, 0.5}), b}}, 1));
  evaluator_.run_target(each);
  expect_near(value_of(a), {-1, 0});
  expect_near(value_of(b), {0, -0.5});
  Node* average = optimizer.apply_gradients(clip_by_average_norm({{vector({6, 8}), a}}, 1));
  evaluator_.run_target(average);
  expect_near(value_of(a), {-1 - 1.2, -1.6});
}

TEST_F(ClippingTest, RowsByValue) {
  Var table = make_variable(Tensor::of<double>({4, 1}, {0, 0, 0, 0}), "table");
  const std::vector<GradientAndVariable> clipped =
      clip_by_value({{rows({9, 2, -9}), table}, {Gradient(), table}}, -1, 3);
  expect_near(run(clipped[0].gradient.slices().values), {3, 2, -1});
  EXPECT_FALSE(clipped[1].gradient);
}

}  // namespace tutti::clipping_test
