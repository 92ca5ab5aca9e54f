#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tutti/graph/gradients.h"
#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"

namespace tutti::fuse_test {

class FuseTest : public ::testing::Test {
 protected:
  Output feed(const PartialShape& shape, const std::string& name, DType dtype = DType::kFloat) {
    feeds_.push_back(name);
    return placeholder(graph_, dtype, shape, name);
  }
  // The body that computes these, fused.
  FunctionBody fused(const std::vector<Output>& fetches, const std::vector<Node*>& targets = {}) {
    Signature signature{.feeds = feeds_};
    for (Output fetch : fetches) signature.fetches.push_back(fetch.name());
    for (const Node* target : targets) signature.targets.push_back(target->name());
    FunctionBody body = extract_subgraph(graph_, signature).value_or_throw();
    throw_if_error(fuse(body));
    return body;
  }
  static std::vector<Node*> of_op(const FunctionBody& body, const std::string& op) {
    std::vector<Node*> nodes = body.graph->nodes();
    std::erase_if(nodes, [&](const Node* node) { return node->op_name() != op; });
    return nodes;
  }
  static std::size_t count(const FunctionBody& body, const std::string& op) { return of_op(body, op).size(); }
  // `node` must be with `other`, whatever devices they ask for.
  void put_with(Output node, Output other) {
    graph_.set_attr(*node.node, "_class", std::vector<std::string>{"loc:@" + other.node->name()});
  }
  // A node that waits for `before`.
  Node* after(Output before) {
    Node* node = add_op(graph_, "NoOp", {});
    graph_.add_control_input(*node, *before.node);
    return node;
  }

  Graph graph_{builtin_ops()};
  std::vector<std::string> feeds_;
};

class FuseProductTest : public FuseTest {
 protected:
  Output x_ = feed({-1, 4}, "x");
  Output w_ = feed({4, 3}, "w");
  Output b_ = feed({3}, "b");
  Output product_ = matmul(x_, w_);
  Output sum_ = nn::bias_add(product_, b_);
  Output layer_ = nn::relu(sum_);
};

TEST_F(FuseProductTest, ADenseLayerIsOneNode) {
  FunctionBody body = fused({layer_});
  ASSERT_EQ(count(body, "_FusedMatMul"), 1u);
  const Node* node = of_op(body, "_FusedMatMul")[0];
  EXPECT_EQ(node->attr<std::string>("activation"), "Relu");
  EXPECT_EQ(node->input(0).node, body.args[0]);
  EXPECT_EQ(node->input(1).node, body.args[1]);
  EXPECT_EQ(node->input(2).node, body.args[2]);
  EXPECT_EQ(body.graph->num_nodes(), 5) << "three arguments, the layer, a result";
}

TEST_F(FuseProductTest, AVectorMayBeAddedFromEitherSide) {
  for (Output sum : {product_ + b_, b_ + product_}) {
    FunctionBody body = fused({nn::relu(sum)});
    ASSERT_EQ(count(body, "_FusedMatMul"), 1u);
    EXPECT_EQ(of_op(body, "_FusedMatMul")[0]->input(2).node, body.args[2]);
  }
}

TEST_F(FuseProductTest, WhatMustBeWithSomethingElsewhereStays) {
  const auto there = graph_.device_scope("/device:CPU:1");
  Output elsewhere = neg(b_);
  put_with(product_, elsewhere);
  FunctionBody body = fused({layer_, elsewhere});
  EXPECT_EQ(count(body, "_FusedMatMul"), 0u);
  EXPECT_EQ(count(body, "_FusedBiasAdd"), 1u) << "these two are free";
  // Over others, and from the side of the reader.
  put_with(sum_, product_);
  put_with(layer_, elsewhere);
  body = fused({layer_, elsewhere});
  EXPECT_EQ(count(body, "_FusedMatMul") + count(body, "_FusedBiasAdd"), 0u);
}

TEST_F(FuseProductTest, WhatGivesOthersItsDeviceStays) {
  for (Output output : {product_, sum_, layer_}) graph_.set_requested_device(*output.node, "/device:CPU:1");
  Output with_it = neg(b_);
  put_with(with_it, layer_);
  const FunctionBody body = fused({layer_, with_it});
  ASSERT_EQ(count(body, "_FusedMatMul"), 1u);
  EXPECT_EQ(of_op(body, "_FusedMatMul")[0]->attr<std::string>("activation"), "");
  EXPECT_EQ(count(body, "Relu"), 1u);
}

// The update asks for no device, like the product; it is where its variable is.
TEST_F(FuseProductTest, WhatMustBeWithAVariableElsewhereStays) {
  Node* variable = nullptr;
  {
    const auto there = graph_.device_scope("/device:CPU:1");
    variable = add_op(graph_, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape({3})}});
  }
  Node* update = add_op(graph_, "AssignVariableOp", {variable->output(), b_}, {{"dtype", DType::kFloat}});
  put_with(product_, Output(update, 0));
  EXPECT_EQ(count(fused({layer_}, {update}), "_FusedMatMul"), 0u);
  graph_.set_requested_device(*variable, "");
  EXPECT_EQ(count(fused({layer_}, {update}), "_FusedMatMul"), 1u);
}

