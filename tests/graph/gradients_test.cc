#include "tutti/graph/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/graph_eval.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::gradients_test {

using testing::GraphEvaluator;
using testing::to_doubles;
using Doubles = std::vector<double>;

class GradientsTest : public ::testing::Test {
 protected:
  Output placeholder(DType dtype, PartialShape shape, const std::string& name = "") {
    return add_op(graph_, "Placeholder", {}, {{"dtype", dtype}, {"shape", shape}}, name)->output();
  }
  Output constant(Tensor value) {
    const DType dtype = value.dtype();
    return add_op(graph_, "Const", {}, {{"dtype", dtype}, {"value", value}})->output();
  }
  Output scalar(double value) { return constant(Tensor::scalar(value)); }
  Doubles eval(Output value, const GraphEvaluator::Feeds& feeds = {}) {
    return to_doubles(evaluator_.run(value, feeds));
  }
  Doubles eval(const Gradient& gradient, const GraphEvaluator::Feeds& feeds = {}) {
    return eval(gradient.dense(), feeds);
  }
  template <typename F>
  std::string error_of(F f) {
    try {
      f();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  std::vector<Node*> made_since(int first_id) {
    std::vector<Node*> made;
    for (int id = first_id; id < graph_.id_limit(); ++id) {
      if (graph_.node_by_id(id)) made.push_back(graph_.node_by_id(id));
    }
    return made;
  }
  int count(const std::vector<Node*>& nodes, const std::string& op) {
    return static_cast<int>(std::count_if(nodes.begin(), nodes.end(), [&](Node* n) { return n->op_name() == op; }));
  }

  Graph graph_{builtin_ops()};
  GraphEvaluator evaluator_;
};

TEST_F(GradientsTest, Product) {
  Output x = scalar(3);
  Output y = scalar(5);
  std::vector<Gradient> g = gradients({op1("Mul", {x, y})}, {x, y});
  EXPECT_EQ(eval(g[0]), Doubles{5});
  EXPECT_EQ(eval(g[1]), Doubles{3});
}

TEST_F(GradientsTest, SeveralPathsAreSummedOnceByAddN) {
  Output x = scalar(3);
  Output y = op1("AddV2", {op1("Mul", {x, x}), op1("Neg", {x})});
  const int before = graph_.id_limit();
  Gradient g = gradients({y}, {x})[0];
  EXPECT_EQ(eval(g), Doubles{5});
  EXPECT_EQ(count(made_since(before), "AddN"), 1);
}

TEST_F(GradientsTest, SeveralYsAreSummed) {
  Output x = scalar(3);
  Output y = op1("Mul", {x, x});
  EXPECT_EQ(eval(gradients({y, op1("Neg", {x}), y}, {x})[0]), Doubles{11});
}

TEST_F(GradientsTest, UnconnectedIsEmpty) {
  Output x = scalar(3);
  Output other = scalar(4);
  std::vector<Gradient> g = gradients({op1("Mul", {x, x})}, {other, x});
  EXPECT_FALSE(g[0]);
  EXPECT_TRUE(g[1]);
  EXPECT_FALSE(gradients({x}, {other})[0]);
}

TEST_F(GradientsTest, YMayBeXAndXMayLieOnTheWayToAnother) {
  Output x = constant(Tensor::vector<double>({1, 2}));
  Output middle = op1("Mul", {x, x});
  Output y = op1("Mul", {middle, middle});
  EXPECT_EQ(eval(gradients({x}, {x})[0]), (Doubles{1, 1}));
  std::vector<Gradient> g = gradients({y}, {middle, x});
  EXPECT_EQ(eval(g[0]), (Doubles{2, 8}));
  EXPECT_EQ(eval(g[1]), (Doubles{4, 32}));
}

TEST_F(GradientsTest, GivenGradients) {
  Output x = constant(Tensor::vector<double>({1, 2}));
  GradientOptions options;
  options.grad_ys = {constant(Tensor::vector<double>({10, 100}))};
  EXPECT_EQ(eval(gradients({op1("Mul", {x, x})}, {x}, options)[0]), (Doubles{20, 400}));

  options.grad_ys = {constant(Tensor::vector<double>({1, 2, 3}))};
  EXPECT_NE(error_of([&] { gradients({x}, {x}, options); }).find("double [2], its given gradient double [3]"),
            std::string::npos);
  options.grad_ys = {constant(Tensor::vector<float>({1, 2}))};
  EXPECT_NE(error_of([&] { gradients({x}, {x}, options); }).find("its given gradient float"), std::string::npos);
  options.grad_ys.push_back({});
  EXPECT_NE(error_of([&] { gradients({x}, {x}, options); }).find("1 ys but 2 grad_ys"), std::string::npos);
}

TEST_F(GradientsTest, StopGradientsGivePartialDerivatives) {
  Output x = scalar(3);
  Output a = op1("Mul", {x, x});
  Output y = op1("Mul", {a, x});
  GradientOptions options;
  options.stop_gradients = {a};
  std::vector<Gradient> g = gradients({y}, {x, a}, options);
  EXPECT_EQ(eval(g[0]), Doubles{9});
  EXPECT_EQ(eval(g[1]), Doubles{3});
  options.stop_gradients = {y};
  EXPECT_FALSE(gradients({y}, {x}, options)[0]);
}

TEST_F(GradientsTest, StopGradientOpAndIntegersCarryNothing) {
  Output x = scalar(3);
  EXPECT_FALSE(gradients({op1("StopGradient", {x})}, {x})[0]);
  Output through_int = op1("Cast", {op1("Cast", {x}, {{"DstT", DType::kInt32}})}, {{"DstT", DType::kDouble}});
  EXPECT_EQ(eval(gradients({op1("Mul", {x, through_int})}, {x})[0]), Doubles{3});
  EXPECT_FALSE(gradients({through_int}, {x})[0]);
}

TEST_F(GradientsTest, SecondDerivative) {
  Output x = scalar(2);
  Output y = op1("Mul", {x, op1("Mul", {x, x})});
  Gradient first = gradients({y}, {x})[0];
  EXPECT_EQ(eval(first), Doubles{12});
  EXPECT_EQ(eval(gradients({first.dense()}, {x})[0]), Doubles{12});
}

TEST_F(GradientsTest, UnknownShapesWork) {
  Output x = placeholder(DType::kDouble, PartialShape());
  Output y = op1("Mul", {x, scalar(4)});
  EXPECT_EQ(eval(gradients({y}, {x})[0], {{x, Tensor::vector<double>({1, 2, 3})}}), (Doubles{4, 4, 4}));
  EXPECT_EQ(eval(gradients({y}, {x})[0], {{x, Tensor(DType::kDouble, Shape{0, 3})}}), Doubles{});
}

TEST_F(GradientsTest, SparseGradientsStaySparse) {
  Output params = constant(Tensor::of<double>({4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}));
  Output axis = constant(Tensor::scalar(std::int32_t{0}));
  Output a = op1("GatherV2", {params, constant(Tensor::vector<std::int32_t>({1, 3, 1})), axis});
  Gradient one = gradients({a}, {params})[0];
  ASSERT_TRUE(one.is_sparse());
  EXPECT_EQ(eval(one), (Doubles{0, 0, 2, 2, 0, 0, 1, 1}));

  Output b = op1("GatherV2", {params, constant(Tensor::vector<std::int32_t>({0})), axis});
  Gradient both = gradients({a, op1("Mul", {b, b})}, {params})[0];
  ASSERT_TRUE(both.is_sparse());
  EXPECT_EQ(eval(both.slices().indices).size(), 4u);
  EXPECT_EQ(eval(both), (Doubles{2, 4, 2, 2, 0, 0, 1, 1}));
}

TEST_F(GradientsTest, SparseAndDenseTogetherAreDense) {
  Output params = constant(Tensor::of<double>({2, 2}, {1, 2, 3, 4}));
  Output axis = constant(Tensor::scalar(std::int32_t{0}));
  Output rows = op1("GatherV2", {params, constant(Tensor::vector<std::int64_t>({1})), axis});
  Gradient g = gradients({rows, op1("Mul", {params, params})}, {params})[0];
  EXPECT_FALSE(g.is_sparse());
  EXPECT_EQ(eval(g), (Doubles{2, 4, 7, 9}));
}

TEST_F(GradientsTest, SlicesWithDifferentIndexTypesBecomeDense) {
  Output params = constant(Tensor::of<double>({2, 1}, {1, 2}));
  Output axis = constant(Tensor::scalar(std::int32_t{0}));
  Output a = op1("GatherV2", {params, constant(Tensor::vector<std::int64_t>({1})), axis});
  Output b = op1("GatherV2", {params, constant(Tensor::vector<std::int32_t>({1})), axis});
  EXPECT_EQ(eval(gradients({a, b}, {params})[0]), (Doubles{0, 2}));
}

TEST_F(GradientsTest, NamesAndScopes) {
  Output x = placeholder(DType::kDouble, {}, "x");
  Output y = op1("Mul", {x, x}, {}, "layer/square");
  for (const std::string scope : {"gradients/", "gradients_1/"}) {
    const int before = graph_.id_limit();
    gradients({y}, {x});
    std::vector<Node*> made = made_since(before);
    ASSERT_FALSE(made.empty());
    bool named_after_node = false;
    for (Node* node : made) {
      EXPECT_TRUE(node->name().starts_with(scope)) << node->name();
      named_after_node |= node->name().starts_with(scope + "layer/square_grad/");
    }
    EXPECT_TRUE(named_after_node);
  }
  EXPECT_EQ(graph_.current_name_scope(), "");
}

TEST_F(GradientsTest, SitWithTheForwardNode) {
  Output x = placeholder(DType::kDouble, {}, "x");
  Output y;
  {
    ScopeGuard device = graph_.device_scope("/job:ps/task:1");
    y = op1("Mul", {x, x}, {}, "y");
  }
  const int before = graph_.id_limit();
  {
    ScopeGuard device = graph_.device_scope("/job:worker");
    gradients({y}, {x});
  }
  int beside = 0;
  for (Node* node : made_since(before)) {
    if (!node->name().starts_with("gradients/y_grad/")) continue;
    ++beside;
    EXPECT_EQ(node->requested_device(), y.node->requested_device());
    EXPECT_EQ(node->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@y"});
  }
  EXPECT_GT(beside, 0);
}

TEST_F(GradientsTest, CustomGradients) {
  Output x = scalar(3);
  Output y = op1("Mul", {x, x}, {}, "mine");
  GradFn seven = [](GradContext& c) { c.set(0, op1("Mul", {c.grad(), c.grad()})); };
  GradientOptions options;
  options.grad_ys = {scalar(7)};
  options.overrides["mine"] = seven;
  EXPECT_EQ(eval(gradients({y}, {x}, options)[0]), Doubles{49});
  options.overrides.clear();
  options.overrides["op:Mul"] = seven;
  EXPECT_EQ(eval(gradients({y}, {x}, options)[0]), Doubles{49});
  options.overrides.clear();
  options.overrides["op:Neg"] = seven;
  EXPECT_EQ(eval(gradients({y}, {x}, options)[0]), Doubles{42});
}

TEST_F(GradientsTest, GradientOpType) {
  Output x = scalar(3);
  Output y = op1("Identity", {x}, {{"_gradient_op_type", "Doubled"}}, "marked");
  GradientOptions options;
  EXPECT_NE(error_of([&] {
              gradients({y}, {x}, options);
            }).find("gradients: node \"marked\" asks for the custom gradient \"Doubled\""),
            std::string::npos);
  options.overrides["op:Doubled"] = [](GradContext& c) { c.set(0, op1("AddV2", {c.grad(), c.grad()})); };
  EXPECT_EQ(eval(gradients({y}, {x}, options)[0]), Doubles{2});
}

TEST_F(GradientsTest, CustomGradientOfAnOpWithout) {
  Output x = scalar(3);
  Output y = op1("StopGradient", {x});
  GradientOptions options;
  options.overrides["op:StopGradient"] = [](GradContext& c) { c.set(0, c.raw_grad(0)); };
  EXPECT_EQ(eval(gradients({y}, {x}, options)[0]), Doubles{1});
}

TEST_F(GradientsTest, WrongGradientFunctionIsNamed) {
  Output x = constant(Tensor::vector<double>({1, 2}));
  Output y = op1("Mul", {x, x}, {}, "square");
  GradientOptions options;
  options.overrides["square"] = [&](GradContext& c) { c.set(0, constant(Tensor::vector<double>({1, 2, 3}))); };
  EXPECT_NE(error_of([&] {
              gradients({y}, {x}, options);
            }).find("the gradient of Mul \"square\" for input 0 is double [3], the input is double [2]"),
            std::string::npos);
}

TEST_F(GradientsTest, AGradientFunctionThatFailsLeavesNoVariables) {
  Output x = variable(graph_, Tensor::scalar(3.0), "x").read();
  Output y = op1("Neg", {op1("Mul", {x, x}, {}, "square")});
  Node* const noted = y.node;
  const auto fails = [&](bool note) {
    GradientOptions options;
    options.overrides["square"] = [&, note](GradContext& c) {
      variable(c.graph(), Tensor::scalar(1.0), "scratch");
      variable(c.graph(), Tensor::scalar(1.0), "constant", false);
      if (note) c.graph().add_to_collection("mine", *noted);
      throw_error(internal_error("it fails"));
    };
    EXPECT_NE(error_of([&] { gradients({y}, {x}, options); }).find("it fails"), std::string::npos);
  };
  const Graph::Collections before = graph_.collections();
  ASSERT_EQ(before.at("variables").size(), 1u);
  const int num_nodes = graph_.num_nodes();
  for (bool note : {false, true}) {
    fails(note);
    EXPECT_EQ(graph_.num_nodes(), num_nodes);
    EXPECT_TRUE(graph_.collections() == before);
  }
  EXPECT_EQ(global_variables(graph_).size(), 1u);
  EXPECT_EQ(trainable_variables(graph_).size(), 1u);
}

// A gradient function that ends well may keep state.
TEST_F(GradientsTest, VariablesOfGradientFunctionsStay) {
  Output x = variable(graph_, Tensor::scalar(3.0), "x").read();
  GradientOptions options;
  options.overrides["op:Neg"] = [](GradContext& c) {
    variable(c.graph(), Tensor::scalar(1.0), "kept", false);
    c.set(0, c.grad());
  };
  gradients({op1("Neg", {x})}, {x}, options);
  EXPECT_EQ(global_variables(graph_).size(), 2u);
  EXPECT_EQ(trainable_variables(graph_).size(), 1u);
}

TEST_F(GradientsTest, Errors) {
  Output x = scalar(3);
  Output i = constant(Tensor::scalar(std::int32_t{1}));
  EXPECT_NE(error_of([&] { gradients({i}, {x}); }).find("of type int32 is not differentiable"), std::string::npos);
  EXPECT_NE(error_of([&] { gradients({}, {x}); }).find("there are no ys"), std::string::npos);
  EXPECT_NE(error_of([&] { gradients({x, Output()}, {x}); }).find("ys[1] is empty"), std::string::npos);
  Graph other(builtin_ops());
  Output foreign = add_op(other, "Const", {}, {{"dtype", DType::kDouble}, {"value", Tensor::scalar(1.0)}})->output();
  EXPECT_NE(error_of([&] { gradients({x}, {foreign}); }).find("is of another graph"), std::string::npos);
  EXPECT_TRUE(gradients({x}, {}).empty());
}

TEST_F(GradientsTest, OpWithoutGradientIsNamed) {
  auto table = std::make_shared<OpTable>();
  register_all_ops(*table);
  table->add({.name = "Opaque", .signature = "x: T -> y: T", .attrs = "T: type", .shape = shape::unchanged});
  Graph graph(table);
  Output x = add_op(graph, "Const", {}, {{"dtype", DType::kDouble}, {"value", Tensor::scalar(1.0)}})->output();
  Output y = op1("Opaque", {x}, {}, "dark");
  EXPECT_NE(
      error_of([&] { gradients({y}, {x}); }).find("gradients: no gradient registered for op Opaque, node \"dark\""),
      std::string::npos);
  EXPECT_FALSE(gradients({y}, {add_op(graph, "Placeholder", {}, {{"dtype", DType::kDouble}})->output()})[0]);
}

TEST_F(GradientsTest, ChainOf100000Nodes) {
  Output x = scalar(3);
  Output y = x;
  for (int i = 0; i < 100000; ++i) y = op1("Neg", {y});
  const int before = graph_.id_limit();
  Gradient g = gradients({y}, {x})[0];
  EXPECT_TRUE(g);
  EXPECT_GE(count(made_since(before), "Neg"), 100000);
}

}  // namespace tutti::gradients_test
