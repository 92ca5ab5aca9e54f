#include "tutti/graph/function.h"

#include <gtest/gtest.h>

#include "proto/function.pb.h"
#include "tests/graph/test_ops.h"

namespace tutti::function_test {

using testing::add;
using testing::constant;
using testing::function_def_bytes;
using testing::names;
using testing::test_ops;

class FunctionTest : public ::testing::Test {
 protected:
  Status add_function(const std::string& text) { return library_->add_serialized(function_def_bytes(text)); }
  Result<FunctionBody> instantiate(const std::string& name, AttrMap attrs = {}) {
    return library_->instantiate({name, std::make_shared<AttrMap>(std::move(attrs))}, test_ops(), library_);
  }
  std::shared_ptr<FunctionLibrary> library_ = std::make_shared<FunctionLibrary>();
};

TEST_F(FunctionTest, KeepsDefinitions) {
  const std::string bytes = function_def_bytes("signature { name: 'f' is_stateful: true }");
  ASSERT_TRUE(library_->add_serialized(bytes).ok());
  EXPECT_TRUE(library_->add_serialized(bytes).ok());
  EXPECT_EQ(add_function("signature { name: 'f' }").code(), Code::kAlreadyExists);
  EXPECT_EQ(add_function("signature { }").code(), Code::kInvalidArgument);
  EXPECT_EQ(library_->add_serialized("\x0a\x05").code(), Code::kInvalidArgument);
  EXPECT_EQ(add_function("signature { name: 'g' input_arg { name: 'x' } }").message(),
            "function \"g\": argument \"x\" is of unknown type 0");
  EXPECT_TRUE(library_->contains("f"));
  EXPECT_FALSE(library_->contains("g"));
  EXPECT_EQ(library_->names(), std::vector<std::string>{"f"});
  EXPECT_EQ(library_->serialized("f"), bytes);
  EXPECT_TRUE(library_->signature("f")->has(kStateful));
  EXPECT_EQ(library_->signature("g"), nullptr);
  EXPECT_EQ(library_->unique_name("f"), "f_1");
  EXPECT_EQ(library_->unique_name("g"), "g");
  library_->set_gradient("f", "df");
  EXPECT_EQ(library_->gradient_of("f"), "df");
  EXPECT_EQ(library_->gradient_of("g"), "");
}

TEST_F(FunctionTest, InstantiatesWithAttributes) {
  ASSERT_TRUE(add_function(R"(
      signature {
        name: 'f'
        input_arg { name: 'x' type_attr: 'T' }
        input_arg { name: 'ys' type_attr: 'T' number_attr: 'n' }
        output_arg { name: 'a' type_attr: 'T' }
        output_arg { name: 'b' type_attr: 'T' }
        attr { name: 'T' type: 'type' }
        attr { name: 'n' type: 'int' default_value { i: 2 } }
      }
      node_def { name: 'sum' op: 'AddN' input: 'halves:output' input: 'ys:1' input: 'x:0'
                 attr { key: 'T' value { placeholder: 'T' } } attr { key: 'N' value { i: 4 } } }
      node_def { name: 'halves' op: 'Split' input: 'ys:0'
                 attr { key: 'T' value { placeholder: 'T' } } attr { key: 'num_split' value { i: 2 } } }
      ret { key: 'a' value: 'sum:sum:0' }
      ret { key: 'b' value: 'halves:output:1' })")
                  .ok());
  FunctionBody body = instantiate("f", {{"T", DType::kDouble}}).value_or_throw();
  EXPECT_EQ(names(body.args), (std::vector<std::string>{"x", "ys_0", "ys_1"}));
  EXPECT_EQ(body.args[2]->attr<std::int64_t>("index"), 2);
  ASSERT_EQ(body.retvals.size(), 2u);
  Node* sum = body.graph->find("sum");
  Node* halves = body.graph->find("halves");
  EXPECT_EQ(sum->input(0), halves->output(0));
  EXPECT_EQ(sum->input(1), halves->output(1));
  EXPECT_EQ(sum->input(2).node, body.args[2]);
  EXPECT_EQ(sum->input(3).node, body.args[0]);
  EXPECT_EQ(halves->input(0).node, body.args[1]);
  EXPECT_EQ(sum->output().dtype(), DType::kDouble);
  EXPECT_EQ(body.retvals[0]->input(0), sum->output());
  EXPECT_EQ(body.retvals[1]->input(0), halves->output(1));
  EXPECT_TRUE(body.targets.empty());
  EXPECT_EQ(&body.graph->library(), library_.get());

  EXPECT_EQ(instantiate("f").status().message(), "function \"f\": attribute T of kind type is missing");
  EXPECT_EQ(instantiate("f", {{"T", DType::kFloat}, {"n", 1}}).status().message(),
            "function \"f\": AddN \"sum\": input 1 \"ys:1\": there are 1 tensors, no number 1");
  EXPECT_EQ(instantiate("nothing").status().code(), Code::kNotFound);
}

TEST_F(FunctionTest, EffectsAreTargets) {
  const std::string signature = "signature { name: '%' input_arg { name: 'v' type: DT_RESOURCE } }";
  const std::string nodes = R"(
      node_def { name: 'one' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } }
                 attr { key: 'value' value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
      node_def { name: 'write' op: 'AssignVariableOp' input: 'v' input: 'one:output:0'
                 attr { key: 'dtype' value { type: DT_FLOAT } } }
      node_def { name: 'done' op: 'NoOp' input: '^write' })";
  const std::string unfed =
      "node_def { name: 'unfed' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }";
  auto named = [&](std::string name) { return std::string(signature).replace(signature.find('%'), 1, name); };
  ASSERT_TRUE(add_function(named("with_placeholder") + nodes + unfed).ok());
  EXPECT_EQ(names(instantiate("with_placeholder").value_or_throw().targets), std::vector<std::string>{"write"});
  ASSERT_TRUE(add_function(named("all") + nodes).ok());
  EXPECT_EQ(names(instantiate("all").value_or_throw().targets), std::vector<std::string>{"write"});
  ASSERT_TRUE(add_function(named("listed") + nodes + "control_ret { key: 'c' value: 'done' }").ok());
  EXPECT_EQ(names(instantiate("listed").value_or_throw().targets), std::vector<std::string>{"done"});
  ASSERT_TRUE(add_function(named("wrong") + nodes + "control_ret { key: 'c' value: 'gone' }").ok());
  EXPECT_EQ(instantiate("wrong").status().message(),
            "function \"wrong\": control result \"c\" is \"gone\", and there is no such node");
}