TEST_F(FuseProductTest, WhatAsksForOneDeviceIsFusedWhateverItIsWith) {
  Output other = neg(b_);
  put_with(product_, other);
  put_with(layer_, sum_);
  EXPECT_EQ(count(fused({layer_, other}), "_FusedMatMul"), 1u);
}

class FuseConvolutionTest : public FuseTest {
 protected:
  Output x_ = feed({-1, 8, 8, 3}, "x");
  Output filter_ = feed({3, 3, 3, 4}, "filter");
  Output bias_ = feed({4}, "bias");
};

TEST_F(FuseConvolutionTest, TheBiasIsAddedByTheConvolution) {
  Output sum = nn::bias_add(nn::conv2d(x_, filter_, {.strides = {2, 2}, .padding = "VALID"}), bias_);
  FunctionBody body = fused({nn::relu(sum)});
  ASSERT_EQ(count(body, "_FusedConv2D"), 1u);
  const Node* node = of_op(body, "_FusedConv2D")[0];
  EXPECT_EQ(node->input(2).node, body.args[2]);
  EXPECT_EQ(node->attr<std::string>("padding"), "VALID");
  EXPECT_EQ(node->output_shape(0), sum.shape());
  EXPECT_EQ(count(body, "Conv2D") + count(body, "BiasAdd"), 0u);
}

TEST_F(FuseConvolutionTest, NodesForOtherDevicesStay) {
  Output conv = nn::conv2d(x_, filter_);
  const auto elsewhere = graph_.device_scope("/device:CPU:1");
  EXPECT_EQ(count(fused({nn::bias_add(conv, bias_)}), "_FusedConv2D"), 0u);
}

TEST_F(FuseConvolutionTest, AConvolutionThatIsReadTwiceStays) {
  Output conv = nn::conv2d(x_, filter_);
  EXPECT_EQ(count(fused({nn::bias_add(conv, bias_), neg(conv)}), "_FusedConv2D"), 0u);
}

TEST_F(FuseConvolutionTest, ChannelsInFrontStay) {
  Output image = feed({-1, 3, 8, 8}, "image");
  Output conv = nn::conv2d(image, filter_, {.data_format = "NCHW"});
  Output sum = op1("BiasAdd", {conv, bias_}, {{"data_format", "NCHW"}});
  EXPECT_EQ(count(fused({sum}), "_FusedConv2D"), 0u);
}

TEST_F(FuseConvolutionTest, ABiasAloneIsFusedWithTheActivation) {
  FunctionBody body = fused({nn::relu(nn::bias_add(x_, feed({3}, "other")))});
  ASSERT_EQ(count(body, "_FusedBiasAdd"), 1u);
  EXPECT_EQ(of_op(body, "_FusedBiasAdd")[0]->attr<std::string>("activation"), "Relu");
  EXPECT_EQ(count(body, "BiasAdd") + count(body, "Relu"), 0u);
  Output sum = nn::bias_add(x_, feed({3}, "third"));
  EXPECT_EQ(count(fused({nn::relu(sum), neg(sum)}), "_FusedBiasAdd"), 0u);
}

