#include <gtest/gtest.h>

#include <algorithm>

#include "tests/graph/test_ops.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"

namespace tutti::inline_functions_test {

using testing::add;
using testing::constant;
using testing::function_def_bytes;
using testing::names;
using testing::placeholder;
using testing::test_ops;

const char kT[] = " attr { key: 'T' value { type: DT_FLOAT } } ";

class InlineTest : public ::testing::Test {
 protected:
  InlineTest() { x_ = placeholder(graph_, DType::kFloat, {2}, "x"); }

  void define(const std::string& text) { throw_if_error(graph_.library().add_serialized(function_def_bytes(text))); }
  // float -> float, one node of `op` on the argument.
  void define_unary(const std::string& name, const std::string& op) {
    define("signature { name: '" + name +
           "' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
           "node_def { name: 'n' op: '" +
           op + "' input: 'a'" + kT + "} ret { key: 'r' value: 'n:y:0' }");
  }
  Node* call(const std::string& function, std::vector<Output> inputs, const std::string& name = "call",
             bool stateful = false, int results = 1) {
    return add(graph_, stateful ? "StatefulPartitionedCall" : "PartitionedCall", std::move(inputs),
               {{"f", FunctionRef{function, nullptr}}, {"Tout", std::vector<DType>(results, DType::kFloat)}}, name);
  }
  FunctionBody inlined(Signature signature) {
    signature.feeds.push_back("x");
    FunctionBody body = extract_subgraph(graph_, signature).value_or_throw();
    throw_if_error(inline_functions(body));
    EXPECT_TRUE(body.graph->topological_order().ok());
    return body;
  }
  static std::vector<std::string> controls(const Node* node) {
    return names({node->control_inputs().begin(), node->control_inputs().end()});
  }
  static bool depends_on(const Node* node, const Node* other) {
    std::vector<const Node*> todo{node};
    for (std::size_t i = 0; i < todo.size(); ++i) {
      if (todo[i] == other) return true;
      for (const Output& input : todo[i]->inputs()) todo.push_back(input.node);
      for (const Node* before : todo[i]->control_inputs()) todo.push_back(before);
    }
    return false;
  }

  Graph graph_{test_ops()};
  Output x_;
};

TEST_F(InlineTest, PutsBodiesInPlace) {
  define_unary("f", "Neg");
  Node* outer = call("f", {x_});
  add(graph_, "Neg", {outer->output()}, {}, "out");
  FunctionBody body = inlined({.fetches = {"out"}});
  Node* inner = body.graph->find("call/n");
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(inner->input(0).node, body.args[0]);
  EXPECT_EQ(body.graph->find("out")->input(0), inner->output());
  EXPECT_EQ(body.graph->find("call"), nullptr);
  EXPECT_EQ(body.graph->num_nodes(), 4);
  EXPECT_EQ(inner->output_shape(0), (PartialShape{2}));  // what the call did not know
}

TEST_F(InlineTest, NestedAndByName) {
  define_unary("f", "Neg");
  define(
      "signature { name: 'g' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
      "node_def { name: 'one' op: 'f' input: 'a' } node_def { name: 'two' op: 'f' input: 'one:r:0' }"
      "ret { key: 'r' value: 'two:r:0' }");
  define(
      "signature { name: 'same' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
      "ret { key: 'r' value: 'a' }");
  Node* first = add(graph_, "same", {x_}, {}, "s");
  Node* second = add(graph_, "g", {first->output()}, {}, "g");
  Node* third = add(graph_, "same", {second->output()}, {}, "t");
  FunctionBody body = inlined({.fetches = {third->name()}});
  EXPECT_EQ(body.retvals[0]->input(0).node->name(), "g/two/n");
  EXPECT_EQ(body.graph->find("g/two/n")->input(0).node->name(), "g/one/n");
  EXPECT_EQ(body.graph->find("g/one/n")->input(0).node, body.args[0]);
  EXPECT_EQ(body.graph->num_nodes(), 4);
}

TEST_F(InlineTest, RecursionAndLoopsStayCalls) {
  define(
      "signature { name: 'r' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
      "node_def { name: 'again' op: 'r' input: 'a' } ret { key: 'r' value: 'again:r:0' }");
  add(graph_, "r", {x_}, {}, "rec");
  FunctionBody body = inlined({.fetches = {"rec"}});
  EXPECT_EQ(body.retvals[0]->input(0).node->op_name(), "r");

  define(std::string(
             "signature { name: 'loop' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
             "node_def { name: 'n' op: 'NextIteration' input: 'a'") +
         kT + "} ret { key: 'r' value: 'n:output:0' }");
  call("loop", {x_}, "v1");
  EXPECT_EQ(inlined({.fetches = {"v1"}}).retvals[0]->input(0).node->op_name(), "PartitionedCall");
}

TEST_F(InlineTest, DoublingCallsAreBounded) {
  define_unary("f0", "Neg");
  for (int i = 1; i <= 30; ++i) {
    const std::string callee = str_cat("f", i - 1);
    define("signature { name: '" + str_cat("f", i) +
           "' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
           "node_def { name: 'p' op: '" +
           callee + "' input: 'a' } node_def { name: 'q' op: '" + callee +
           "' input: 'p:r:0' }"
           "ret { key: 'r' value: 'q:r:0' }");
  }
  add(graph_, "f30", {x_}, {}, "call");
  EXPECT_LT(inlined({.fetches = {"call"}}).graph->num_nodes(), 200'000);
}

TEST_F(InlineTest, EffectsKeepTheirOrder) {
  define(
      "signature { name: 'write' is_stateful: true input_arg { name: 'v' type: DT_RESOURCE } input_arg { name: 'a' "
      "type: DT_FLOAT }"
      "  output_arg { name: 'r' type: DT_FLOAT } }"
      "node_def { name: 'w' op: 'AssignVariableOp' input: 'v' input: 'a' attr { key: 'dtype' value { type: DT_FLOAT } "
      "} }"
      "ret { key: 'r' value: 'a' } control_ret { key: 'w' value: 'w' }");
  Node* handle = add(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{2}}}, "v");
  Node* before = add(graph_, "NoOp", {}, {}, "before");
  Node* outer = call("write", {handle->output(), x_}, "call", true);
  graph_.add_control_input(*outer, *before);
  Node* after = add(graph_, "ReadVariableOp", {handle->output()}, {{"dtype", DType::kFloat}}, "after");
  graph_.add_control_input(*after, *outer);
  add(graph_, "Neg", {outer->output()}, {}, "neg");