TEST_F(FunctionTest, ArgumentsAreDescribed) {
  ASSERT_TRUE(add_function(R"(
      signature { name: 'f' input_arg { name: 'x' type: DT_FLOAT }
                  input_arg { name: 'v' type: DT_RESOURCE
                              handle_data { dtype: DT_FLOAT shape { dim { size: 4 } } } } }
      node_def { name: 'read' op: 'ReadVariableOp' input: 'v' attr { key: 'dtype' value { type: DT_FLOAT } } }
      node_def { name: 'sum' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } }
      arg_attr { key: 0 value { attr { key: '_output_shapes' value { list { shape { dim { size: 3 } } } } } } })")
                  .ok());
  FunctionBody body = instantiate("f").value_or_throw();
  EXPECT_EQ(body.args[0]->output_shape(0), (PartialShape{3}));
  EXPECT_EQ(body.graph->find("sum")->output_shape(0), (PartialShape{3}));
  EXPECT_EQ(body.graph->find("read")->output_shape(0), (PartialShape{4}));
}

TEST_F(FunctionTest, BadBodiesAreNamed) {
  struct Case {
    std::string text;
    std::string message;
  };
  const std::string head =
      "signature { name: 'f' input_arg { name: 'x' type: DT_FLOAT } "
      "output_arg { name: 'y' type: DT_FLOAT } } ";
  const std::string neg = "node_def { name: 'n' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_FLOAT } } } ";
  const Case cases[] = {
      {head, "function \"f\": result \"y\": the definition does not say what it is"},
      {head + "ret { key: 'y' value: 'gone' }", "result \"y\": there is no node \"gone\""},
      {head + neg + "ret { key: 'y' value: 'n:z:0' }", "Neg \"n\" has no output called \"z\""},
      {head + neg + "ret { key: 'y' value: 'n:y:1' }", "there are 1 tensors, no number 1"},
      {head + neg + neg + "ret { key: 'y' value: 'n:y:0' }", "node name \"n\" is used twice"},
      {head + "node_def { name: 'x' op: 'NoOp' } ret { key: 'y' value: 'x' }", "node name \"x\" is used twice"},
      {head + "node_def { name: 'n' op: 'Nope' }", "unknown op \"Nope\""},
      {head + "node_def { name: 'n' op: 'Neg' input: 'x' attr { key: 'T' value { placeholder: 'U' } } }",
       "Neg \"n\": attribute T: the function has no attribute \"U\""},
      {head + "node_def { name: 'c' op: 'Cast' input: 'x' attr { key: 'DstT' value { type: DT_INT32 } } } "
              "ret { key: 'y' value: 'c:y:0' }",
       "result \"y\": _Retval \"y_retval\": input 0 must be float, got int32 from \"c:0\""},
  };
  for (const Case& bad : cases) {
    library_ = std::make_shared<FunctionLibrary>();
    ASSERT_TRUE(add_function(bad.text).ok()) << bad.text;
    Status status = instantiate("f").status();
    EXPECT_NE(status.message().find(bad.message), std::string::npos) << status.message();
    EXPECT_EQ(status.message().find("function \"f\": "), 0u);
  }
}