TEST_F(FuseConvolutionTest, TheGradientsOfAPoolAndTheReluBeforeItAreOne) {
  Output relu = nn::relu(x_);
  Output pooled = nn::max_pool(relu, {2, 2}, {.strides = {2, 2}});
  FunctionBody body = fused({gradients({pooled}, {x_})[0].dense()});
  EXPECT_EQ(count(body, "_MaxPoolReluGrad"), 1u);
  EXPECT_EQ(count(body, "MaxPoolGrad") + count(body, "ReluGrad"), 0u);
  body = fused({gradients({pooled, relu * 2.0}, {x_})[0].dense()});
  EXPECT_EQ(count(body, "_MaxPoolReluGrad"), 0u) << "there is a sum between";
  // Other values than the pooled say where the gradient of the Relu is zero.
  Output slope = gradients({pooled}, {relu})[0].dense();
  EXPECT_EQ(count(fused({op1("ReluGrad", {slope, x_})}), "_MaxPoolReluGrad"), 0u);
  EXPECT_EQ(count(fused({op1("ReluGrad", {slope, relu})}), "_MaxPoolReluGrad"), 1u);
}

TEST_F(FuseConvolutionTest, APoolComesBeforeTheRelu) {
  Output conv = nn::bias_add(nn::conv2d(x_, filter_), bias_);
  Output relu = nn::relu(conv);
  Output pooled = nn::max_pool(relu, {2, 2}, {.strides = {2, 2}});
  FunctionBody body = fused({neg(pooled), gradients({pooled}, {x_})[0].dense()});
  ASSERT_EQ(count(body, "Relu"), 1u);
  ASSERT_EQ(count(body, "MaxPool"), 1u);
  const Node* pool = of_op(body, "MaxPool")[0];
  EXPECT_EQ(of_op(body, "Relu")[0]->input(0).node, pool);
  EXPECT_EQ(pool->input(0).node->op_name(), "_FusedConv2D");
  EXPECT_EQ(pool->attr<std::vector<std::int64_t>>("strides"), (std::vector<std::int64_t>{1, 2, 2, 1}));
  EXPECT_EQ(of_op(body, "_MaxPoolReluGrad")[0]->input(0), pool->input(0));
  EXPECT_EQ(of_op(body, "Neg")[0]->input(0).node, of_op(body, "Relu")[0]);

  const auto first_is = [&](const FunctionBody& b) { return of_op(b, "MaxPool")[0]->input(0).node->op_name(); };
  EXPECT_EQ(first_is(fused({pooled, neg(relu)})), "Relu") << "something else reads the Relu";
  EXPECT_EQ(first_is(fused({pooled}, {after(relu)})), "Relu") << "something waits for the Relu";
  EXPECT_EQ(first_is(fused({pooled, relu})), "Relu") << "the Relu is fetched";
  Output taken_along = nn::max_pool(nn::relu(nn::bias_add(x_, feed({3}, "other"))), {2, 2}, {.strides = {2, 2}});
  EXPECT_EQ(first_is(fused({taken_along})), "_FusedBiasAdd");
  // The second pool of two in a row stays: what it reads is replaced itself.
  const nn::WindowOptions strided{.strides = {2, 2}};
  Output again = nn::max_pool(nn::relu(nn::max_pool(relu, {2, 2}, strided)), {2, 2}, strided);
  body = fused({again, gradients({again}, {x_})[0].dense()});
  const auto images_of = [&](const std::string& op) {
    std::set<std::string> names;
    for (const Node* node : of_op(body, op)) names.insert(node->input(0).name());
    return names;
  };
  EXPECT_EQ(images_of("MaxPool").size(), 2u);
  EXPECT_EQ(images_of("_MaxPoolReluGrad"), images_of("MaxPool"));
  EXPECT_EQ(first_is(fused({nn::max_pool(relu, {2, 2})})), "Relu") << "as many values come out";
  Output other = nn::max_pool(relu, {3, 3}, {.strides = {2, 2}});
  EXPECT_EQ(count(fused({pooled, other}), "Relu"), 1u) << "two pools read it";
  graph_.add_control_input(*pooled.node, *x_.node);
  EXPECT_EQ(first_is(fused({pooled})), "Relu") << "the pool waits for something";
  const auto elsewhere = graph_.device_scope("/device:CPU:1");
  EXPECT_EQ(first_is(fused({nn::max_pool(nn::relu(conv), {2, 2}, {.strides = {2, 2}})})), "Relu")
      << "the convolution is elsewhere";
}

