// What the agreement with the reference does not show: refusals, edges, builders.

#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/support/graph_eval.h"
#include "tests/support/kernel_runner.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::math_ops_test {

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

Tensor evaluate_one(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate(op, inputs, std::move(attrs)).value_or_throw()[0];
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::vector<std::string>& words) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs);
  ASSERT_FALSE(result.ok()) << op;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  }
}

TEST(MathOps, IntegerDivisionByZeroIsRefused) {
  const Tensor a = Tensor::vector<std::int32_t>({1, 2}), zero = Tensor::vector<std::int32_t>({1, 0});
  for (const char* op : {"Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod"}) {
    expect_refused(op, {a, zero}, {op, "Integer division by zero"});
  }
  const Tensor small = Tensor::vector<std::uint8_t>({1, 0});
  expect_refused("FloorDiv", {small, small}, {"Integer division by zero"});
  // Nothing is divided here.
  const Tensor none(DType::kInt32, {0});
  EXPECT_EQ(evaluate_one("Div", {none, Tensor::scalar(std::int32_t{0})}).num_elements(), 0);
}

TEST(MathOps, TheSmallestIntegerByMinusOneWraps) {
  const auto low = std::numeric_limits<std::int32_t>::min();
  const Tensor a = Tensor::scalar(low), b = Tensor::scalar(std::int32_t{-1});
  for (const char* op : {"Div", "FloorDiv", "TruncateDiv"})
    EXPECT_EQ(evaluate_one(op, {a, b}).scalar<std::int32_t>(), low);
  for (const char* op : {"Mod", "FloorMod", "TruncateMod"})
    EXPECT_EQ(evaluate_one(op, {a, b}).scalar<std::int32_t>(), 0);
}

TEST(MathOps, NegativeIntegerPowersAreRefused) {
  expect_refused("Pow", {Tensor::scalar(std::int64_t{2}), Tensor::scalar(std::int64_t{-1})},
                 {"negative integer powers"});
  EXPECT_EQ(
      evaluate_one("Pow", {Tensor::scalar(std::int64_t{-3}), Tensor::scalar(std::int64_t{3})}).scalar<std::int64_t>(),
      -27);
}

TEST(MathOps, ShapesThatDoNotFitAreNamed) {
  expect_refused("AddV2", {Tensor(DType::kFloat, {2, 3}), Tensor(DType::kFloat, {4})}, {"AddV2", "[2,3]", "[4]"});
  expect_refused("AddN", {Tensor(DType::kFloat, {2}), Tensor(DType::kFloat, {3})}, {"[2]", "[3]"});
  expect_refused("ReluGrad", {Tensor(DType::kFloat, {2}), Tensor(DType::kFloat, {})}, {"[2]", "[]"});
}

TEST(MathOps, DivisionOfFloatsFollowsIeee) {
  const Tensor q = evaluate_one("RealDiv", {Tensor::vector<float>({1, -1, 0}), Tensor::vector<float>({0, 0, 0})});
  EXPECT_EQ(q.data<float>()[0], std::numeric_limits<float>::infinity());
  EXPECT_EQ(q.data<float>()[1], -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(q.data<float>()[2]));
  const Tensor none = evaluate_one("DivNoNan", {Tensor::vector<float>({1, 2}), Tensor::vector<float>({0, 4})});
  EXPECT_TRUE(bitwise_equal(none, Tensor::vector<float>({0, 0.5f})));
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(evaluate_one("MulNoNan", {Tensor::scalar(inf), Tensor::scalar(0.0f)}).scalar<float>(), 0);
}

TEST(MathOps, StringsCompare) {
  const Tensor a = Tensor::vector<std::string>({"x", "yy"}), b = Tensor::scalar(std::string("yy"));
  EXPECT_TRUE(bitwise_equal(evaluate_one("Equal", {a, b}), Tensor::vector<bool>({false, true})));
  EXPECT_TRUE(bitwise_equal(evaluate_one("NotEqual", {b, a}), Tensor::vector<bool>({true, false})));
}

