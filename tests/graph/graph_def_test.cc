#include "tutti/graph/graph_def.h"

#include <gtest/gtest.h>

#include "proto/graph.pb.h"
#include "tests/graph/test_ops.h"
#include "tutti/graph/function.h"
#include "tutti/graph/subgraph.h"

namespace tutti::graph_def_test {

using testing::graph_def_bytes;
using testing::test_ops;

const char kAttrT[] = "attr { key: 'T' value { type: DT_FLOAT } }";
const char kPlaceholder[] =
    "op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } "
    "attr { key: 'shape' value { shape { dim { size: 2 } } } }";

class GraphDefTest : public ::testing::Test {
 protected:
  Status import(const std::string& text, const ImportOptions& options = {}) {
    return import_graph_def(graph_def_bytes(text), graph_, options);
  }
  std::string round_trip(const std::string& bytes) {
    Graph graph(test_ops());
    throw_if_error(import_graph_def(bytes, graph));
    return export_graph_def(graph);
  }
  Graph graph_{test_ops()};
};

TEST_F(GraphDefTest, ImportsInAnyOrder) {
  ASSERT_TRUE(import(str_cat("node { name: 'c' op: 'Add' input: 'b' input: 'a:0' input: '^n' ", kAttrT, "}",
                             "node { name: 'b' op: 'Neg' input: 'a' device: '/device:CPU:0' ", kAttrT, "}",
                             "node { name: 'n' op: 'NoOp' }", "node { name: 'a' ", kPlaceholder, "}"))
                  .ok());
  Node* c = graph_.find("c");
  EXPECT_EQ(c->input(0).node, graph_.find("b"));
  EXPECT_EQ(c->input(1).node, graph_.find("a"));
  EXPECT_EQ(c->control_inputs()[0], graph_.find("n"));
  EXPECT_EQ(c->output_shape(0), (PartialShape{2}));
  EXPECT_EQ(graph_.find("b")->requested_device(), "/device:CPU:0");
}

TEST_F(GraphDefTest, ImportsUnderAPrefix) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "} node { name: 'b' op: 'Neg' input: 'a' ", kAttrT,
                             "attr { key: '_class' value { list { s: 'loc:@a' s: 'other' } } } }"),
                     {.prefix = "in"})
                  .ok());
  Node* b = graph_.find("in/b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->input(0).node, graph_.find("in/a"));
  EXPECT_EQ(b->attr<std::vector<std::string>>("_class"), (std::vector<std::string>{"loc:@in/a", "other"}));
  EXPECT_EQ(import("", {.prefix = "a b"}).code(), Code::kInvalidArgument);
}

TEST_F(GraphDefTest, ExtendsAGraph) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "}")).ok());
  ASSERT_TRUE(import(str_cat("node { name: 'b' op: 'Neg' input: 'a' ", kAttrT, "}")).ok());
  EXPECT_EQ(graph_.find("b")->input(0).node, graph_.find("a"));
}

TEST_F(GraphDefTest, WhatIsNotAcceptedIsTakenBack) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "}")).ok());
  const std::string more = str_cat("node { name: 'b' op: 'Neg' input: 'a' ", kAttrT, "}");
  ImportOptions refusing;
  refusing.accept = [](Graph& graph) { return invalid_argument(graph.num_nodes(), " are too many"); };
  EXPECT_EQ(import(more, refusing), invalid_argument("2 are too many"));
  EXPECT_EQ(graph_.num_nodes(), 1);
  EXPECT_EQ(graph_.find("b"), nullptr);
  ASSERT_TRUE(import(more, {.accept = [](Graph&) { return Status(); }}).ok());
  EXPECT_NE(graph_.find("b"), nullptr);
}

TEST_F(GraphDefTest, ExportsWhatWasAddedLater) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "}")).ok());
  Graph other(test_ops());
  ASSERT_TRUE(import_graph_def(export_graph_def(graph_), other).ok());
  const int sent = graph_.id_limit();
  ASSERT_TRUE(import(str_cat("node { name: 'b' op: 'Neg' input: 'a' ", kAttrT, "}")).ok());
  ASSERT_TRUE(import_graph_def(export_graph_def(graph_, sent), other).ok());
  EXPECT_EQ(export_graph_def(other), export_graph_def(graph_));
}