// One window for the whole image, so that its gradient has the shape of the Relu, and may be the Relu.
TEST_F(FuseConvolutionTest, AReluThatIsAGradientItselfStays) {
  Output image = nn::conv2d(feed({-1, 1, 1, 3}, "pixel"), feed({1, 1, 3, 4}, "weights"));
  Output relu = nn::relu(image);
  const nn::WindowOptions window{.strides = {2, 2}, .padding = "SAME"};
  Output pooled = nn::max_pool(relu, {2, 2}, window);
  const auto first_with_gradient = [&](Output grad) {
    const std::vector<std::int64_t> twos{1, 2, 2, 1};
    Output slope = op1("MaxPoolGrad", {relu, pooled, grad}, {{"ksize", twos}, {"strides", twos}, {"padding", "SAME"}});
    const FunctionBody body = fused({op1("ReluGrad", {slope, relu}), pooled});
    EXPECT_EQ(count(body, "_MaxPoolReluGrad"), 1u);
    return of_op(body, "MaxPool")[0]->input(0).node->op_name();
  };
  EXPECT_EQ(first_with_gradient(pooled), "Conv2D");
  EXPECT_EQ(first_with_gradient(relu), "Relu");
}

TEST_F(FuseConvolutionTest, GradientsOfPoolsOfChannelsInFrontStay) {
  Output pooled = nn::max_pool(nn::relu(x_), {2, 2}, {.strides = {2, 2}, .data_format = "NCHW"});
  EXPECT_EQ(count(fused({gradients({pooled}, {x_})[0].dense()}), "_MaxPoolReluGrad"), 0u);
}

// Each reader of a variable would have the value of another moment.
TEST_F(FuseConvolutionTest, AReluOfAVariableStays) {
  Node* variable = add_op(graph_, "VariableV2", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape({1, 4, 4, 1})}});
  Output read = op1("Identity", {variable->output()});
  const FunctionBody body = fused({nn::max_pool(nn::relu(read), {2, 2}, {.strides = {2, 2}})});
  EXPECT_EQ(of_op(body, "MaxPool")[0]->input(0).node->op_name(), "Relu");
}

TEST_F(FuseConvolutionTest, TheGradientOfABiasBeforeAPooledReluIsASumThatIsThere) {
  Output conv = nn::bias_add(nn::conv2d(x_, filter_), bias_);
  Output pooled = nn::max_pool(nn::relu(conv), {2, 2}, {.strides = {2, 2}});
  Output slope = gradients({pooled}, {bias_})[0].dense();
  FunctionBody body = fused({neg(slope)});
  EXPECT_EQ(count(body, "BiasAddGrad"), 0u);
  EXPECT_EQ(of_op(body, "Neg")[0]->input(0), Output(of_op(body, "_MaxPoolReluGrad")[0], 1));
  EXPECT_EQ(of_op(body, "Neg")[0]->output_shape(0), PartialShape({4}));
  body = fused({slope}, {after(slope)});
  EXPECT_EQ(of_op(body, "NoOp")[0]->control_inputs()[0]->op_name(), "_MaxPoolReluGrad");
  Node* adder = slope.node;
  graph_.set_requested_device(*adder, "/device:CPU:1");
  EXPECT_EQ(count(fused({slope}), "BiasAddGrad"), 1u);
}

