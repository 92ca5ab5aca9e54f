// Recurrent cells and Qr: what is refused, what lies behind a sequence's end, and values worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::recurrent_ops_test {

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, const std::string& words) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs);
  ASSERT_FALSE(result.ok()) << op << " " << words;
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument) << result.status().to_string();
  EXPECT_NE(result.status().message().find(words), std::string::npos) << result.status().to_string();
}

Tensor filled(const Shape& shape, float value) {
  Tensor tensor(DType::kFloat, shape);
  for (float& element : tensor.flat<float>()) element = value;
  return tensor;
}

Tensor length(std::int64_t steps) { return Tensor::scalar(steps); }

// Parameters of an LSTM of `cells` cells over `inputs` inputs, all but b zero.
std::vector<Tensor> lstm(Tensor x, std::int64_t batch, std::int64_t inputs, std::int64_t cells) {
  return {
      std::move(x),       filled({batch, cells}, 0), filled({batch, cells}, 0), filled({inputs + cells, 4 * cells}, 0),
      filled({cells}, 0), filled({cells}, 0),        filled({cells}, 0),        filled({4 * cells}, 1)};
}

std::vector<Tensor> sequence(std::int64_t steps, std::vector<Tensor> parameters) {
  parameters.insert(parameters.begin(), length(steps));
  return parameters;
}

TEST(RecurrentOps, BeyondTheLastStepThereIsNothing) {
  const auto out = *evaluate("BlockLSTMV2", sequence(2, lstm(filled({3, 1, 2}, 1), 1, 2, 2)));
  const float gate = 1 / (1 + std::exp(-1.0f)), state = gate * std::tanh(1.0f);
  const float* cs = out[1].data<float>();
  EXPECT_NEAR(cs[0], state, 1e-6);
  EXPECT_NEAR(cs[2], state + gate * state, 1e-6);
  for (const Tensor& tensor : out) {
    EXPECT_EQ(tensor.shape(), Shape({3, 1, 2}));
    EXPECT_EQ(tensor.data<float>()[4], 0);
  }
}

TEST(RecurrentOps, AStepIsASequenceOfOne) {
  std::vector<Tensor> parameters = lstm(filled({2, 3}, 0.5f), 2, 3, 5);
  parameters[1] = filled({2, 5}, 0.25f);
  parameters[3] = filled({8, 20}, 0.125f);
  const auto cell = *evaluate("LSTMBlockCell", parameters);
  parameters[0] = parameters[0].reshaped({1, 2, 3});
  const auto all = *evaluate("BlockLSTM", sequence(1, parameters));
  for (std::size_t i = 0; i < cell.size(); ++i) {
    EXPECT_TRUE(bitwise_equal(cell[i], all[i].reshaped({2, 5}))) << i;
  }
}

TEST(RecurrentOps, RefusesWhatDoesNotFit) {
  const auto changed = [](std::size_t i, Tensor tensor) {
    std::vector<Tensor> parameters = lstm(filled({2, 3}, 0), 2, 3, 4);
    parameters[i] = std::move(tensor);
    return parameters;
  };
  expect_refused("LSTMBlockCell", changed(1, filled({3, 4}, 0)), "cs_prev");
  expect_refused("LSTMBlockCell", changed(3, filled({7, 15}, 0)), "w must be");
  expect_refused("LSTMBlockCell", changed(7, filled({15}, 0)), "b must be");
  const std::vector<Tensor> parameters = lstm(filled({3, 2, 3}, 0), 2, 3, 4);
  expect_refused("BlockLSTM", sequence(4, parameters), "seq_len_max is 4");
  expect_refused("BlockLSTM", sequence(-1, parameters), "seq_len_max is -1");
}

// Sizes whose products do not fit: no element exists, so the tensors do.
TEST(RecurrentOps, RefusesSizesThatOverflow) {
  constexpr std::int64_t kMany = std::int64_t{1} << 61;
  std::vector<Tensor> parameters = lstm(filled({0, 3}, 0), 0, 3, 0);
  parameters[1] = parameters[2] = filled({0, kMany}, 0);
  expect_refused("LSTMBlockCell", parameters, "too many");
  const Tensor none = filled({0, kMany}, 0);
  const Tensor v = filled({2}, 0);
  Result<std::vector<Tensor>> gru = evaluate("GRUBlockCell", {filled({0, 3}, 0), none, none, none, v, v});
  ASSERT_FALSE(gru.ok());
  EXPECT_EQ(gru.status().code(), Code::kInvalidArgument);
  // Many steps of nothing.
  parameters = lstm(filled({std::int64_t{1} << 40, 1, 0}, 0), 1, 0, 2);
  parameters[3] = filled({2, 8}, 0);
  EXPECT_FALSE(evaluate("BlockLSTM", sequence(std::int64_t{1} << 40, parameters)).ok());
}

TEST(RecurrentOps, GruByHand) {
  const auto out = *evaluate("GRUBlockCell", {filled({1, 1}, 1), filled({1, 1}, 0.5f), filled({2, 2}, 0),
                                              filled({2, 1}, 1), filled({2}, 0), filled({1}, 0)});
  const float c = std::tanh(1 + 0.5f * 0.5f);
  EXPECT_NEAR(out[2].data<float>()[0], c, 1e-6);
  EXPECT_NEAR(out[3].data<float>()[0], 0.5f * 0.5f + 0.5f * c, 1e-6);
}

TEST(DecompositionOps, QrOfNothingIsTheIdentity) {
  const auto out = *evaluate("Qr", {filled({2, 3, 0}, 0)}, {{"full_matrices", true}});
  EXPECT_EQ(out[0].shape(), Shape({2, 3, 3}));
  EXPECT_EQ(out[1].shape(), Shape({2, 3, 0}));
  for (std::int64_t i = 0; i < 18; ++i) EXPECT_EQ(out[0].data<float>()[i], i % 9 % 4 == 0 ? 1 : 0) << i;
  expect_refused("Qr", {filled({3}, 0)}, "2");
}

}  // namespace tutti::recurrent_ops_test