TEST_F(GraphDefTest, ImportsLoops) {
  const std::string text =
      str_cat("node { name: 'a' ", kPlaceholder, "}", "node { name: 'merge' op: 'Merge' input: 'enter' input: 'next' ",
              kAttrT, "attr { key: 'N' value { i: 2 } } }", "node { name: 'enter' op: 'Enter' input: 'a' ", kAttrT,
              "attr { key: 'frame_name' value { s: 'f' } } }", "node { name: 'body' op: 'Neg' input: 'merge' ", kAttrT,
              "}", "node { name: 'next' op: 'NextIteration' input: 'body' ", kAttrT, "}");
  ASSERT_TRUE(import(text).ok());
  EXPECT_EQ(graph_.find("merge")->input(1).node, graph_.find("next"));
  EXPECT_FALSE(graph_.find("merge")->output_shape(0).has_rank());
  EXPECT_TRUE(graph_.topological_order().ok());
}

TEST_F(GraphDefTest, RoundTripKeepsEverything) {
  tensorflow::GraphDef def;
  ASSERT_TRUE(def.ParseFromString(graph_def_bytes(
      str_cat("versions { producer: 1882 min_consumer: 12 } "
              "node { name: 'a' ",
              kPlaceholder, "attr { key: '_note' value { s: 'n' } } }",
              "node { name: 's' op: 'Const' attr { key: 'dtype' value { type: DT_INT32 } }"
              "  attr { key: 'value' value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 name: 'd' } }"
              "  int_val: 2 int_val: 2 version_number: 7 } } } }",
              "node { name: 'r' op: 'Reshape' input: 'a' input: 's' ", kAttrT, "}",
              "node { name: 'b' op: 'MatMul' input: 'r:0' input: 'r' input: '^a' device: '/job:ps' ", kAttrT,
              "  attr { key: 'grad_a' value { b: true } } attr { key: '_unset' value { } }"
              "  experimental_debug_info { original_node_names: 'x' } experimental_type { type_id: TFT_PRODUCT } }",
              "library { function { signature { name: 'f' } } gradient { function_name: 'f' gradient_func: 'g' }"
              "  gradient { function_name: 'elsewhere' gradient_func: 'h' }"
              "  registered_gradients { gradient_func: 'g' registered_op_type: 'F' } }"))));
  // A large tensor, and fields that we have never heard of, on every level.
  tensorflow::NodeDef* large = def.add_node();
  large->set_name("large");
  large->set_op("Const");
  (*large->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  tensorflow::TensorProto* tensor = (*large->mutable_attr())["value"].mutable_tensor();
  tensor->set_dtype(tensorflow::DT_FLOAT);
  tensor->mutable_tensor_shape()->add_dim()->set_size(100);
  tensor->mutable_tensor_shape()->mutable_dim(0)->set_name("rows");
  tensor->set_tensor_content(std::string(400, 'x'));
  tensor->set_version_number(3);
  auto mark = [](google::protobuf::Message* message, int field) {
    message->GetReflection()->MutableUnknownFields(message)->AddLengthDelimited(field, "unknown");
  };
  mark(&def, 500);
  mark(large, 501);
  mark(tensor, 502);
  mark(def.mutable_node(0), 503);
  mark(def.mutable_library(), 504);
  mark(def.mutable_library()->mutable_function(0), 505);
  mark(&(*def.mutable_node(0)->mutable_attr())["dtype"], 506);

  tensorflow::GraphDef back;
  ASSERT_TRUE(back.ParseFromString(round_trip(def.SerializeAsString())));
  // Functions' gradients come in the order of functions, those of others first.
  def.mutable_library()->mutable_gradient()->SwapElements(0, 1);
  EXPECT_EQ(back.DebugString(), def.DebugString());
}

TEST_F(GraphDefTest, ExportWritesWhatChanged) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "} node { name: 'b' op: 'Neg' input: 'a' ", kAttrT,
                             "} node { name: 'c' op: 'Neg' input: 'b' ", kAttrT, "}"))
                  .ok());
  ASSERT_TRUE(graph_.set_input(*graph_.find("c"), 0, graph_.find("a")->output()).ok());
  graph_.set_attr(*graph_.find("a"), "shape", PartialShape{3});
  graph_.remove(*graph_.find("b"));
  testing::add(graph_, "MatMul", {testing::placeholder(graph_, DType::kFloat, {1, 1}, "x"), *graph_.find_output("x")},
               {}, "m");
  const std::string text = graph_def_text(graph_);
  EXPECT_NE(text.find("input: \"a\""), std::string::npos);
  EXPECT_EQ(text.find("input: \"b\""), std::string::npos);
  EXPECT_NE(text.find("size: 3"), std::string::npos);
  EXPECT_NE(text.find("transpose_a"), std::string::npos);
  Graph again(test_ops());
  ASSERT_TRUE(import_graph_def(export_graph_def(graph_), again).ok());
  EXPECT_EQ(export_graph_def(again), export_graph_def(graph_));
}