  FunctionBody body = inlined({.fetches = {"neg", "after"}});
  Node* write = body.graph->find("call/w");
  ASSERT_NE(write, nullptr);
  EXPECT_EQ(controls(write), std::vector<std::string>{"call/input_control"});
  EXPECT_EQ(controls(body.graph->find("call/input_control")), std::vector<std::string>{"before"});
  EXPECT_TRUE(depends_on(body.graph->find("after"), write));
  EXPECT_TRUE(depends_on(body.graph->find("neg"), write));  // a call's results come after its effects
  EXPECT_EQ(names(body.targets), std::vector<std::string>{"call/output_control"});
  prune(body);
  EXPECT_NE(body.graph->find("call/w"), nullptr);
  // As a target: nothing is read, the effect remains.
  FunctionBody target = inlined({.targets = {"call"}});
  prune(target);
  EXPECT_NE(target.graph->find("call/w"), nullptr);
}

TEST_F(InlineTest, AReferenceIsReadOnce) {
  define_unary("f", "Neg");
  Node* v = add(graph_, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v");
  call("f", {v->output()});
  FunctionBody body = inlined({.fetches = {"call"}});
  EXPECT_EQ(body.graph->find("call/n")->input(0).node->name(), "call/input_0");
  EXPECT_EQ(body.graph->find("call/input_0")->op_name(), "Identity");
}

TEST_F(InlineTest, DevicesAndGroupsAreTakenOver) {
  define(std::string(
             "signature { name: 'f' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
             "node_def { name: 'n' op: 'Neg' input: 'a' device: '/task:1'") +
         kT +
         "}"
         "node_def { name: 'm' op: 'Neg' input: 'n:y:0' attr { key: '_class' value { list { s: 'loc:@n' } } }" +
         kT +
         "}"
         "ret { key: 'r' value: 'm:y:0' }");
  Node* outer = call("f", {x_});
  graph_.set_requested_device(*outer, "/job:ps/task:0");
  FunctionBody body = inlined({.fetches = {"call"}});
  EXPECT_EQ(body.graph->find("call/n")->requested_device(), "/job:ps/task:1");
  EXPECT_EQ(body.graph->find("call/m")->requested_device(), "/job:ps/task:0");
  EXPECT_EQ(body.graph->find("call/m")->attr<std::vector<std::string>>("_class"),
            std::vector<std::string>{"loc:@call/n"});
}

TEST_F(InlineTest, WrongCallsAreNamed) {
  define_unary("f", "Neg");
  auto error = [&](Node* node) {
    FunctionBody body = extract_subgraph(graph_, {.feeds = {"x"}, .targets = {node->name()}}).value_or_throw();
    return inline_functions(body).message();
  };
  EXPECT_NE(error(call("f", {x_, x_}, "two")).find("PartitionedCall \"two\": function \"f\" takes 1 arguments"),
            std::string::npos);
  EXPECT_NE(error(call("gone", {x_}, "none")).find("function \"gone\" is not in the library"), std::string::npos);
  Output i = constant(graph_, Tensor::scalar(1));
  EXPECT_NE(error(call("f", {i}, "type")).find("argument 0 must be float, got int32"), std::string::npos);
}

TEST_F(InlineTest, LongChainOfCalls) {
  define(
      "signature { name: 'same' input_arg { name: 'a' type: DT_FLOAT } output_arg { name: 'r' type: DT_FLOAT } }"
      "ret { key: 'r' value: 'a' }");
  Output value = x_;
  for (int i = 0; i < 20'000; ++i) value = add(graph_, "same", {value})->output();
  FunctionBody body = inlined({.fetches = {value.name()}});
  EXPECT_EQ(body.graph->num_nodes(), 2);
}

}  // namespace tutti::inline_functions_test
