#include <gtest/gtest.h>

#include <algorithm>

#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::drop_unread_test {

class DropUnreadTest : public ::testing::Test {
 protected:
  // A node that waits for `before`.
  Node* group(const std::vector<Node*>& before, const std::string& name) {
    const auto scope = graph_.control_dependencies(before);
    return graph_.add_node({.op = "NoOp", .name = name}).value_or_throw();
  }
  Output after(Node* before, Output value) {
    const auto scope = graph_.control_dependencies({before});
    return identity(value, "after");
  }
  // The body that fetches `after` and runs `targets`, without what nobody reads.
  FunctionBody dropped(const std::vector<std::string>& targets = {}) {
    FunctionBody body =
        extract_subgraph(graph_, {.feeds = {"x"}, .fetches = {"after"}, .targets = targets}).value_or_throw();
    throw_if_error(drop_unread(body));
    prune(body);
    return body;
  }
  // Whether `node` waits for `before`, by any way.
  static bool waits_for(const Node& node, const Node& before) {
    if (&node == &before) return true;
    const auto any = [&](const Node* one) { return waits_for(*one, before); };
    return std::any_of(node.control_inputs().begin(), node.control_inputs().end(), any) ||
           std::any_of(node.inputs().begin(), node.inputs().end(), [&](const Output& in) { return any(in.node); });
  }

  Graph graph_{builtin_ops()};
  Output x_ = placeholder(graph_, DType::kFloat, {2}, "x");
};

// As TensorFlow's clients tie the gradients of a layer together.
TEST_F(DropUnreadTest, WhatIsOnlyWaitedFor) {
  Output read = exp(x_, "read");
  Output unread = log(square(x_, "behind"), "unread");
  after(group({read.node, unread.node}, "group_deps"), read);
  const FunctionBody body = dropped();
  EXPECT_EQ(body.graph->find("unread"), nullptr);
  EXPECT_EQ(body.graph->find("behind"), nullptr);
  ASSERT_NE(body.graph->find("read"), nullptr);
  ASSERT_NE(body.graph->find("group_deps"), nullptr);
  EXPECT_TRUE(waits_for(*body.graph->find("after"), *body.graph->find("group_deps")));
  EXPECT_TRUE(waits_for(*body.graph->find("group_deps"), *body.graph->find("read")));
}

TEST_F(DropUnreadTest, WhatItWaitedForStillComesBefore) {
  Node* check =
      graph_.add_node({.op = "Assert", .name = "check", .inputs = {constant(graph_, Tensor::scalar(true)), x_}})
          .value_or_throw();
  Var v = variable(graph_, x_, "v");
  const Output value = v.read();
  Output unread;
  {
    const auto scope = graph_.control_dependencies({check});
    unread = log(x_ + value, "unread");
  }
  after(unread.node, x_);
  const FunctionBody body = dropped();
  EXPECT_EQ(body.graph->find("unread"), nullptr);
  const Node& last = *body.graph->find("after");
  EXPECT_TRUE(waits_for(last, *body.graph->find("check")));
  EXPECT_TRUE(waits_for(last, *body.graph->find(value.node->name())));
}

TEST_F(DropUnreadTest, EffectsReadsAndTargetsStay) {
  Node* check =
      graph_.add_node({.op = "Assert", .name = "check", .inputs = {constant(graph_, Tensor::scalar(true)), x_}})
          .value_or_throw();
  const Output finite = op1("CheckNumerics", {x_}, {{"message", "x"}}, "finite");
  const Output value = variable(graph_, x_, "v").read();
  const Output target = exp(x_, "target");
  after(group({check, finite.node, value.node, target.node}, "group_deps"), x_);
  const FunctionBody body = dropped({"target"});
  for (const std::string& name :
       {std::string("check"), std::string("finite"), value.node->name(), std::string("target")}) {
    EXPECT_NE(body.graph->find(name), nullptr) << name;
  }
}

// Whether it runs at all says which branch was taken.
TEST_F(DropUnreadTest, WhatABranchRunsStays) {
  Node* branch =
      graph_.add_node({.op = "Switch", .name = "switch", .inputs = {x_, constant(graph_, Tensor::scalar(true))}})
          .value_or_throw();
  const Output on_true = exp(branch->output(1), "on_true");
  after(on_true.node, branch->output(0));
  EXPECT_NE(dropped().graph->find("on_true"), nullptr);
}

TEST_F(DropUnreadTest, ConstantsLeaveNothingToWaitFor) {
  const Output unread = constant(graph_, Tensor::scalar(1.0f), "unread");
  after(unread.node, x_);
  const FunctionBody body = dropped();
  EXPECT_EQ(body.graph->find("unread"), nullptr);
  EXPECT_TRUE(body.graph->find("after")->control_inputs().empty());
}

}  // namespace tutti::drop_unread_test