TEST_F(GraphDefTest, NodesOfUnknownOpsAreKeptForOtherSteps) {
  const std::string text = str_cat(
      "node { name: 'a' ", kPlaceholder,
      "} node { name: 'x' op: 'Nope' input: 'a' input: '^a' device: '/gpu:3' "
      "attr { key: 'mode' value { s: 'fast' } } attr { key: '_class' value { list { s: 'loc:@a' } } } } "
      "node { name: 'y' op: 'Neg' input: 'x:2' ",
      kAttrT, "} node { name: 'z' op: 'Neg' input: 'a' input: '^b' ", kAttrT, "} node { name: 'b' op: 'NoOp' }");
  ASSERT_TRUE(import(text).ok());
  const Node& unknown = *graph_.find("x");
  EXPECT_EQ(unknown.num_outputs(), 3);
  EXPECT_EQ(unknown.output_types()[2].dtype, DType::kFloat);
  EXPECT_FALSE(unknown.output_shape(2).has_rank());
  // Later nodes may read other outputs.
  ASSERT_TRUE(import(str_cat("node { name: 'later' op: 'Neg' input: 'x:4' ", kAttrT, "}")).ok());
  EXPECT_EQ(unknown.num_outputs(), 5);
  EXPECT_TRUE(extract_subgraph(graph_, {.fetches = {"z:0"}}).ok());
  EXPECT_TRUE(extract_subgraph(graph_, {.feeds = {"x:2"}, .fetches = {"y:0"}}).ok());
  const Status expected = not_found("node \"x\": unknown op \"Nope\"");
  EXPECT_EQ(extract_subgraph(graph_, {.fetches = {"y:0"}}).status(), expected);
  EXPECT_EQ(extract_subgraph(graph_, {.targets = {"later"}}).status(), expected);
  EXPECT_EQ(extract_subgraph(graph_, {.targets = {"x"}}).status(), expected);
  EXPECT_EQ(extract_subgraph(graph_, {.fetches = {"x:9"}}).status().code(), Code::kNotFound);
  // It leaves as it came.
  Graph again(test_ops());
  ASSERT_TRUE(import_graph_def(export_graph_def(graph_), again).ok());
  EXPECT_EQ(export_graph_def(again), export_graph_def(graph_));
  EXPECT_NE(graph_def_text(graph_).find("fast"), std::string::npos);
}

