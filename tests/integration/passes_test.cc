// Random graphs give the same with every pass on as with every pass off.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::passes_test {

SessionOptions with_passes(PassOptions passes) {
  SessionOptions options;
  options.threads = {.intra_op_threads = 1, .inter_op_threads = 1};
  options.passes = passes;
  return options;
}

constexpr PassOptions kNone{.fold_constants = false,
                            .merge_common_subexpressions = false,
                            .drop_unread = false,
                            .hoist = false,
                            .open_gates = false,
                            .fuse = false,
                            .inline_functions = false};

Tensor random_tensor(const Shape& shape, std::mt19937& random, float low = 0.2f) {
  Tensor tensor(DType::kFloat, shape);
  std::uniform_real_distribution<float> value(low, 1.5f);
  for (float& x : tensor.flat<float>()) x = value(random);
  return tensor;
}

void expect_close(const Tensor& got, const Tensor& wanted, const std::string& what, double tolerance = 1e-5) {
  ASSERT_EQ(got.shape(), wanted.shape()) << what;
  double difference = 0;
  double norm = 1e-12;
  for (std::int64_t i = 0; i < got.num_elements(); ++i) {
    const double g = got.flat<float>()[i];
    const double w = wanted.flat<float>()[i];
    if (std::isnan(g) && std::isnan(w)) continue;
    difference += (g - w) * (g - w);
    norm += w * w;
  }
  EXPECT_LT(std::sqrt(difference / norm), tolerance) << what;
}

std::vector<std::string> ops_run(LocalSession& session, const Feeds& feeds, const std::vector<TensorName>& fetches) {
  RunMetadata metadata;
  session.run(feeds, fetches, {}, {.metadata = &metadata});
  std::vector<std::string> ops;
  for (const NodeStats& node : metadata.step_stats.nodes) ops.push_back(node.op);
  return ops;
}

class RandomGraph : public ::testing::TestWithParam<int> {};

TEST_P(RandomGraph, IsTheSameWithAndWithoutPasses) {
  std::mt19937 random(GetParam());
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, 6}, "x");
  std::vector<Output> values{x, constant(graph, random_tensor({}, random)), constant(graph, random_tensor({6}, random)),
                             constant(graph, random_tensor({6, 6}, random))};
  const std::vector<std::string> unary{"Neg", "Square", "Tanh", "Sigmoid", "Relu", "Abs", "Softplus"};
  const std::vector<std::string> binary{"AddV2", "Sub", "Mul", "Maximum", "SquaredDifference"};
  for (int i = 0; i < 40; ++i) {
    auto pick = [&] { return values[random() % values.size()]; };
    if (random() % 8 == 0) {
      Output a = pick();
      if (a.shape().rank() == 2) values.push_back(nn::relu(matmul(a, values[3]) + values[2]));
      continue;
    }
    const bool is_unary = random() % 3 == 0;
    Output a = pick();
    Output b = pick();
    try {
      values.push_back(is_unary ? op1(unary[random() % unary.size()], {a})
                                : op1(binary[random() % binary.size()], {a, b}));
    } catch (const Error& error) {
      // [6,6] with [?,6] may not broadcast; such a pair is drawn again.
      ASSERT_EQ(error.code(), Code::kInvalidArgument);
    }
  }
  std::vector<TensorName> fetches;
  for (std::size_t i = values.size() - 6; i < values.size(); ++i) fetches.push_back(values[i]);
  const Tensor fed = random_tensor({6, 6}, random);
  LocalSession plain(graph, with_passes(kNone));
  const std::vector<Tensor> wanted = plain.run({{x, fed}}, fetches);
  for (int pass = 0; pass < 4; ++pass) {
    PassOptions passes = kNone;
    passes.fold_constants = pass == 0 || pass == 3;
    passes.merge_common_subexpressions = pass == 1 || pass == 3;
    passes.fuse = pass == 2 || pass == 3;
    LocalSession optimised(graph, with_passes(passes));
    const std::vector<Tensor> got = optimised.run({{x, fed}}, fetches);
    for (std::size_t i = 0; i < got.size(); ++i) {
      expect_close(got[i], wanted[i], "pass set " + std::to_string(pass) + ", fetch " + fetches[i].str());
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGraph, ::testing::Range(0, 60));

TEST(Passes, ADenseLayerIsOneNode) {
  std::mt19937 random(1);
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, 4}, "x");
  Output y = nn::relu(nn::bias_add(matmul(x, constant(graph, random_tensor({4, 3}, random))),
                                   constant(graph, random_tensor({3}, random))));
  LocalSession session(graph, with_passes({}));
  const std::vector<std::string> ops = ops_run(session, {{x, random_tensor({2, 4}, random)}}, {y});
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "_FusedMatMul"), 1);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "MatMul") + std::count(ops.begin(), ops.end(), "Relu"), 0);
}