TEST_F(FuseProductTest, WhatIsFetchedStays) {
  FunctionBody body = fused({product_, layer_});
  EXPECT_EQ(count(body, "_FusedMatMul"), 0u);
  EXPECT_EQ(count(body, "MatMul"), 1u);
  // The sum is wanted, the product alone is not.
  body = fused({sum_, layer_});
  ASSERT_EQ(count(body, "_FusedMatMul"), 1u);
  EXPECT_EQ(of_op(body, "_FusedMatMul")[0]->attr<std::string>("activation"), "");
  EXPECT_EQ(count(body, "Relu"), 1u);
}

TEST_F(FuseProductTest, WhatIsReadTwiceStays) {
  EXPECT_EQ(count(fused({layer_, neg(product_)}), "_FusedMatMul"), 0u);
  EXPECT_EQ(count(fused({product_ + product_}), "_FusedMatMul"), 0u);
}

TEST_F(FuseProductTest, WhatSomethingWaitsForStays) {
  EXPECT_EQ(count(fused({layer_}, {after(product_)}), "_FusedMatMul"), 0u);
  EXPECT_EQ(count(fused({layer_}, {product_.node}), "_FusedMatMul"), 0u);
}

TEST_F(FuseProductTest, WhoWaitsForTheLastWaitsForTheLayer) {
  Node* follower = after(layer_);
  Node* before = add_op(graph_, "NoOp", {});
  graph_.add_control_input(*product_.node, *before);
  FunctionBody body = fused({layer_}, {follower});
  ASSERT_EQ(count(body, "_FusedMatMul"), 1u);
  const Node* layer = of_op(body, "_FusedMatMul")[0];
  const auto waits = body.graph->find(follower->name())->control_inputs();
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0], layer);
  ASSERT_EQ(layer->control_inputs().size(), 1u);
  EXPECT_EQ(layer->control_inputs()[0]->name(), before->name());
}

TEST_F(FuseProductTest, OnlyAVectorOfTheRowsLengthIsABias) {
  const std::vector<Output> others{feed(PartialShape::scalar(), "scalar"), feed({1}, "one"), feed({-1}, "open"),
                                   feed({-1, 3}, "matrix"), feed({1, 3}, "row")};
  for (Output other : others) EXPECT_EQ(count(fused({product_ + other}), "_FusedMatMul"), 0u) << other.name();
}

// total = 0; while (...) total += x^T y, as the gradient of a matrix that a loop multiplies with is summed.
class FuseAccumulationTest : public FuseTest {
 protected:
  Output enter(Output value, bool constant = true) {
    return op1("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", constant}});
  }
  Output x_ = enter(feed({4, 2}, "x"));
  Output y_ = enter(feed({4, 3}, "y"));
  Output go_on_ = op1("LoopCond", {enter(feed(PartialShape::scalar(), "go_on", DType::kBool))});
  Node* total_ = add_op(graph_, "Switch", {enter(feed({2, 3}, "total"), false), go_on_});
  Output product_ = op1("MatMul", {x_, y_}, {{"transpose_a", true}});
};

TEST_F(FuseAccumulationTest, AProductIsAddedInOneNode) {
  for (const bool total_first : {true, false}) {
    Output sum = total_first ? op1("AddV2", {total_->output(1), product_}) : op1("Add", {product_, total_->output(1)});
    const FunctionBody body = fused({sum});
    ASSERT_EQ(count(body, "_MatMulAdd"), 1u);
    const Node* node = of_op(body, "_MatMulAdd")[0];
    EXPECT_EQ(count(body, "MatMul"), 0u);
    EXPECT_EQ(node->input(0).node->name(), x_.node->name());
    EXPECT_EQ(node->input(1).node->name(), y_.node->name());
    EXPECT_EQ(node->input(2).name(), total_->output(1).name());
    EXPECT_TRUE(node->attr<bool>("transpose_a"));
  }
}