TEST_F(GraphDefTest, BadInputIsNamedAndLeavesNothing) {
  ASSERT_TRUE(import(str_cat("node { name: 'keep' ", kPlaceholder, "}")).ok());
  const std::string a = str_cat("node { name: 'a' ", kPlaceholder, "}");
  struct Case {
    std::string text;
    Code code;
    std::string message;
  };
  const Case cases[] = {
      {str_cat("node { name: 'x' op: 'Nope' } node { name: 'y' op: 'Neg' input: 'x:1024' ", kAttrT, "}"),
       Code::kInvalidArgument, "Neg \"y\": input 0 \"x:1024\": there is no output 1024"},
      {str_cat("node { name: 'x' op: 'Nope' } node { name: 'y' op: 'Neg' input: 'x' ", kAttrT,
               "} node { name: 'z' op: 'Neg' input: 'x' attr { key: 'T' value { type: DT_INT32 } } }"),
       Code::kInvalidArgument, "Neg \"z\": input 0 must be int32, got float from \"x:0\""},
      {a + a, Code::kInvalidArgument, "node name \"a\" is used twice"},
      {"node { name: 'keep' op: 'NoOp' }", Code::kInvalidArgument, "node name \"keep\" is used twice"},
      {"node { name: 'x y' op: 'NoOp' }", Code::kInvalidArgument, "node name \"x y\" must match"},
      {"node { op: 'NoOp' }", Code::kInvalidArgument, "a node has no name"},
      {"node { name: '\\xff\\xfe' op: 'NoOp' }", Code::kInvalidArgument, "node name \"\\xff\\xfe\""},
      {a + "node { name: 'x' op: 'Neg' input: 'y' }", Code::kInvalidArgument,
       "Neg \"x\": input 0 is \"y\", and there is no such node"},
      {a + "node { name: 'x' op: 'Neg' input: 'a:1' }", Code::kInvalidArgument,
       "Neg \"x\": input 0 \"a:1\": there are 1 tensors, no number 1"},
      {a + "node { name: 'x' op: 'Neg' input: 'a:z' }", Code::kInvalidArgument, "\"z\" is no number"},
      {a + "node { name: 'x' op: 'Add' input: 'a' " + kAttrT + "}", Code::kInvalidArgument,
       "Add \"x\": takes 2 inputs, got 1"},
      {a + "node { name: 'x' op: 'NoOp' input: 'a' }", Code::kInvalidArgument, "NoOp \"x\": takes 0 inputs, got 1"},
      {a + "node { name: 'x' op: 'Neg' input: '^a' input: 'a' }", Code::kInvalidArgument,
       "input 1 \"a\" comes after a control input"},
      {a + "node { name: 'x' op: 'Neg' input: 'a' attr { key: 'T' value { type: DT_INT32 } } }", Code::kInvalidArgument,
       "Neg \"x\": input 0 must be int32, got float from \"a:0\""},
      {a + "node { name: 'x' op: 'Neg' input: 'a' attr { key: 'T' value { i: 5 } } }", Code::kInvalidArgument,
       "Neg \"x\": attribute T must be of kind type, got int 5"},
      {a + "node { name: 'x' op: 'Neg' input: 'a' attr { key: 'T' value { placeholder: 'U' } } }",
       Code::kInvalidArgument, "got placeholder $U"},
      {a + "node { name: 'x' op: 'Neg' input: 'a' attr { key: 'T' value { type: DT_STRING } } }",
       Code::kInvalidArgument, "attribute T is string, must be one of"},
      {"node { name: 'x' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } }", Code::kInvalidArgument,
       "Const \"x\": attribute value of kind tensor is missing"},
      {"node { name: 'x' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value { "
       "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 1000000000000 } } } } } }",
       Code::kResourceExhausted, "Const \"x\": attribute value: a tensor float [1000000000000]"},
      {a + "node { name: 'm' op: 'MatMul' input: 'a' input: 'a' " + kAttrT + "}", Code::kInvalidArgument,
       "MatMul \"m\": input 0 must have rank 2, got shape [2] (input shapes: [2], [2])"},
      {a + "node { name: 'x' op: 'Neg' input: 'y' " + kAttrT + "} node { name: 'y' op: 'Neg' input: 'x' " + kAttrT +
           "}",
       Code::kInvalidArgument, "the node is on a cycle"},
      {"node { name: 'x' op: 'NoOp' input: '^x' }", Code::kInvalidArgument, "NoOp \"x\": the node is on a cycle"},
      {"versions { producer: 2600 min_consumer: 2475 }", Code::kInvalidArgument,
       "consumer of version 2475 or later (made with 2600), this is 2474"},
      {"library { function { signature { } } }", Code::kInvalidArgument, "a function without a name"},
      {"library { function { signature { name: 'f' } } } node { name: 'x' op: 'NoOp' input: 'y' }",
       Code::kInvalidArgument, "there is no such node"},
  };
  const std::string before = export_graph_def(graph_);
  for (const Case& bad : cases) {
    Status status = import(bad.text);
    EXPECT_EQ(status.code(), bad.code) << bad.text;
    EXPECT_NE(status.message().find(bad.message), std::string::npos) << status.message();
    EXPECT_EQ(export_graph_def(graph_), before) << bad.text;
    EXPECT_EQ(graph_.num_nodes(), 1);
    EXPECT_EQ(graph_.id_limit(), 1);
    EXPECT_TRUE(graph_.library().names().empty());
  }
}