// Windows that overlap and that do not, few places, an empty batch, values that are no numbers.
TEST(Passes, AConvolutionalLayerAndItsGradientsStayTheSame) {
  std::mt19937 random(7);
  const std::vector<std::pair<Shape, std::int64_t>> sizes_and_windows{
      {Shape{2, 9, 9, 3}, 3}, {Shape{2, 10, 10, 3}, 2}, {Shape{3, 4, 4, 300}, 2}, {Shape{0, 9, 9, 3}, 3}};
  for (const auto& [size, window] : sizes_and_windows) {
    Graph graph(builtin_ops());
    const std::int64_t channels = size.dim(3), outputs = channels == 3 ? 5 : 400;
    Output x = placeholder(graph, DType::kFloat, size, "x");
    Output filter = constant(graph, random_tensor({3, 3, channels, outputs}, random, -1.5f));
    Output bias = constant(graph, random_tensor({outputs}, random, -1.5f));
    Output y = nn::max_pool(nn::relu(nn::bias_add(nn::conv2d(x, filter), bias)), {window, window}, {.strides = {2, 2}});
    std::vector<TensorName> fetches{y};
    for (const Gradient& slope : gradients({reduce_sum(y * y)}, {x, filter, bias})) fetches.push_back(slope.dense());
    Tensor fed = random_tensor(size, random, -1.5f);
    for (const bool broken : {false, true}) {
      if (broken && fed.num_elements() > 0) fed.flat<float>()[1] = std::nanf("");
      LocalSession plain(graph, with_passes(kNone));
      LocalSession optimised(graph, with_passes({}));
      const std::vector<Tensor> wanted = plain.run({{x, fed}}, fetches), got = optimised.run({{x, fed}}, fetches);
      for (std::size_t i = 0; i < got.size(); ++i) {
        expect_close(got[i], wanted[i], size.to_string() + ", fetch " + fetches[i].str());
      }
      const std::vector<std::string> ops = ops_run(optimised, {{x, fed}}, fetches);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "_FusedConv2D"), 1);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "_MaxPoolReluGrad"), 1);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "BiasAddGrad"), 0);
    }
  }
}

// Windows that tile the image, whose gradient takes its place, also where it ends within one, and that overlap.
TEST(Passes, TheGradientsOfAPooledReluStayTheSame) {
  struct Pooled {
    std::int64_t size, window;
    std::string padding;
  };
  std::mt19937 random(11);
  SessionOptions threaded = with_passes({});
  threaded.threads = {.intra_op_threads = 3, .loop_cut = LoopCut::kWhereverPossible, .inter_op_threads = 1};
  for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16}) {
    for (const auto& [size, window, padding] : {Pooled{8, 2, "VALID"}, Pooled{7, 2, "SAME"}, Pooled{8, 3, "VALID"}}) {
      Graph graph(builtin_ops());
      Output image = placeholder(graph, DType::kFloat, {3, size, size, 19}, "image");
      Output bias = placeholder(graph, DType::kFloat, {19}, "bias");
      Output relu = nn::relu(nn::bias_add(cast(image, dtype), cast(bias, dtype)));
      Output pooled = nn::max_pool(relu, {window, window}, {.strides = {2, 2}, .padding = padding});
      std::vector<TensorName> fetches;
      for (const Gradient& slope : gradients({reduce_sum(square(cast(pooled, DType::kFloat)))}, {image, bias})) {
        fetches.push_back(slope.dense());
      }
      Feeds feeds{{image, random_tensor({3, size, size, 19}, random, -1.5f)},
                  {bias, random_tensor({19}, random, -0.5f)}};
      LocalSession plain(graph, with_passes(kNone)), optimised(graph, threaded);
      for (const bool broken : {false, true}) {
        if (broken) feeds[0].second.flat<float>()[30] = std::nanf("");
        const std::vector<Tensor> wanted = plain.run(feeds, fetches), got = optimised.run(feeds, fetches);
        const std::string what = str_cat(dtype_name(dtype), ", windows of ", window, " on ", size, ", fetch ");
        const double tolerance = dtype_size(dtype) == 2 ? 1e-2 : 1e-5;
        for (std::size_t i = 0; i < got.size(); ++i)
          expect_close(got[i], wanted[i], what + fetches[i].str(), tolerance);
      }
      const std::vector<std::string> ops = ops_run(optimised, feeds, fetches);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "_MaxPoolReluGrad"), 1);
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "BiasAddGrad"), 0);
    }
  }
}

TEST(Passes, SumsOfLargeImagesAreExact) {
  Graph graph(builtin_ops());
  Output bias = placeholder(graph, DType::kFloat, {1}, "bias");
  Output relu = nn::relu(nn::bias_add(ones(graph, DType::kFloat, {1, 1024, 1024, 1}), bias));
  Output pooled = nn::max_pool(relu, {2, 2}, {.strides = {2, 2}});
  Output slope = gradients({reduce_sum(pooled * 0.1)}, {bias})[0].dense();
  LocalSession session(graph, with_passes({.fold_constants = false}));
  const float got = session.run({{bias, Tensor::vector<float>({1})}}, {slope})[0].flat<float>()[0];
  EXPECT_NEAR(got / (0.1f * 512 * 512), 1.0, 1e-5);
}

