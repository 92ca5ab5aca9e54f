#include "tutti/graph/subgraph.h"

#include <gtest/gtest.h>

#include "tests/graph/test_ops.h"

namespace tutti::subgraph_test {

using testing::add;
using testing::constant;
using testing::names;
using testing::placeholder;
using testing::test_ops;

class SubgraphTest : public ::testing::Test {
 protected:
  SubgraphTest() {
    x_ = placeholder(graph_, DType::kFloat, {2}, "x");
    c_ = constant(graph_, Tensor::vector<float>({1, 2}), "c");
    sum_ = add(graph_, "Add", {x_, c_}, {}, "sum");
    neg_ = add(graph_, "Neg", {sum_->output()}, {}, "neg");
    effect_ = add(graph_, "NoOp", {}, {}, "effect");
    graph_.add_control_input(*effect_, *neg_);
    graph_.add_control_input(*effect_, *x_.node);
    add(graph_, "Neg", {x_}, {}, "unused");
  }
  Status error(const Signature& signature) { return extract_subgraph(graph_, signature).status(); }
  FunctionBody extract(const Signature& signature) { return extract_subgraph(graph_, signature).value_or_throw(); }

  Graph graph_{test_ops()};
  Output x_;
  Output c_;
  Node* sum_;
  Node* neg_;
  Node* effect_;
};

TEST_F(SubgraphTest, TakesWhatIsReached) {
  FunctionBody body = extract({.feeds = {"x:0"}, .fetches = {"neg:0", "sum"}, .targets = {"effect"}});
  EXPECT_EQ(body.graph->num_nodes(), 4 + 1 + 2);
  EXPECT_EQ(body.graph->find("unused"), nullptr);
  EXPECT_EQ(body.graph->find("x"), nullptr);
  ASSERT_EQ(body.args.size(), 1u);
  EXPECT_EQ(body.args[0]->output_shape(0), (PartialShape{2}));
  Node* sum = body.graph->find("sum");
  EXPECT_EQ(sum->input(0).node, body.args[0]);
  EXPECT_EQ(sum->input(1).node, body.graph->find("c"));
  EXPECT_EQ(body.retvals[0]->input(0).node->name(), "neg");
  EXPECT_EQ(body.retvals[1]->input(0).node, sum);
  ASSERT_EQ(body.targets.size(), 1u);
  // Who waits for a placeholder that is fed waits for the feed.
  EXPECT_EQ(body.targets[0]->control_inputs()[0]->name(), "neg");
  EXPECT_EQ(body.targets[0]->control_inputs()[1], body.args[0]);
  EXPECT_TRUE(body.graph->topological_order().ok());
}

TEST_F(SubgraphTest, FeedsCut) {
  FunctionBody body = extract({.feeds = {"sum", "x"}, .fetches = {"neg", "sum", "neg"}, .targets = {"neg", "neg"}});
  EXPECT_EQ(body.graph->find("sum"), nullptr);
  EXPECT_EQ(body.graph->find("c"), nullptr);
  EXPECT_EQ(body.args.size(), 2u);
  EXPECT_EQ(body.retvals[1]->input(0).node, body.args[0]);
  EXPECT_EQ(body.retvals[2]->input(0).node->name(), "neg");
  EXPECT_EQ(body.targets.size(), 1u);
}

TEST_F(SubgraphTest, NothingIsFine) {
  FunctionBody body = extract({});
  EXPECT_EQ(body.graph->num_nodes(), 0);
}

TEST_F(SubgraphTest, ErrorsNameTheEnd) {
  EXPECT_EQ(error({.feeds = {"gone:0"}}).code(), Code::kNotFound);
  EXPECT_EQ(error({.feeds = {"gone:0"}}).message(), "feed: tensor \"gone:0\": the graph has no such node");
  EXPECT_EQ(error({.fetches = {"x:1"}}).code(), Code::kInvalidArgument);
  EXPECT_EQ(error({.fetches = {"x:1"}}).message(), "fetch: tensor \"x:1\": Placeholder \"x\" has 1 outputs");
  EXPECT_EQ(error({.targets = {"gone"}}).message(), "target \"gone\": the graph has no such node");
  EXPECT_EQ(error({.feeds = {"x", "x:0"}}).message(), "feed: tensor \"x:0\" is fed twice");
  EXPECT_EQ(error({.fetches = {"effect"}}).code(), Code::kInvalidArgument);
}

TEST_F(SubgraphTest, ConnectionsReplaceATensorEverywhere) {
  FunctionBody body = extract({.fetches = {"neg", "x"}, .targets = {"effect"}, .connections = {{"c:0", "x:0"}}});
  EXPECT_EQ(body.graph->find("x"), nullptr);
  Node* c = body.graph->find("c");
  EXPECT_EQ(body.graph->find("sum")->input(0).node, c);
  EXPECT_EQ(body.retvals[1]->input(0).node, c);
  EXPECT_EQ(body.targets[0]->control_inputs()[1], c) << "who waits for a placeholder waits for what it is given";
  FunctionBody fed = extract({.feeds = {"c:0"}, .fetches = {"sum"}, .connections = {{"c:0", "x:0"}}});
  EXPECT_EQ(fed.graph->find("sum")->input(0).node, fed.args[0]);
  FunctionBody inner = extract({.fetches = {"neg"}, .connections = {{"c:0", "sum:0"}}});
  EXPECT_EQ(inner.graph->find("sum"), nullptr) << "what nobody takes does not run";
}

TEST_F(SubgraphTest, ConnectionsThatCannotBe) {
  auto why = [&](TensorConnection connection, std::vector<std::string> feeds = {}) {
    return error({.feeds = std::move(feeds), .fetches = {"neg"}, .connections = {std::move(connection)}}).message();
  };
  EXPECT_EQ(why({"gone:0", "x:0"}), "connection: tensor \"gone:0\": the graph has no such node");
  EXPECT_EQ(why({"c:0", "x:7"}), "connection: tensor \"x:7\": Placeholder \"x\" has 1 outputs");
  EXPECT_EQ(why({"c:0", "x:0"}, {"x:0"}), "connection: tensor \"x:0\" is given two values");
  placeholder(graph_, DType::kInt32, {2}, "i");
  EXPECT_EQ(why({"i:0", "x:0"}), "connection: tensor \"i:0\" is int32, tensor \"x:0\" is float");
  EXPECT_EQ(error({.fetches = {"neg"}, .connections = {{"c:0", "x:0"}, {"x:0", "sum:0"}}}).message(),
            "connection: tensor \"x:0\" is at both ends of connections");
  EXPECT_EQ(error({.fetches = {"neg"}, .connections = {{"neg:0", "x:0"}}}).code(), Code::kInvalidArgument) << "a cycle";
}

TEST_F(SubgraphTest, AFedReferenceIsNone) {
  add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  add(graph_, "Assign", {*graph_.find_output("v"), c_}, {}, "assign");
  FunctionBody body = extract({.fetches = {"v"}});
  EXPECT_EQ(body.retvals[0]->input(0).node->name(), "v");
  EXPECT_NE(
      error({.feeds = {"v"}, .fetches = {"assign"}}).message().find("Assign \"assign\": input 0 must be float_ref"),
      std::string::npos);
}

TEST_F(SubgraphTest, ShapesThatCameFromFedValuesAreForgotten) {
  Output shape = constant(graph_, Tensor::vector<std::int32_t>({1, 2}), "shape");
  Node* reshaped = add(graph_, "Reshape", {x_, shape}, {}, "reshaped");
  EXPECT_EQ(reshaped->output_shape(0), (PartialShape{1, 2}));
  EXPECT_EQ(extract({.fetches = {"reshaped"}}).graph->find("reshaped")->output_shape(0), (PartialShape{1, 2}));
  FunctionBody fed = extract({.feeds = {"shape"}, .fetches = {"reshaped"}});
  EXPECT_EQ(fed.graph->find("reshaped")->output_shape(0), (PartialShape{-1, -1}));
}

TEST_F(SubgraphTest, CopiesLoops) {
  Node* enter = add(graph_, "Enter", {x_}, {{"frame_name", "f"}}, "enter");
  NodeSpec spec{.op = "Merge", .name = "merge", .inputs = {enter->output(), Output()}, .attrs = {{"N", 2}}};
  Node* merge = graph_.add_exact(spec).value_or_throw();
  Node* next = add(graph_, "NextIteration", {merge->output()}, {}, "next");
  ASSERT_TRUE(graph_.set_input(*merge, 1, next->output()).ok());
  FunctionBody body = extract({.feeds = {"c"}, .fetches = {"merge"}});
  EXPECT_EQ(body.graph->find("merge")->input(1).node, body.graph->find("next"));
  EXPECT_TRUE(body.graph->topological_order().ok());
}

TEST_F(SubgraphTest, LongChain) {
  Output x = x_;
  for (int i = 0; i < 100'000; ++i) x = add(graph_, "Neg", {x})->output();
  FunctionBody body = extract({.feeds = {"x"}, .fetches = {x.name()}});
  EXPECT_EQ(body.graph->num_nodes(), 100'002);
  prune(body);
  EXPECT_EQ(body.graph->num_nodes(), 100'002);
}

TEST_F(SubgraphTest, PruneKeepsWhatIsNeeded) {
  FunctionBody body = extract({.feeds = {"x"}, .fetches = {"neg"}, .targets = {"effect"}});
  add(*body.graph, "Neg", {body.args[0]->output()}, {}, "extra");
  add(*body.graph, "Neg", {*body.graph->find_output("extra")}, {}, "extra2");
  prune(body);
  EXPECT_EQ(body.graph->find("extra"), nullptr);
  EXPECT_EQ(body.graph->find("extra2"), nullptr);
  EXPECT_NE(body.graph->find("effect"), nullptr);
  body.retvals.clear();
  body.targets.clear();
  prune(body);
  EXPECT_EQ(names(body.graph->nodes()), names(body.args));
}

}  // namespace tutti::subgraph_test
