// What a session says to graphs and feeds that make no sense: always an error that names the node and the values.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

#include "tutti/graph/graph_def.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
#include "tutti/runtime/local_session.h"

namespace tutti::bad_input_test {

// GraphDefs are written by hand here: field 1 of GraphDef is a node; of a node, 1 is its name, 2 its op, 3 an input.
std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  for (std::size_t n = bytes.size();; n >>= 7) {
    if (n < 128) {
      out += static_cast<char>(n);
      break;
    }
    out += static_cast<char>((n & 127) | 128);
  }
  return out + bytes;
}

// An attribute entry: 1 is its name, 2 its value.
std::string attr(const std::string& name, const std::string& value) {
  return field(5, field(1, name) + field(2, value));
}
std::string type_attr(const std::string& name, int dtype) {
  return attr(name, std::string("\x30") + static_cast<char>(dtype));
}

std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs = {},
                 const std::string& attrs = "") {
  std::string def = field(1, name) + field(2, op);
  for (const std::string& input : inputs) def += field(3, input);
  return field(1, def + attrs);
}

const std::string kFloatT = type_attr("T", 1);
const std::string kPlaceholderAttrs = type_attr("dtype", 1);

Status import(const std::string& bytes) {
  Graph graph(builtin_ops());
  Status status = import_graph_def(bytes, graph);
  if (!status.ok()) {
    EXPECT_EQ(graph.num_nodes(), 0) << "a failed import must leave the graph as it was";
  }
  return status;
}

void expect_error(const Status& status, Code code, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status.to_string();
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << "no \"" << part << "\" in: " << status.message();
  }
  EXPECT_LT(status.message().size(), 2000u);
}

template <typename Call>
Status status_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

TEST(BadInput, HandWrittenGraphsAreRead) {
  Graph graph(builtin_ops());
  Status status =
      import_graph_def(node("y", "Neg", {"x"}, kFloatT) + node("x", "Placeholder", {}, kPlaceholderAttrs), graph);
  ASSERT_TRUE(status.ok()) << status.to_string();
  LocalSession session(graph);
  EXPECT_EQ(session.run({{"x:0", Tensor::scalar(2.0f)}}, {"y:0"})[0].scalar<float>(), -2.0f);
}

TEST(BadInput, Cycle) {
  expect_error(import(node("a", "Neg", {"b"}, kFloatT) + node("b", "Neg", {"a"}, kFloatT)), Code::kInvalidArgument,
               {"Neg \"a\"", "cycle"});
}

TEST(BadInput, UnknownOp) {
  Graph graph(builtin_ops());
  throw_if_error(import_graph_def(
      node("unheard_of", "FrobnicateV9") + node("fine", "NoOp") + node("after", "NoOp", {"^unheard_of"}), graph));
  LocalSession session(graph);
  EXPECT_TRUE(session.try_run({}, {}, {"fine"}).ok());
  for (const std::string target : {"unheard_of", "after"}) {
    expect_error(session.try_run({}, {}, {target}).status(), Code::kNotFound, {"FrobnicateV9", "\"unheard_of\""});
  }
}

TEST(BadInput, WrongType) {
  const std::string bytes =
      node("x", "Placeholder", {}, kPlaceholderAttrs) + node("y", "Neg", {"x"}, type_attr("T", 3));
  expect_error(import(bytes), Code::kInvalidArgument, {"\"y\"", "float", "int32"});
}

TEST(BadInput, WrongArity) {
  const std::string x = node("x", "Placeholder", {}, kPlaceholderAttrs);
  expect_error(import(x + node("y", "MatMul", {"x"}, kFloatT)), Code::kInvalidArgument,
               {"MatMul \"y\"", "takes 2 inputs, got 1"});
  expect_error(import(x + node("y", "Neg", {"x", "x"}, kFloatT)), Code::kInvalidArgument,
               {"Neg \"y\"", "takes 1 inputs, got 2"});
}

TEST(BadInput, MissingInputAndOutput) {
  expect_error(import(node("y", "Neg", {"nowhere"}, kFloatT)), Code::kInvalidArgument, {"\"y\"", "nowhere"});
  const std::string x = node("x", "Placeholder", {}, kPlaceholderAttrs);
  expect_error(import(x + node("y", "Neg", {"x:3"}, kFloatT)), Code::kInvalidArgument, {"\"y\"", "x:3"});
}