TEST_F(FunctionTest, BuiltBodiesRoundTrip) {
  Graph outer(test_ops(), library_);
  FunctionBody body = make_function_body(outer, {DType::kFloat, DType::kResource}, {PartialShape{2, -1}});
  Graph& graph = *body.graph;
  Output x = body.args[0]->output();
  EXPECT_EQ(x.shape(), (PartialShape{2, -1}));
  graph.set_attr(*body.args[1], "_handle_shapes", std::vector<PartialShape>{{5}});
  graph.set_attr(*body.args[1], "_handle_dtypes", std::vector<DType>{DType::kFloat});
  Node* split = add(graph, "Split", {x}, {{"num_split", 2}}, "scope/split");
  Node* write = add(graph, "AssignVariableOp", {body.args[1]->output(), split->output(1)}, {}, "write");
  Node* after = add(graph, "Neg", {split->output(0)}, {}, "arg0_1");  // as an argument might be called
  graph.add_control_input(*after, *write);
  graph.add_control_input(*after, *body.args[0]);
  Node* done = add(graph, "NoOp", {}, {}, "done");
  body.targets = {done};
  set_results(body, {after->output(), split->output(1), x});
  ASSERT_TRUE(library_->add("f", body).ok());
  EXPECT_TRUE(library_->signature("f")->has(kStateful));

  FunctionBody back = instantiate("f").value_or_throw();
  ASSERT_EQ(back.args.size(), 2u);
  ASSERT_EQ(back.retvals.size(), 3u);
  Node* again = back.graph->find("scope/split");
  EXPECT_EQ(again->input(0).node, back.args[0]);
  EXPECT_EQ(back.retvals[0]->input(0).node->name(), "arg0_1");
  EXPECT_EQ(back.retvals[1]->input(0), again->output(1));
  EXPECT_EQ(back.retvals[2]->input(0).node, back.args[0]);
  EXPECT_EQ(testing::names(back.targets), (std::vector<std::string>{"write", "done"}));
  ASSERT_EQ(back.retvals[0]->input(0).node->control_inputs().size(), 1u);
  EXPECT_EQ(back.retvals[0]->input(0).node->control_inputs()[0]->name(), "write");
  EXPECT_EQ(back.args[0]->output_shape(0), (PartialShape{2, -1}));
  EXPECT_EQ(back.args[1]->attr<std::vector<PartialShape>>("_handle_shapes").front(), (PartialShape{5}));
}

TEST_F(FunctionTest, ResultsOfAnotherGraphAreRefused) {
  Graph outer(test_ops(), library_);
  FunctionBody body = make_function_body(outer, {});
  EXPECT_THROW(set_results(body, {constant(outer, Tensor::scalar(1.0f))}), Error);
  EXPECT_THROW(set_results(body, {Output()}), Error);
}

}  // namespace tutti::function_test
