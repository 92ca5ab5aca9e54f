#include "tutti/graph/reference_aliases.h"

#include <gtest/gtest.h>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::reference_aliases_test {

class ReferenceAliasesTest : public ::testing::Test {
 protected:
  Output enter(Output value) { return op1("Enter", {value}, {{"frame_name", "loop"}}); }
  bool is_alias(Output value) { return ReferenceAliases(graph_).contains(value); }

  Graph graph_{builtin_ops()};
  Output variable_ =
      add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kFloat}})->output();
  Output plain_ = constant(graph_, Tensor::scalar(1.0f));
};

TEST_F(ReferenceAliasesTest, ReadsOfAVariableAreAliasesAndResultsAreNot) {
  Output read = op1("Identity", {variable_});
  EXPECT_TRUE(is_alias(variable_));
  EXPECT_TRUE(is_alias(read));
  EXPECT_TRUE(is_alias(op1("StopGradient", {read})));
  EXPECT_FALSE(is_alias(op1("Snapshot", {read})));
  EXPECT_FALSE(is_alias(read + read));
  EXPECT_FALSE(is_alias(plain_));
  EXPECT_FALSE(is_alias(op1("Identity", {plain_})));
}

TEST_F(ReferenceAliasesTest, ControlFlowHandsAliasesOn) {
  Output flag = constant(graph_, Tensor::scalar(true));
  Node* branches = add_op(graph_, "Switch", {op1("Identity", {variable_}), flag});
  EXPECT_TRUE(is_alias(branches->output(0)));
  EXPECT_TRUE(is_alias(branches->output(1)));
  Node* merged = add_op(graph_, "Merge", {plain_, branches->output(1)}, {{"N", 2}});
  EXPECT_TRUE(is_alias(merged->output(0)));
  EXPECT_FALSE(is_alias(merged->output(1)));  // which input it was
}

TEST_F(ReferenceAliasesTest, APredicateIsNotHandedOn) {
  Output flag =
      add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kBool}})->output();
  EXPECT_FALSE(is_alias(add_op(graph_, "Switch", {plain_, flag})->output(0)));
}

TEST_F(ReferenceAliasesTest, AliasesComeRoundALoop) {
  Output start = enter(plain_);
  Node* merge =
      graph_
          .add_exact(
              {.op = "Merge", .name = "merge", .inputs = {start, Output()}, .attrs = {{"T", DType::kFloat}, {"N", 2}}})
          .value_or_throw();
  EXPECT_FALSE(is_alias(merge->output()));
  Output next = op1("NextIteration", {op1("Identity", {enter(variable_)})});
  throw_if_error(graph_.set_input(*merge, 1, next));
  EXPECT_TRUE(is_alias(merge->output()));
  EXPECT_TRUE(is_alias(op1("Exit", {merge->output()})));
}

}  // namespace tutti::reference_aliases_test