TEST(BadInput, DuplicateName) {
  const std::string x = node("x", "Placeholder", {}, kPlaceholderAttrs);
  Status status = import(x + x);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("\"x\""), std::string::npos) << status.message();
}

TEST(BadInput, AttributeOfTheWrongKind) {
  const std::string integer_for_type = attr("T", std::string("\x18\x05", 2));
  const std::string bytes = node("x", "Placeholder", {}, kPlaceholderAttrs) + node("y", "Neg", {"x"}, integer_for_type);
  expect_error(import(bytes), Code::kInvalidArgument, {"\"y\"", "T", "type", "int"});
}

TEST(BadInput, MissingAttribute) {
  expect_error(import(node("x", "Placeholder")), Code::kInvalidArgument, {"\"x\"", "dtype"});
}

TEST(BadInput, ImpossibleShapes) {
  Graph graph(builtin_ops());
  Output a = placeholder(graph, DType::kFloat, {2, 3}, "a");
  Output b = placeholder(graph, DType::kFloat, {4, 5}, "b");
  expect_error(status_of([&] { matmul(a, b, {}, "product"); }), Code::kInvalidArgument,
               {"MatMul \"product\"", "[2,3]", "[4,5]"});
  expect_error(status_of([&] { add(a, b, "sum"); }), Code::kInvalidArgument, {"\"sum\"", "[2,3]", "[4,5]"});
}

TEST(BadInput, ShapesThatOnlyTheStepKnows) {
  Graph graph(builtin_ops());
  Output a = placeholder(graph, DType::kFloat, PartialShape::unknown(), "a");
  Output b = placeholder(graph, DType::kFloat, PartialShape::unknown(), "b");
  Node* product = matmul(a, b).node;
  LocalSession session(graph);
  auto out =
      session.try_run({{a, Tensor(DType::kFloat, {2, 3})}, {b, Tensor(DType::kFloat, {4, 5})}}, {product->output()});
  expect_error(out.status(), Code::kInvalidArgument, {product->name(), "[2,3]", "[4,5]"});
}

TEST(BadInput, NonUtf8AndHugeNames) {
  expect_error(import(node("\xff\xfe", "NoOp")), Code::kInvalidArgument, {"\\xff"});
  const std::string huge(100 << 20, 'n');
  EXPECT_FALSE(import(node("x", "Neg", {huge}, kFloatT)).ok());
  expect_error(import(node(huge, "NoOp")), Code::kInvalidArgument, {"nnnn", "104857600 bytes"});
  Graph graph(builtin_ops());
  LocalSession session(graph);
  expect_error(session.try_run({}, {}, {huge}).status(), Code::kNotFound, {"nnnn"});
}

TEST(BadInput, TruncatedGraph) {
  const std::string whole = node("x", "Placeholder", {}, kPlaceholderAttrs) + node("y", "Neg", {"x"}, kFloatT);
  int refused = 0;
  for (std::size_t size = 1; size < whole.size(); ++size) refused += !import(whole.substr(0, size)).ok();
  EXPECT_GE(refused, static_cast<int>(whole.size()) - 3) << "only a cut between two nodes leaves a graph";
}

TEST(BadInput, AVeryLongChain) {
  std::string bytes = node("n0", "Placeholder", {}, kPlaceholderAttrs);
  constexpr int kNodes = 100000;
  for (int i = 1; i <= kNodes; ++i)
    bytes += node("n" + std::to_string(i), "Neg", {"n" + std::to_string(i - 1)}, kFloatT);
  Graph graph(builtin_ops());
  ASSERT_TRUE(import_graph_def(bytes, graph).ok());
  LocalSession session(graph);
  EXPECT_EQ(session.run({{"n0:0", Tensor::scalar(3.0f)}}, {"n100000:0"})[0].scalar<float>(), 3.0f);
}

TEST(BadInput, UninitialisedVariables) {
  Graph graph(builtin_ops());
  Output ref =
      add_op(graph, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "old_style")->output();
  Output value = identity(ref);
  Var w = variable(graph, Tensor::scalar(1.0f), "new_style");
  LocalSession session(graph);
  expect_error(session.try_run({}, {value}).status(), Code::kFailedPrecondition,
               {"Attempting to use uninitialized value old_style"});
  expect_error(session.try_run({}, {ref}).status(), Code::kFailedPrecondition, {"old_style"});
  expect_error(session.try_run({}, {w}).status(), Code::kFailedPrecondition, {"new_style", "uninitialized"});
}