TEST_F(GraphDefTest, HugeNameGivesAShortMessage) {
  tensorflow::GraphDef def;
  def.add_node()->set_name(std::string(100 << 20, 'n'));
  def.mutable_node(0)->set_op("NoOp");
  Status status = import_graph_def(def.SerializeAsString(), graph_);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("104857600 bytes"), std::string::npos);
  EXPECT_LT(status.message().size(), 300u);
  def.mutable_node(0)->set_name("n");
  def.mutable_node(0)->set_op(std::string(100 << 20, 'o'));
  EXPECT_LT(import_graph_def(def.SerializeAsString(), graph_).message().size(), 600u);
}

TEST_F(GraphDefTest, TruncatedBytesAreRefusedOrAWholePart) {
  const std::string bytes = graph_def_bytes(
      str_cat("node { name: 'a' ", kPlaceholder, "} node { name: 'b' op: 'Neg' input: 'a' ", kAttrT, "}"));
  int refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    Graph graph(test_ops());
    Status status = import_graph_def(std::string_view(bytes).substr(0, size), graph);
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(graph.num_nodes(), 0);
  }
  EXPECT_EQ(refused, static_cast<int>(bytes.size()) - 2);  // all but nothing, and the first node alone
  EXPECT_NE(import_graph_def("garbage!", graph_).message().find("GraphDef of 8 bytes is cut short or malformed"),
            std::string::npos);
}

TEST_F(GraphDefTest, LongChainInReverse) {
  constexpr int kLength = 100'000;
  tensorflow::GraphDef def;
  for (int i = kLength; i > 0; --i) {
    tensorflow::NodeDef* node = def.add_node();
    node->set_name(str_cat("n", i));
    node->set_op("Neg");
    node->add_input(str_cat("n", i - 1));
  }
  def.add_node()->set_name("n0");
  def.mutable_node(kLength)->set_op("Placeholder");
  (*def.mutable_node(kLength)->mutable_attr())["dtype"].set_type(tensorflow::DT_FLOAT);
  ASSERT_TRUE(import_graph_def(def.SerializeAsString(), graph_).ok());
  EXPECT_EQ(graph_.num_nodes(), kLength + 1);
  std::vector<Node*> order = graph_.topological_order().value_or_throw();
  EXPECT_EQ(order.front()->name(), "n0");
  EXPECT_EQ(order.back()->name(), str_cat("n", kLength));
  Graph again(test_ops());
  EXPECT_TRUE(import_graph_def(export_graph_def(graph_), again).ok());
}

TEST_F(GraphDefTest, NodesCallFunctionsByName) {
  ASSERT_TRUE(import(str_cat("node { name: 'a' ", kPlaceholder, "} node { name: 'call' op: 'twice' input: 'a' }",
                             "library { function { signature { name: 'twice' input_arg { name: 'x' type: DT_FLOAT }"
                             "  output_arg { name: 'y' type: DT_FLOAT } } node_def { name: 'n' op: 'Neg' input: 'x' ",
                             kAttrT, "} ret { key: 'y' value: 'n:y:0' } } }"))
                  .ok());
  EXPECT_EQ(graph_.find("call")->op_name(), "twice");
  EXPECT_EQ(graph_.find("call")->output().dtype(), DType::kFloat);
  // The library may come again, but not changed.
  EXPECT_TRUE(import_graph_def(export_graph_def(Graph(test_ops(), graph_.shared_library())), graph_).ok());
  EXPECT_EQ(import("library { function { signature { name: 'twice' } } }").code(), Code::kAlreadyExists);
}

TEST_F(GraphDefTest, AnnotationsNeedNotBeUnderstood) {
  EXPECT_TRUE(import("node { name: 'a' op: 'NoOp' attr { key: '_x' value { type: 77 } } "
                     "attr { key: 'newer' value { shape { dim { size: -9 } } } } }")
                  .ok());
  EXPECT_EQ(graph_.find("a")->find_attr("_x"), nullptr);
  EXPECT_NE(graph_def_text(graph_).find("newer"), std::string::npos);
}

TEST_F(GraphDefTest, TextIsRecognised) {
  const Status status = import_graph_def("node {\n  name: \"a\"\n  op: \"NoOp\"\n}\n", graph_);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("is text, as in a .pbtxt file"), std::string::npos) << status.message();
}

}  // namespace tutti::graph_def_test
