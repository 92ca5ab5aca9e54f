#include "tutti/graph/explain.h"

#include <gtest/gtest.h>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::explain_test {

class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() {
    for (const char* job : {"worker", "ps"}) {
      options_.placement.devices.push_back(
          DeviceName::parse(str_cat("/job:", job, "/replica:0/task:0/device:CPU:0")).value_or_throw());
    }
    options_.placement.has_kernel = [](const Node&, const std::string&) { return true; };
  }

  Graph graph_{builtin_ops()};
  ExplainOptions options_;
};

TEST_F(ExplainTest, TellsWhereWhyAndHowMuch) {
  Output x = placeholder(graph_, DType::kFloat, {kUnknownDim, 3}, "x");
  Var w = [&] {
    ScopeGuard scope = graph_.device_scope("/job:ps/task:0");
    return variable(graph_, Tensor(DType::kFloat, Shape{3, 2}), "w");
  }();
  Output y = op1("MatMul", {x, w}, {}, "y");
  graph_.set_requested_device(*w.read().node, "");
  Output rows = [&] {
    ScopeGuard scope = graph_.device_scope("/job:ps/task:0");
    return op1("Neg", {x}, {}, "rows");
  }();
  op1("Shape", {rows}, {}, "shape");
  const std::string text =
      explain(graph_, {.feeds = {"x:0"}, .fetches = {"y:0"}, .targets = {"shape"}}, options_).value_or_throw();
  EXPECT_EQ(text,
            "/job:ps/replica:0/task:0/device:CPU:0: 4 nodes\n"
            "  w  VarHandleOp  asks for /job:ps/task:0\n"
            "  w/Read/ReadVariableOp  ReadVariableOp  goes with w\n"
            "  rows  Neg  asks for /job:ps/task:0\n"
            "  shape  Shape  reads only the shape of rows\n"
            "/job:worker/replica:0/task:0/device:CPU:0: 3 nodes\n"
            "  y  MatMul  first device that fits\n"
            "  x:0  is fed by the client\n"
            "  y:0  is fetched by the client\n"
            "/job:ps/replica:0/task:0 -> /job:worker/replica:0/task:0: 1 value, 24 bytes\n"
            "  w/Read/ReadVariableOp:0  float [3,2]  24 bytes\n"
            "/job:worker/replica:0/task:0 -> /job:ps/replica:0/task:0: 1 value, 0 bytes and 1 of unknown size\n"
            "  x:0  float [?,3]  unknown\n");
  EXPECT_TRUE(y.node->assigned_device().empty()) << "the graph stays as it is";
}

TEST_F(ExplainTest, OneTaskNeedsNoWires) {
  op1("Neg", {constant(graph_, Tensor::scalar(1.0f))}, {}, "y");
  const std::string text = explain(graph_, {.fetches = {"y:0"}}, options_).value_or_throw();
  EXPECT_NE(text.find("where its readers are, y among them"), std::string::npos) << text;
  EXPECT_NE(text.find("nothing crosses between tasks"), std::string::npos) << text;
}

TEST_F(ExplainTest, ErrorsNameTheNode) {
  Node* node = op1("Neg", {constant(graph_, Tensor::scalar(1.0f))}, {}, "y").node;
  graph_.set_requested_device(*node, "/job:nowhere");
  Status status = explain(graph_, {.fetches = {"y:0"}}, options_).status();
  EXPECT_EQ(status.message().find("Cannot assign a device for operation y: no device matches /job:nowhere"), 0u)
      << status.message();
  EXPECT_EQ(explain(graph_, {.fetches = {"z:0"}}, options_).status().code(), Code::kInvalidArgument);
  graph_.set_requested_device(*node, "");
  EXPECT_EQ(explain(graph_, {.fetches = {"z:0"}}, options_).status().code(), Code::kNotFound);
}

}  // namespace tutti::explain_test