TEST(Passes, ABiasAndItsActivationStayTheSame) {
  std::mt19937 random(3);
  for (const char* activation : {"Relu", "Relu6", "Tanh", "Sigmoid"}) {
    for (const char* format : {"NHWC", "NCHW"}) {
      Graph graph(builtin_ops());
      Output x = placeholder(graph, DType::kFloat, {2, 6, 5, 6}, "x");
      Output bias = constant(graph, random_tensor({6}, random, -1.5f));
      Output y = op1(activation, {op1("BiasAdd", {x, bias}, {{"data_format", format}})});
      const Tensor fed = random_tensor({2, 6, 5, 6}, random, -1.5f);
      LocalSession plain(graph, with_passes(kNone)), optimised(graph, with_passes({}));
      expect_close(optimised.run({{x, fed}}, {y})[0], plain.run({{x, fed}}, {y})[0], activation);
      const std::vector<std::string> ops = ops_run(optimised, {{x, fed}}, {y});
      EXPECT_EQ(std::count(ops.begin(), ops.end(), "_FusedBiasAdd"), 1) << activation << " " << format;
    }
  }
}

TEST(Passes, AChainIsOneNode) {
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, -1}, "x");
  Output y = tanh(x * x + 1.0) * 0.5;
  LocalSession session(graph, with_passes({}));
  const Tensor fed = Tensor::of<float>({1, 2}, {1.0f, 2.0f});
  const std::vector<std::string> ops = ops_run(session, {{x, fed}}, {y});
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "_FusedElementwise"), 1);
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "Mul") + std::count(ops.begin(), ops.end(), "Tanh"), 0);
  const Tensor out = session.run({{x, fed}}, {y})[0];
  EXPECT_NEAR(out.flat<float>()[0], 0.5 * std::tanh(2.0), 1e-6);
  EXPECT_NEAR(out.flat<float>()[1], 0.5 * std::tanh(5.0), 1e-6);
}

TEST(Passes, AReadOfAVariableIsNeverOptimisedAway) {
  Graph graph(builtin_ops());
  Var w = variable(graph, Tensor::scalar(1.0f), "w");
  Output before = op1("ReadVariableOp", {w.handle()}, {{"dtype", DType::kFloat}});
  Output after;
  {
    Node* update = nullptr;
    {
      ScopeGuard first = graph.control_dependencies({before.node});
      update = w.assign_add(constant(graph, Tensor::scalar(5.0f)));
    }
    ScopeGuard second = graph.control_dependencies({update});
    after = op1("ReadVariableOp", {w.handle()}, {{"dtype", DType::kFloat}});
  }
  LocalSession session(graph, with_passes({}));
  session.run({global_variables_initializer(graph)});
  const std::vector<Tensor> out = session.run({}, {before, after});
  EXPECT_EQ(out[0].scalar<float>(), 1.0f);
  EXPECT_EQ(out[1].scalar<float>(), 6.0f);
  // Equal in op, inputs and attributes, and waiting for nothing: still two reads.
  Output again = op1("ReadVariableOp", {w.handle()}, {{"dtype", DType::kFloat}});
  const std::vector<std::string> ops = ops_run(session, {}, {before, again});
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "ReadVariableOp"), 2);
}

// The shapes below are known before the step.
TEST(Passes, TheShapeOfAReadStillReads) {
  Graph graph(builtin_ops());
  Var w = variable(graph, Tensor::vector<float>({1, 2, 3}), "w");
  Output size = op1("Size", {neg(w.read())});
  Output late;
  {
    ScopeGuard after = graph.control_dependencies({w.assign_add(ones(graph, DType::kFloat, {3}))});
    late = op1("Shape", {w.read_again()});
  }
  LocalSession session(graph, with_passes({}));
  const auto unset = session.try_run({}, {size});
  EXPECT_EQ(unset.status().code(), Code::kFailedPrecondition) << unset.status().to_string();
  session.run({global_variables_initializer(graph)});
  EXPECT_EQ(session.run({}, {size})[0].scalar<std::int32_t>(), 3);
  EXPECT_EQ(session.run({}, {late})[0].flat<std::int32_t>()[0], 3);
  EXPECT_EQ(session.run({}, {w})[0].flat<float>()[2], 4.0f) << "the update before the read happened";
}

TEST(Passes, TheShapeOfAnUpdateStillUpdates) {
  Graph graph(builtin_ops());
  Output ref = add_op(graph, "VariableV2", {}, {{"shape", PartialShape{2}}, {"dtype", DType::kFloat}}, "v")->output();
  Node* init = add_op(graph, "Assign", {ref, zeros(graph, DType::kFloat, {2})});
  Node* update = add_op(graph, "AssignAdd", {ref, ones(graph, DType::kFloat, {2})});
  Output rank = op1("Rank", {neg(identity(update->output()))});
  LocalSession session(graph, with_passes({}));
  session.run({init});
  EXPECT_EQ(session.run({}, {rank})[0].scalar<std::int32_t>(), 1);
  EXPECT_EQ(session.run({}, {identity(ref)})[0].flat<float>()[1], 1.0f);
}

}  // namespace tutti::passes_test