TEST(MathOps, MismatchedEqualityCanBeAnAnswer) {
  const Tensor a(DType::kFloat, {2}), b(DType::kFloat, {3});
  EXPECT_FALSE(evaluate("Equal", {a, b}).ok());
  const AttrMap attrs{{"incompatible_shape_error", false}};
  EXPECT_TRUE(bitwise_equal(evaluate_one("Equal", {a, b}, attrs), Tensor::scalar(false)));
  EXPECT_TRUE(bitwise_equal(evaluate_one("NotEqual", {a, b}, attrs), Tensor::scalar(true)));
}

TEST(MathOps, SelectMovesAnyType) {
  const Tensor yes = Tensor::vector<std::string>({"a", "b"}), no = Tensor::vector<std::string>({"c", "d"});
  const Tensor condition = Tensor::vector<bool>({true, false});
  for (const char* op : {"Select", "SelectV2"}) {
    EXPECT_TRUE(bitwise_equal(evaluate_one(op, {condition, yes, no}), Tensor::vector<std::string>({"a", "d"})));
  }
}

TEST(MathOps, CastDropsFractionsAndSurvivesWhatDoesNotFit) {
  const float nan = std::nanf(""), huge = 1e30f;
  const Tensor x = Tensor::vector<float>({1.9f, -1.9f, nan, huge, -huge});
  const Tensor y = evaluate_one("Cast", {x}, {{"DstT", DType::kInt32}});
  EXPECT_EQ(y.data<std::int32_t>()[0], 1);
  EXPECT_EQ(y.data<std::int32_t>()[1], -1);
  // As TensorFlow has it. (Of other types its results depend on where in the tensor the number lies.)
  const float inf = std::numeric_limits<float>::infinity();
  const Tensor outside = Tensor::vector<float>({nan, inf, -inf, 3e9f, -3e9f, 2147483648.0f, -2147483648.0f});
  for (const std::int32_t value : evaluate_one("Cast", {outside}, {{"DstT", DType::kInt32}}).flat<std::int32_t>()) {
    EXPECT_EQ(value, std::numeric_limits<std::int32_t>::min());
  }
  const Tensor large = evaluate_one("Cast", {Tensor::vector<double>({2147483647.5, -2147483648.9, -2147483649.0})},
                                    {{"DstT", DType::kInt32}});
  EXPECT_EQ(large.data<std::int32_t>()[0], std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(large.data<std::int32_t>()[1], std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(evaluate_one("Cast", {x}, {{"DstT", DType::kBool}}).data<bool>()[2], true);
  EXPECT_FALSE(evaluate("Cast", {Tensor::scalar(std::string("1"))}, {{"DstT", DType::kFloat}}).ok());
}

// Large enough to be cut into pieces for threads, with the result as without.
TEST(MathOps, LargeTensors) {
  const std::int64_t n = 200'003;
  Tensor x(DType::kFloat, {n});
  for (std::int64_t i = 0; i < n; ++i) x.data<float>()[i] = static_cast<float>(i % 1000);
  const Tensor sum = evaluate_one("AddV2", {x, Tensor::scalar(1.0f)});
  for (std::int64_t i = 0; i < n; ++i) ASSERT_EQ(sum.data<float>()[i], static_cast<float>(i % 1000 + 1));
}

// The results of threads beside plain loops: of one long row, of few, of many, and of whole rows that are chosen.
TEST(MathOps, LargeSelects) {
  const std::int64_t rows = 3, columns = 70'001, n = rows * columns;
  Tensor mask(DType::kBool, {rows, columns}), yes(DType::kFloat, {rows, columns}), no(DType::kFloat, {rows, columns});
  for (std::int64_t i = 0; i < n; ++i) {
    mask.data<bool>()[i] = i % 7 < 3;
    yes.data<float>()[i] = static_cast<float>(i);
    no.data<float>()[i] = static_cast<float>(-i - 1);
  }
  const Tensor one_mask = mask.slice(0, 1).reshaped({columns}), one_yes = yes.slice(0, 1).reshaped({columns});
  const Tensor by_row = Tensor::vector<bool>({true, false, true});
  for (int threads : {1, 3}) {
    Team team(threads);
    testing::KernelRunner runner;
    runner.step().team = &team;
    const auto check = [&](const char* op, const Tensor& condition, const Tensor& then,
                           const std::function<bool(std::int64_t, std::int64_t)>& chooses) {
      const auto run = runner.run(str_cat(op, condition.shape(), then.shape()), op, {},
                                  {testing::value_of(condition), testing::value_of(then), testing::value_of(no)});
      ASSERT_TRUE(run->status().ok()) << run->status().to_string();
      const Tensor& out = run->tensor();
      ASSERT_EQ(out.shape(), no.shape());
      std::int64_t wrong = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t column = i % columns;
        const float chosen = then.data<float>()[then.rank() == 1 ? column : i];
        wrong += out.data<float>()[i] != (chooses(i / columns, column) ? chosen : no.data<float>()[i]);
      }
      EXPECT_EQ(wrong, 0) << str_cat(op, " of ", condition.shape(), " and ", then.shape());
    };
    const auto by_mask = [&](std::int64_t row, std::int64_t column) { return (row * columns + column) % 7 < 3; };
    check("SelectV2", mask, yes, by_mask);
    check("Select", mask, yes, by_mask);
    check("SelectV2", mask, one_yes, by_mask);
    check("SelectV2", one_mask, yes, [](std::int64_t, std::int64_t column) { return column % 7 < 3; });
    check("SelectV2", by_row.reshaped({rows, 1}), yes, [](std::int64_t row, std::int64_t) { return row != 1; });
    check("Select", by_row, yes, [](std::int64_t row, std::int64_t) { return row != 1; });
    check("SelectV2", Tensor::scalar(true), one_yes, [](std::int64_t, std::int64_t) { return true; });
  }
}

TEST(MathOps, WhatOneConditionChoosesIsNotCopied) {
  testing::KernelRunner runner;
  const Tensor yes = Tensor::vector<float>({1, 2}), no = Tensor::vector<float>({3, 4});
  for (bool condition : {true, false}) {
    const auto run =
        runner.run("select", "SelectV2", {},
                   {testing::value_of(Tensor::scalar(condition)), testing::value_of(yes), testing::value_of(no)});
    ASSERT_TRUE(run->status().ok()) << run->status().to_string();
    EXPECT_EQ(run->tensor().buffer(), (condition ? yes : no).buffer());
  }
}

TEST(MathBuilders, ReadLikeArithmetic) {
  Graph graph(builtin_ops()->registry());
  Output x = constant(graph, Tensor::vector<float>({1, 2, 3}));
  testing::GraphEvaluator run;
  EXPECT_TRUE(bitwise_equal(run.run((x + 1.0) * 2.0 - x / 0.5), Tensor::vector<float>({2, 2, 2})));
  EXPECT_TRUE(bitwise_equal(run.run(1.0 - -x), Tensor::vector<float>({2, 3, 4})));
  EXPECT_TRUE(bitwise_equal(run.run(reduce_sum(x)), Tensor::scalar(6.0f)));
  EXPECT_TRUE(bitwise_equal(run.run(reduce_mean(x, {{0}, true})), Tensor::vector<float>({2})));
  EXPECT_TRUE(bitwise_equal(run.run(argmax(x, 0)), Tensor::scalar(std::int64_t{2})));
  EXPECT_TRUE(bitwise_equal(run.run(where(greater(x, constant(graph, 1.5, DType::kFloat)), x, zeros_like(x))),
                            Tensor::vector<float>({0, 2, 3})));
  EXPECT_TRUE(bitwise_equal(run.run(clip_by_value(x, 1.5, 2.5)), Tensor::vector<float>({1.5f, 2, 2.5f})));
  EXPECT_EQ(cast(x, DType::kFloat), x);
}

TEST(MathBuilders, MistakesThrow) {
  Graph graph(builtin_ops()->registry());
  Output x = constant(graph, Tensor(DType::kFloat, {2, 3})), y = constant(graph, Tensor(DType::kFloat, {4, 5}));
  EXPECT_THROW(add(x, Output()), Error);
  EXPECT_THROW(Output() + 1.0, Error);
  EXPECT_THROW(reduce_sum(Output()), Error);
  EXPECT_THROW(matmul(x, y), Error);
  EXPECT_THROW(add(x, cast(x, DType::kInt32)), Error);
}

}  // namespace tutti::math_ops_test
