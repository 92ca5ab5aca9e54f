#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"

namespace tutti::control_flow_ops_test {

using testing::KernelRunner;
using testing::value_of;

TEST(ControlFlowOps, SwitchTakesOneSide) {
  KernelRunner runner;
  const Value data = value_of(Tensor::scalar(5.0f));
  for (const bool taken : {false, true}) {
    auto run = runner.run("s", "Switch", {}, {data, value_of(Tensor::scalar(taken))});
    ASSERT_TRUE(run->status().ok());
    EXPECT_TRUE(run->tensor(taken).has_value());
    EXPECT_FALSE(run->tensor(!taken).has_value()) << "the other side must be dead";
  }
  EXPECT_EQ(runner.run("s", "Switch", {}, {data, value_of(Tensor::vector<bool>({true, false}))})->status().code(),
            Code::kInvalidArgument);
}

TEST(ControlFlowOps, MergeGivesTheFirstThatLives) {
  KernelRunner runner;
  auto run = runner.run("m", "Merge", {{"T", DType::kFloat}, {"N", 2}}, {Value(), value_of(Tensor::scalar(5.0f))});
  ASSERT_TRUE(run->status().ok()) << run->status().to_string();
  EXPECT_EQ(run->tensor(0).scalar<float>(), 5);
  EXPECT_EQ(run->tensor(1).scalar<std::int32_t>(), 1);
}

TEST(ControlFlowOps, ReferencesPass) {
  KernelRunner runner;
  const Value ref =
      runner.run("v", "VariableV2", {{"dtype", DType::kFloat}, {"shape", PartialShape::scalar()}})->output(0);
  auto run = runner.run("s", "RefSwitch", {}, {ref, value_of(Tensor::scalar(true))});
  EXPECT_EQ(run->output(1).ref, ref.ref);
  EXPECT_EQ(run->output(0).ref, nullptr);
  auto merged = runner.run("m", "RefMerge", {}, {ref});
  EXPECT_EQ(merged->output(0).ref, ref.ref);
  EXPECT_EQ(merged->tensor(1).scalar<std::int32_t>(), 0);
  EXPECT_EQ(runner.run("e", "RefEnter", {{"frame_name", "f"}}, {ref})->output(0).ref, ref.ref);
  for (const char* op : {"RefExit", "RefNextIteration", "RefIdentity"})
    EXPECT_EQ(runner.run(op, op, {}, {ref})->output(0).ref, ref.ref);
}

TEST(ControlFlowOps, RefSelectTakesTheOneThatIsNumbered) {
  KernelRunner runner;
  const AttrMap attrs{{"dtype", DType::kFloat}, {"shape", PartialShape::scalar()}};
  const Value a = runner.run("a", "VariableV2", attrs)->output(0), b = runner.run("b", "VariableV2", attrs)->output(0);
  const auto select = [&](const Tensor& index) {
    return runner.run("s", "RefSelect", {{"N", 2}, {"T", DType::kFloat}}, {value_of(index), a, b});
  };
  EXPECT_EQ(select(Tensor::scalar(0))->output(0).ref, a.ref);
  EXPECT_EQ(select(Tensor::scalar(1))->output(0).ref, b.ref);
  EXPECT_EQ(select(Tensor::scalar(2))->status(), invalid_argument("Index must be in the range [0, 2) but got 2"));
  EXPECT_EQ(select(Tensor::scalar(-1))->status(), invalid_argument("Index must be in the range [0, 2) but got -1"));
  EXPECT_EQ(select(Tensor::vector<std::int32_t>({1}))->status(),
            invalid_argument("Index must be a scalar, but it has shape [1]"));
}

TEST(ControlFlowOps, PlainPassThroughs) {
  KernelRunner runner;
  const Value data = value_of(Tensor::scalar(5.0f));
  EXPECT_EQ(runner.run("e", "Enter", {{"frame_name", "f"}}, {data})->tensor().raw(), data.tensor.raw());
  for (const char* op : {"Exit", "NextIteration"}) {
    EXPECT_EQ(runner.run(op, op, {}, {data})->tensor().raw(), data.tensor.raw());
  }
  EXPECT_TRUE(runner.run("l", "LoopCond", {}, {value_of(Tensor::scalar(true))})->tensor().scalar<bool>());
}

TEST(ControlFlowOps, MergeShapesForgetWhatDiffers) {
  Graph graph(builtin_ops());
  Output a = placeholder(graph, DType::kFloat, {2, 3});
  Output b = placeholder(graph, DType::kFloat, {2, 4});
  Output c = placeholder(graph, DType::kFloat, {2});
  EXPECT_EQ(add_op(graph, "Merge", {a, b})->output_shape(0), (PartialShape{2, -1}));
  EXPECT_FALSE(add_op(graph, "Merge", {a, c})->output_shape(0).has_rank());
}

}  // namespace tutti::control_flow_ops_test