TEST_F(FuseAccumulationTest, OnlySumsOfALoopAreAddedTo) {
  Output elsewhere = feed({2, 3}, "elsewhere");
  Output taken = feed(PartialShape::scalar(), "taken", DType::kBool);
  Node* branch = add_op(graph_, "Switch", {elsewhere, taken});
  for (Output sum : {elsewhere, branch->output(1)}) EXPECT_EQ(count(fused({product_ + sum}), "_MatMulAdd"), 0u);
  EXPECT_EQ(count(fused({product_ + total_->output(1)}), "_MatMulAdd"), 1u);
}

TEST_F(FuseAccumulationTest, AProductThatIsWantedStays) {
  Output sum = product_ + total_->output(1);
  EXPECT_EQ(count(fused({sum, neg(product_)}), "_MatMulAdd"), 0u);
  EXPECT_EQ(count(fused({sum}, {after(product_)}), "_MatMulAdd"), 0u);
}

class FuseElementwiseTest : public FuseTest {
 protected:
  Output x_ = feed({-1, 4}, "x");
};

TEST_F(FuseElementwiseTest, AChainIsOneNode) {
  Output s = feed(PartialShape::scalar(), "s");
  FunctionBody body = fused({tanh(neg(x_) * s + x_)});
  ASSERT_EQ(count(body, "_FusedElementwise"), 1u) << "scalars may take part";
  EXPECT_EQ(of_op(body, "_FusedElementwise")[0]->attr<std::vector<std::string>>("ops").size(), 4u);
  EXPECT_EQ(of_op(body, "_FusedElementwise")[0]->inputs().size(), 2u);
}

TEST_F(FuseElementwiseTest, WhatIsWantedByItselfStays) {
  Output inner = neg(x_);
  Output outer = tanh(inner);
  EXPECT_EQ(count(fused({outer}), "_FusedElementwise"), 1u);
  EXPECT_EQ(count(fused({inner, outer}), "_FusedElementwise"), 0u) << "fetched";
  EXPECT_EQ(count(fused({outer, reduce_sum(inner)}), "_FusedElementwise"), 0u) << "read twice";
  EXPECT_EQ(count(fused({outer}, {after(inner)}), "_FusedElementwise"), 0u) << "waited for";
  EXPECT_EQ(count(fused({outer}, {inner.node}), "_FusedElementwise"), 0u) << "a target";
}

TEST_F(FuseElementwiseTest, NothingIsBroadcastInside) {
  Output row = feed({4}, "row");
  Output open = feed({-1, 4}, "open");
  EXPECT_EQ(count(fused({neg(x_ * row)}), "_FusedElementwise"), 0u);
  EXPECT_EQ(count(fused({neg(x_ * open)}), "_FusedElementwise"), 0u) << "one of the two may have one row";
  // A scalar that is computed does not join what it is spread over.
  Output s = feed(PartialShape::scalar(), "s");
  FunctionBody body = fused({neg(x_ * neg(s))});
  ASSERT_EQ(count(body, "_FusedElementwise"), 1u);
  EXPECT_EQ(of_op(body, "_FusedElementwise")[0]->attr<std::vector<std::string>>("ops").size(), 2u);
  EXPECT_EQ(count(body, "Neg"), 1u);
}

TEST_F(FuseElementwiseTest, OtherTypesStay) {
  Output i = feed({-1, 4}, "i", DType::kInt32);
  EXPECT_EQ(count(fused({neg(neg(i) * i)}), "_FusedElementwise"), 0u);
}

TEST_F(FuseElementwiseTest, LongChainsAreCut) {
  Output y = x_;
  for (int i = 0; i < 100; ++i) y = neg(y);
  FunctionBody body = fused({y});
  std::size_t steps = count(body, "Neg");
  for (const Node* node : of_op(body, "_FusedElementwise")) {
    const std::size_t own = node->attr<std::vector<std::string>>("ops").size();
    EXPECT_LE(own, 24u);
    steps += own;
  }
  EXPECT_EQ(steps, 100u);
  EXPECT_LE(count(body, "Neg"), 1u);
}

}  // namespace tutti::fuse_test
