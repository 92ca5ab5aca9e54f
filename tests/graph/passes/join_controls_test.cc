#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tutti/graph/passes/passes.h"
#include "tutti/ops/op_table.h"

namespace tutti::join_controls_test {

using Names = std::vector<std::string>;

class JoinControlsTest : public ::testing::Test {
 protected:
  JoinControlsTest() { body_.graph = std::make_unique<Graph>(builtin_ops()); }

  Node* add(const std::string& name, const std::string& task, std::vector<Node*> after,
            const std::string& op = "NoOp") {
    Node* node = body_.graph->add_exact({.op = op, .name = name, .control_inputs = std::move(after)}).value_or_throw();
    body_.graph->set_assigned_device(*node, task);
    return node;
  }
  // Something that is done at `task`.
  Node* work(const std::string& name, const std::string& task, std::vector<Node*> after = {}) {
    Node* node = body_.graph
                     ->add_exact({.op = "Const",
                                  .name = name,
                                  .attrs = {{"dtype", DType::kFloat}, {"value", Tensor::scalar(1.0f)}},
                                  .control_inputs = std::move(after)})
                     .value_or_throw();
    body_.graph->set_assigned_device(*node, task);
    return node;
  }
  void join() {
    throw_if_error(join_controls(body_, [](const std::string& device) { return device; }));
    EXPECT_TRUE(body_.graph->topological_order().ok());
  }
  static Names before(const Node* node) {
    Names names;
    for (const Node* one : node->control_inputs()) names.push_back(one->name());
    std::sort(names.begin(), names.end());
    return names;
  }

  FunctionBody body_;
};

TEST_F(JoinControlsTest, SeveralOfAnotherPartBecomeOne) {
  Node* a = work("a", "ps0");
  Node* b = work("b", "ps0");
  Node* own = work("own", "ps1");
  Node* last = work("last", "ps1", {a, own, b});
  Node* other = work("other", "ps1", {b, a});
  body_.targets = {last, other};
  join();
  ASSERT_EQ(before(last).size(), 2u);
  ASSERT_EQ(before(other).size(), 1u);
  Node* joined = other->control_inputs()[0];
  EXPECT_EQ(joined->assigned_device(), "ps0");
  EXPECT_EQ(before(joined), (Names{"a", "b"}));
  EXPECT_EQ(before(last), (Names{joined->name(), "own"})) << "the same one serves both";
}

TEST_F(JoinControlsTest, AGroupOnAThirdPartIsNoDetour) {
  Node* a = work("a", "ps0");
  Node* b = work("b", "ps1");
  Node* group = add("group", "worker", {a, b});
  Node* last = work("last", "ps0", {group});
  body_.targets = {last};
  join();
  EXPECT_EQ(before(last), (Names{"a", "b"}));
  EXPECT_EQ(body_.graph->find("group"), nullptr) << "nothing waits for it";
}

TEST_F(JoinControlsTest, TargetsAndGroupsOfOnePartStay) {
  Node* a = work("a", "ps0");
  Node* b = work("b", "ps1");
  Node* group = add("group", "worker", {a, b});
  Node* beside = add("beside", "ps0", {a});
  Node* last = work("last", "ps1", {group, beside});
  Node* reader = work("reader", "worker", {group});
  body_.targets = {last, group, reader};
  join();
  EXPECT_EQ(body_.graph->find("group"), group);
  EXPECT_EQ(before(reader), (Names{"group"})) << "it is in the same part";
  ASSERT_EQ(before(last).size(), 2u);
  EXPECT_EQ(before(last)[1], "b");
  EXPECT_EQ(before(body_.graph->find(before(last)[0])), (Names{"a", "beside"}));
}

TEST_F(JoinControlsTest, GroupsOfGroupsAreFollowed) {
  Node* a = work("a", "ps0");
  Node* b = work("b", "ps1");
  Node* inner = add("inner", "worker", {a, b});
  Node* outer = add("outer", "worker", {inner, a});
  Node* outermost = add("outermost", "ps2", {outer});
  Node* last = work("last", "ps1", {outermost});
  body_.targets = {last};
  join();
  EXPECT_EQ(before(last), (Names{"a", "b"}));
  EXPECT_EQ(body_.graph->num_nodes(), 3);
}

TEST_F(JoinControlsTest, BodiesWithBranchesStay) {
  Node* a = work("a", "ps0");
  Node* b = work("b", "ps0");
  Node* last = work("last", "ps1", {a, b});
  Node* is_true =
      body_.graph
          ->add_exact(
              {.op = "Const", .name = "is_true", .attrs = {{"dtype", DType::kBool}, {"value", Tensor::scalar(true)}}})
          .value_or_throw();
  body_.graph->set_assigned_device(*is_true, "ps1");
  Node* branch =
      body_.graph->add_exact({.op = "Switch", .name = "branch", .inputs = {last->output(), is_true->output()}})
          .value_or_throw();
  body_.graph->set_assigned_device(*branch, "ps1");
  body_.targets = {branch};
  join();
  EXPECT_EQ(before(last), (Names{"a", "b"}));
}

}  // namespace tutti::join_controls_test