TEST(BadInput, LabelsOutOfRange) {
  Graph graph(builtin_ops());
  Output labels = placeholder(graph, DType::kInt64, {-1}, "labels");
  Output loss = nn::sparse_softmax_cross_entropy_with_logits(labels, zeros(graph, DType::kFloat, {1, 10}));
  LocalSession session(graph);
  expect_error(session.try_run({{labels, Tensor::vector<std::int64_t>({11})}}, {loss}).status(), Code::kInvalidArgument,
               {"11", "[0, 10)"});
}

// Nothing was learnt: the mean of no losses is no number, and the gradients are sums of nothing.
TEST(BadInput, ABatchOfNothingChangesNothing) {
  Graph graph(builtin_ops());
  const Output x = placeholder(graph, DType::kFloat, {-1, 4}, "x");
  const Output labels = placeholder(graph, DType::kInt64, {-1}, "labels");
  const Var w = variable(graph, ones(graph, DType::kFloat, {4, 3}), "w");
  const Var b = variable(graph, ones(graph, DType::kFloat, {3}), "b");
  const Output logits = nn::relu(nn::bias_add(matmul(x, w), b));
  const Output loss = reduce_mean(nn::sparse_softmax_cross_entropy_with_logits(labels, logits));
  Node* train = Adam(0.1).minimize(loss);
  Node* init = global_variables_initializer(graph);
  LocalSession session(graph);
  session.run({init});
  const auto step = [&](std::int64_t batch) {
    Tensor examples(DType::kFloat, {batch, 4}), classes(DType::kInt64, {batch});
    std::ranges::fill(examples.flat<float>(), 1.0f);
    std::ranges::fill(classes.flat<std::int64_t>(), 2);
    return session.run({{x, examples}, {labels, classes}}, {loss}, {train})[0].scalar<float>();
  };
  EXPECT_TRUE(std::isnan(step(0)));
  for (const Var& variable : {w, b}) {
    for (const float value : session.run({}, {variable})[0].flat<float>()) EXPECT_EQ(value, 1.0f);
  }
  EXPECT_FALSE(std::isnan(step(2))) << "the session is as good as before";
}

TEST(BadInput, BoundaryNodesOutsideOfFunctions) {
  const std::string index = attr("index", std::string("\x18\x00", 2));
  Graph graph(builtin_ops());
  ASSERT_TRUE(import_graph_def(node("stray", "_Arg", {}, kFloatT + index) + node("y", "Neg", {"stray"}, kFloatT) +
                                   node("x", "Placeholder", {}, kPlaceholderAttrs) +
                                   node("end", "_Retval", {"x"}, kFloatT + index),
                               graph)
                  .ok());
  LocalSession session(graph);
  expect_error(session.try_run({}, {"y:0"}).status(), Code::kInvalidArgument, {"stray", "_Arg 0"});
  expect_error(session.try_run({{"x:0", Tensor::scalar(1.0f)}}, {}, {"end"}).status(), Code::kInvalidArgument,
               {"end", "_Retval 0"});
}

TEST(BadInput, FunctionsNamedLikeOps) {
  // Field 2 of GraphDef is the library, there 1 is a function, there 1 its signature, there 1 its name.
  for (const char* name : {"Const", "_Retval", "Enter"}) {
    expect_error(import(field(2, field(1, field(1, field(1, name))))), Code::kInvalidArgument, {name, "op"});
  }
}

TEST(BadInput, AKernelThatThrows) {
  auto ops = std::make_shared<OpTable>();
  register_all_ops(*ops);
  ops->add({.name = "Throw",
            .signature = "x: T -> y: T",
            .attrs = "T: type",
            .types = DTypeSet{DType::kFloat},
            .shape = shape::unchanged,
            .kernels = {TUTTI_CPU(kernel_from([](KernelContext&) -> Status { throw std::runtime_error("ouch"); }))}});
  Graph graph(ops);
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Node* bad = add_op(graph, "Throw", {x}, {}, "bad");
  Output good = x + 1.0;
  LocalSession session(graph, {.ops = ops});
  expect_error(session.try_run({{x, Tensor::scalar(1.0f)}}, {bad->output()}).status(), Code::kInternal,
               {"bad", "ouch"});
  EXPECT_EQ(session.run({{x, Tensor::scalar(1.0f)}}, {good})[0].scalar<float>(), 2.0f);
}

