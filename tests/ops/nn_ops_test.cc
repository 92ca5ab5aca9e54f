#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/graph_eval.h"
#include "tutti/ops/array.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::nn_ops_test {

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::vector<std::string>& words) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs);
  ASSERT_FALSE(result.ok()) << op;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  for (const std::string& word : words) {
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  }
}

const char* const kSparse = "SparseSoftmaxCrossEntropyWithLogits";

TEST(NnOps, LabelsOutOfRangeAreNamed) {
  const Tensor logits(DType::kFloat, {2, 3});
  expect_refused(kSparse, {logits, Tensor::vector<std::int64_t>({1, 3})},
                 {"Received a label value of 3 which is outside the valid range of [0, 3)", "labels[1]"});
  expect_refused(kSparse, {logits, Tensor::vector<std::int32_t>({-1, 0})}, {"label value of -1"});
  expect_refused(kSparse, {logits, Tensor::vector<std::int64_t>({0})}, {"[2,3]", "[1]"});
  expect_refused(kSparse, {Tensor(DType::kFloat, {3}), Tensor::vector<std::int64_t>({0})}, {"2-D", "[3]"});
  expect_refused(kSparse, {Tensor(DType::kFloat, {1, 0}), Tensor::vector<std::int64_t>({0})}, {"[1,0]"});
}

TEST(NnOps, HugeLogitsDoNotOverflow) {
  const Tensor logits = Tensor::of<float>({1, 3}, {1e4f, -1e4f, 0});
  const std::vector<Tensor> out = *evaluate(kSparse, {logits, Tensor::vector<std::int64_t>({1})});
  EXPECT_EQ(out[0].data<float>()[0], 2e4f);
  EXPECT_TRUE(bitwise_equal(out[1], Tensor::of<float>({1, 3}, {1, -1, 0})));
  EXPECT_TRUE(bitwise_equal((*evaluate("Softmax", {logits}))[0], Tensor::of<float>({1, 3}, {1, 0, 0})));
}

TEST(NnOps, NanLogitsShow) {
  const Tensor logits = Tensor::of<float>({1, 3}, {1, std::nanf(""), 0});
  const std::vector<Tensor> out = *evaluate(kSparse, {logits, Tensor::vector<std::int64_t>({0})});
  EXPECT_TRUE(std::isnan(out[0].data<float>()[0]));
  EXPECT_TRUE(std::isnan((*evaluate("Softmax", {logits}))[0].data<float>()[2]));
}

TEST(NnOps, EmptyBatches) {
  const std::vector<Tensor> out = *evaluate(kSparse, {Tensor(DType::kFloat, {0, 3}), Tensor(DType::kInt64, {0})});
  EXPECT_EQ(out[0].shape(), (Shape{0}));
  EXPECT_EQ(out[1].shape(), (Shape{0, 3}));
  EXPECT_EQ((*evaluate("Softmax", {Tensor(DType::kFloat, {2, 0})}))[0].shape(), (Shape{2, 0}));
}

TEST(NnOps, BiasIsChecked) {
  const Tensor value(DType::kFloat, {2, 3});
  expect_refused("BiasAdd", {value, Tensor(DType::kFloat, {2})}, {"as many biases", "[2]", "[2,3]"});
  expect_refused("BiasAdd", {value, Tensor(DType::kFloat, {1, 3})}, {"1D"});
  expect_refused("BiasAdd", {Tensor(DType::kFloat, {3}), Tensor(DType::kFloat, {3})}, {"at least 2D"});
}

TEST(NnOps, InTopKCountsTiesAndRefusesInfinities) {
  const Tensor scores = Tensor::of<float>({3, 3}, {1, 1, 0, 3, 2, 1, std::numeric_limits<float>::infinity(), 1, 0});
  const Tensor targets = Tensor::vector<std::int32_t>({1, 2, 1});
  const Tensor got = (*evaluate("InTopK", {scores, targets}, {{"k", 1}}))[0];
  EXPECT_TRUE(bitwise_equal(got, Tensor::vector<bool>({true, false, false})));
}

TEST(NnBuilders, DropoutScalesWhatItKeeps) {
  Graph graph(builtin_ops()->registry());
  Output x = ones(graph, DType::kFloat, {100, 100});
  const Tensor y = testing::GraphEvaluator().run(nn::dropout(x, 0.25, 7));
  int kept = 0;
  for (float value : y.flat<float>()) {
    if (value == 0) continue;
    EXPECT_FLOAT_EQ(value, 1 / 0.75f);
    ++kept;
  }
  EXPECT_NEAR(kept, 7500, 250);
  EXPECT_EQ(nn::dropout(x, 0), x);
  EXPECT_THROW(nn::dropout(x, 1), Error);
  EXPECT_THROW(nn::dropout(x, -0.1), Error);
}

TEST(NnBuilders, LossesAgree) {
  Graph graph(builtin_ops()->registry());
  Output logits = constant(graph, Tensor::of<double>({2, 3}, {1, 2, 3, 0, 0, 0}));
  Output dense =
      nn::softmax_cross_entropy_with_logits(constant(graph, Tensor::of<double>({2, 3}, {0, 0, 1, 1, 0, 0})), logits);
  Output sparse =
      nn::sparse_softmax_cross_entropy_with_logits(constant(graph, Tensor::vector<std::int64_t>({2, 0})), logits);
  testing::GraphEvaluator run;
  const Tensor a = run.run(dense), b = run.run(sparse);
  EXPECT_NEAR(a.data<double>()[0], 0.40760596444438, 1e-13);
  EXPECT_NEAR(a.data<double>()[1], std::log(3), 1e-14);
  for (int i = 0; i < 2; ++i) EXPECT_NEAR(a.data<double>()[i], b.data<double>()[i], 1e-14);
}

}  // namespace tutti::nn_ops_test
