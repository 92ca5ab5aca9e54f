#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti::merge_common_subexpressions_test {

using testing::add;
using testing::constant;
using testing::placeholder;
using testing::test_ops;

class MergeTest : public ::testing::Test {
 protected:
  MergeTest() {
    x_ = placeholder(graph_, DType::kFloat, {2}, "x");
    y_ = placeholder(graph_, DType::kFloat, {2}, "y");
  }
  // Whether the values that two nodes give come from one node afterwards.
  bool merges(Node* a, Node* b) {
    FunctionBody body =
        extract_subgraph(
            graph_, {.feeds = {"x", "y"}, .fetches = {a->output().name(), b->output().name()}, .targets = {b->name()}})
            .value_or_throw();
    throw_if_error(merge_common_subexpressions(body));
    EXPECT_TRUE(body.graph->topological_order().ok());
    EXPECT_EQ(body.graph->find(body.targets[0]->name()), body.targets[0]);
    return body.retvals[0]->input(0) == body.retvals[1]->input(0);
  }
  Node* with_control(Node* node, Node* before) {
    graph_.add_control_input(*node, *before);
    return node;
  }
  Node* with_device(Node* node, const std::string& device) {
    graph_.set_requested_device(*node, device);
    return node;
  }

  Graph graph_{test_ops()};
  Output x_;
  Output y_;
};

TEST_F(MergeTest, EqualNodesBecomeOne) {
  EXPECT_TRUE(merges(add(graph_, "Neg", {x_}), add(graph_, "Neg", {x_})));
  EXPECT_FALSE(merges(add(graph_, "Neg", {x_}), add(graph_, "Neg", {y_})));
  EXPECT_FALSE(merges(add(graph_, "Neg", {x_}), add(graph_, "Identity", {x_})));
  Node* deep1 = add(graph_, "Sub", {add(graph_, "Neg", {x_})->output(), y_});
  Node* deep2 = add(graph_, "Sub", {add(graph_, "Neg", {x_})->output(), y_});
  EXPECT_TRUE(merges(deep1, deep2));
}

TEST_F(MergeTest, OrderOfInputsCountsUnlessCommutative) {
  EXPECT_TRUE(merges(add(graph_, "Add", {x_, y_}), add(graph_, "Add", {y_, x_})));
  EXPECT_FALSE(merges(add(graph_, "Sub", {x_, y_}), add(graph_, "Sub", {y_, x_})));
}

TEST_F(MergeTest, AttributesCount) {
  auto cast = [&](DType dtype) { return add(graph_, "Cast", {x_}, {{"DstT", dtype}}); };
  EXPECT_TRUE(merges(cast(DType::kInt32), cast(DType::kInt32)));
  EXPECT_FALSE(merges(cast(DType::kInt32), cast(DType::kInt64)));
  EXPECT_TRUE(merges(add(graph_, "Neg", {x_}, {{"_note", 1}}), add(graph_, "Neg", {x_}, {{"_note", 2}})));
  auto located = [&](const char* where) {
    return add(graph_, "Neg", {x_}, {{"_class", std::vector<std::string>{where}}});
  };
  EXPECT_FALSE(merges(located("loc:@x"), located("loc:@y")));
}

TEST_F(MergeTest, ControlInputsAndDevicesCount) {
  Node* a = add(graph_, "NoOp", {}, {}, "a");
  Node* b = add(graph_, "NoOp", {}, {}, "b");
  auto neg = [&] { return add(graph_, "Neg", {x_}); };
  EXPECT_FALSE(merges(neg(), with_control(neg(), a)));
  EXPECT_FALSE(merges(with_control(neg(), a), with_control(neg(), b)));
  EXPECT_TRUE(merges(with_control(with_control(neg(), a), b), with_control(with_control(neg(), b), a)));
  EXPECT_FALSE(merges(neg(), with_device(neg(), "/job:ps")));
  EXPECT_TRUE(merges(with_device(neg(), "/job:ps"), with_device(neg(), "/job:ps")));
}

TEST_F(MergeTest, ConstantsByValue) {
  auto value = [&](float v) { return constant(graph_, Tensor::vector<float>({v, 2})).node; };
  EXPECT_TRUE(merges(value(1), value(1)));
  EXPECT_FALSE(merges(value(1), value(3)));
  EXPECT_FALSE(merges(value(0.0f), value(-0.0f)));
  Tensor large(DType::kFloat, Shape{5000});
  Tensor other = large.clone().value_or_throw();
  other.data<float>()[2500] = 1;  // apart from both ends
  EXPECT_TRUE(merges(constant(graph_, large).node, constant(graph_, large.clone().value_or_throw()).node));
  EXPECT_FALSE(merges(constant(graph_, large).node, constant(graph_, other).node));
  EXPECT_TRUE(merges(constant(graph_, Tensor::scalar(std::string("s"))).node,
                     constant(graph_, Tensor::scalar(std::string("s"))).node));
}

TEST_F(MergeTest, StateAndReadsStayApart) {
  Output shape = constant(graph_, Tensor::vector<std::int32_t>({2}));
  EXPECT_FALSE(merges(add(graph_, "Random", {shape}), add(graph_, "Random", {shape})));
  Node* v = add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  EXPECT_FALSE(merges(add(graph_, "Identity", {v->output()}), add(graph_, "Identity", {v->output()})));
  Node* handle = add(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}});
  auto read = [&] { return add(graph_, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}}); };
  EXPECT_FALSE(merges(read(), read()));
  EXPECT_FALSE(merges(add(graph_, "Placeholder", {}, {{"dtype", DType::kFloat}}),
                      add(graph_, "Placeholder", {}, {{"dtype", DType::kFloat}})));
}

TEST_F(MergeTest, ControlEdgesFollow) {
  Node* one = add(graph_, "Neg", {x_}, {}, "one");
  Node* two = add(graph_, "Neg", {x_}, {}, "two");
  Node* after = with_control(with_control(add(graph_, "NoOp", {}, {}, "after"), one), two);
  FunctionBody body = extract_subgraph(graph_, {.feeds = {"x"}, .fetches = {"two"}, .targets = {"after", "one", "two"}})
                          .value_or_throw();
  ASSERT_TRUE(merge_common_subexpressions(body).ok());
  EXPECT_EQ(body.graph->find("two"), nullptr);
  EXPECT_EQ(body.graph->find(after->name())->control_inputs().size(), 1u);
  EXPECT_EQ(testing::names(body.targets), (std::vector<std::string>{"after", "one"}));
  EXPECT_EQ(body.retvals[0]->input(0).node->name(), "one");
}

TEST_F(MergeTest, LongChains) {
  Output a = x_;
  Output b = x_;
  for (int i = 0; i < 50'000; ++i) {
    a = add(graph_, "Neg", {a})->output();
    b = add(graph_, "Neg", {b})->output();
  }
  EXPECT_TRUE(merges(a.node, b.node));
}

}  // namespace tutti::merge_common_subexpressions_test