TEST(BadInput, HandlesOfAnotherTask) {
  Graph graph(builtin_ops());
  Var w = variable(graph, Tensor::scalar(5.0f), "w");
  Output handle = placeholder(graph, DType::kResource, PartialShape::scalar(), "handle");
  Output read = add_op(graph, "ReadVariableOp", {handle}, {{"dtype", DType::kFloat}}, "read")->output();
  LocalSession session(graph);
  session.run({w.initializer()});
  auto value_of = [&](const std::string& device) {
    return session.try_run({{handle, Tensor::scalar(ResourceHandle(device, "localhost", "w"))}}, {read});
  };
  EXPECT_EQ((*value_of("/job:localhost/replica:0/task:0/device:CPU:0"))[0].scalar<float>(), 5.0f);
  expect_error(value_of("/job:ps/replica:0/task:3/device:CPU:0").status(), Code::kInvalidArgument,
               {"read", "\"w\"", "/job:ps/replica:0/task:3", "/job:localhost/replica:0/task:0"});
  Output one = constant(graph, Tensor::scalar(1.0f));
  Node* descend = add_op(graph, "ResourceApplyGradientDescent", {handle, one, one}, {}, "descend");
  auto step_on = [&](const std::string& device) {
    return session.try_run({{handle, Tensor::scalar(ResourceHandle(device, "localhost", "w"))}}, {}, {descend});
  };
  EXPECT_TRUE(step_on("/job:localhost/replica:0/task:0/device:CPU:0").ok());
  EXPECT_EQ(session.run({}, {w.read()})[0].scalar<float>(), 4.0f);
  expect_error(step_on("/job:ps/replica:0/task:3/device:CPU:0").status(), Code::kInvalidArgument,
               {"descend", "\"w\"", "/job:ps/replica:0/task:3", "/job:localhost/replica:0/task:0"});
}

TEST(BadInput, AnErrorInAFunctionIsSaidOnce) {
  Graph graph(builtin_ops());
  define_function(graph, "checked", {DType::kFloat}, [](Graph& g, const std::vector<Output>& a) {
    return std::vector{add_op(g, "CheckNumerics", {a[0]}, {{"message", "inside"}}, "check")->output()};
  });
  Output x = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
  Output y = call(graph, "checked", {x}, "outer")[0];
  LocalSession session(graph, {.passes = {.inline_functions = false}});
  const Status status = session.try_run({{x, Tensor::scalar(std::numeric_limits<float>::quiet_NaN())}}, {y}).status();
  expect_error(status, Code::kInvalidArgument, {"outer", "check", "inside"});
  EXPECT_EQ(status.message().find("inside"), status.message().rfind("inside")) << status.message();
}

// Nodes that a call brought in have the call's name before theirs, which a node of the graph may have too.
TEST(BadInput, StateIsNotSharedByNameAlone) {
  Graph graph(builtin_ops());
  auto draw = [](const std::string& name) {
    return [name](Graph& g, const std::vector<Output>&) {
      Output shape = constant(g, Tensor::vector<std::int32_t>({1}));
      return std::vector{
          add_op(g, "RandomUniform", {shape}, {{"dtype", DType::kFloat}, {"seed", 7}, {"seed2", 9}}, name)->output()};
    };
  };
  define_function(graph, "deep", {}, draw("b/r"));
  define_function(graph, "flat", {}, draw("r"));
  Output one = call(graph, "deep", {}, "a")[0];
  Output two = call(graph, "flat", {}, "a/b")[0];
  LocalSession session(graph);
  const float first = session.run({}, {one})[0].flat<float>()[0];
  EXPECT_EQ(session.run({}, {two})[0].flat<float>()[0], first) << "two generators with one seed";
  EXPECT_NE(session.run({}, {one})[0].flat<float>()[0], first);
}

}  // namespace tutti::bad_input_test
