// Values worked out by hand, what is refused, and what the builders make, of convolutions, pools and normalisations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "tests/support/graph_eval.h"
#include "tests/support/kernel_runner.h"
#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::conv_ops_test {

using List = std::vector<std::int64_t>;

const List kOnes{1, 1, 1, 1};
const List kTwos{1, 2, 2, 1};

Result<std::vector<Tensor>> evaluate(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs = {}) {
  return evaluate_op(*builtin_ops(), op, std::move(attrs), inputs);
}

void expect_refused(const std::string& op, const std::vector<Tensor>& inputs, AttrMap attrs,
                    const std::vector<std::string>& words, Code code = Code::kInvalidArgument) {
  Result<std::vector<Tensor>> result = evaluate(op, inputs, std::move(attrs));
  ASSERT_FALSE(result.ok()) << op << " " << words[0];
  EXPECT_EQ(result.status().code(), code) << result.status().to_string();
  for (const std::string& word : words) {
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  }
}

Tensor floats(const Shape& shape) { return Tensor(DType::kFloat, shape); }
Tensor image(std::initializer_list<float> values) {
  return Tensor::of<float>({1, 2, static_cast<std::int64_t>(values.size()) / 2, 1}, values);
}

AttrMap conv(AttrMap more = {}) {
  more.insert({{"strides", kOnes}, {"padding", "SAME"}});
  return more;
}
AttrMap pool(AttrMap more = {}) {
  more.insert({{"ksize", kTwos}, {"strides", kTwos}, {"padding", "SAME"}});
  return more;
}

TEST(ConvOps, ByHand) {
  const Tensor filter = Tensor::of<float>({1, 2, 1, 1}, {1, 10});
  const Tensor x = image({1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(bitwise_equal((*evaluate("Conv2D", {x, filter}, conv()))[0], image({21, 32, 3, 54, 65, 6})));
  EXPECT_TRUE(bitwise_equal((*evaluate("Conv2D", {x, filter}, {{"strides", kOnes}, {"padding", "VALID"}}))[0],
                            image({21, 32, 54, 65})));
}

TEST(ConvOps, EmptyBatchesAndOutputs) {
  const Tensor filter = floats({3, 3, 2, 4});
  EXPECT_EQ((*evaluate("Conv2D", {floats({0, 5, 5, 2}), filter}, conv()))[0].shape(), (Shape{0, 5, 5, 4}));
  EXPECT_EQ((*evaluate("Conv2D", {floats({1, 0, 5, 2}), filter}, conv()))[0].shape(), (Shape{1, 0, 5, 4}));
  EXPECT_EQ(
      (*evaluate("Conv2D", {floats({1, 2, 2, 2}), filter}, {{"strides", kOnes}, {"padding", "VALID"}}))[0].shape(),
      (Shape{1, 0, 0, 4}));
  const Tensor sizes = Tensor::vector<std::int32_t>({3, 3, 2, 4});
  const Tensor grad =
      (*evaluate("Conv2DBackpropFilter", {floats({0, 5, 5, 2}), sizes, floats({0, 5, 5, 4})}, conv()))[0];
  EXPECT_TRUE(bitwise_equal(grad, filter));
}

TEST(ConvOps, InputSizesMayBeRowsAndColumnsOnly) {
  const Tensor grad =
      (*evaluate("Conv2DBackpropInput",
                 {Tensor::vector<std::int32_t>({5, 6}), floats({3, 3, 2, 4}), floats({2, 5, 6, 4})}, conv()))[0];
  EXPECT_EQ(grad.shape(), (Shape{2, 5, 6, 2}));
}

TEST(ConvOps, BadInputsAreNamed) {
  const Tensor x = floats({1, 5, 5, 4}), filter = floats({3, 3, 2, 4});
  expect_refused("Conv2D", {floats({5, 5, 2}), filter}, conv(), {"4-dimensional", "[5,5,2]"});
  expect_refused("Conv2D", {x, floats({3, 3, 3, 4})}, conv(), {"evenly divisible by filter depth: 4 vs 3"});
  expect_refused("Conv2D", {x, floats({3, 3, 2, 3})}, conv(), {"number of groups: 3 vs 2"});
  expect_refused("Conv2D", {x, floats({3, 3, 0, 4})}, conv(), {"filter depth", "0"});
  expect_refused("Conv2D", {x, floats({0, 3, 2, 4})}, conv(), {"must not have zero elements"});
  expect_refused("Conv2D", {floats({1, 1, 5, 4}), filter}, {{"strides", kOnes}, {"padding", "VALID"}},
                 {"negative: -1", "input_size: 1"});
  expect_refused("Conv2DBackpropInput", {Tensor::vector<std::int32_t>({1, 5, 5, 4}), filter, floats({1, 4, 5, 4})},
                 conv(), {"actual = 4, computed = 5", "spatial_dim: 1"});
  expect_refused("Conv2DBackpropInput", {Tensor::vector<std::int32_t>({2, 5, 5, 4}), filter, floats({1, 5, 5, 4})},
                 conv(), {"same batch size", "2", "1"});
  expect_refused("Conv2DBackpropInput", {Tensor::vector<std::int32_t>({1, -5, 5, 4}), filter, floats({1, 5, 5, 4})},
                 conv(), {"-5"});
  expect_refused("Conv2DBackpropInput", {Tensor::vector<std::int32_t>({1, 5, 5}), filter, floats({1, 5, 5, 4})}, conv(),
                 {"4 or 2", "[3]"});
  expect_refused("Conv2DBackpropFilter", {x, Tensor::vector<std::int32_t>({3, 3, 2}), floats({1, 5, 5, 4})}, conv(),
                 {"filter_sizes", "[3]"});
  expect_refused("DepthwiseConv2dNative", {x, floats({3, 3, 2, 4})}, conv(), {"same depth: 4 vs 2"});
}

TEST(ConvOps, BadAttributesAreNamed) {
  const std::vector<Tensor> in{floats({1, 5, 5, 2}), floats({3, 3, 2, 4})};
  const auto refused = [&](AttrMap attrs, const std::string& word, Code code = Code::kInvalidArgument) {
    expect_refused("Conv2D", in, conv(std::move(attrs)), {word}, code);
  };
  refused({{"strides", List{1, 0, 1, 1}}}, "larger than 0, got 0");
  refused({{"strides", List{1, 1, -1, 1}}}, "-1");
  refused({{"strides", List{1, 1, 1}}}, "4 dimensions");
  refused({{"strides", List{1, std::int64_t{1} << 40, 1, 1}}}, "too large");
  refused({{"strides", List{2, 1, 1, 1}}}, "batch and depth", Code::kUnimplemented);
  refused({{"dilations", List{1, 0, 1, 1}}}, "dilations");
  refused({{"dilations", List{1, 1, 1, 2}}}, "batch and depth", Code::kUnimplemented);
  refused({{"explicit_paddings", List{0, 0, 1, 1, 1, 1, 0, 0}}}, "must be empty");
  refused({{"padding", "EXPLICIT"}}, "must contain 8 values, but got: 0");
  refused({{"padding", "EXPLICIT"}, {"explicit_paddings", List{0, 0, -1, 0, 0, 0, 0, 0}}}, "nonnegative");
  refused({{"padding", "EXPLICIT"}, {"explicit_paddings", List{1, 0, 0, 0, 0, 0, 0, 0}}}, "batch or depth");
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  refused({{"padding", "EXPLICIT"}, {"explicit_paddings", List{0, 0, huge, huge, 0, 0, 0, 0}}}, "more than");
}

TEST(PoolOps, TheFirstOfEqualMaximaGetsTheGradient) {
  const Tensor x = image({1, 1, 1, 1}), one = Tensor::of<float>({1, 1, 1, 1}, {5});
  EXPECT_TRUE(bitwise_equal((*evaluate("MaxPoolGrad", {x, one, one}, pool()))[0], image({5, 0, 0, 0})));
  const std::vector<Tensor> both = *evaluate("MaxPoolWithArgmax", {x}, pool());
  EXPECT_EQ(both[1].scalar<std::int64_t>(), 0);
}

TEST(PoolOps, PaddingNeverWinsAndNanShows) {
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ((*evaluate("MaxPool", {Tensor::of<float>({1, 1, 1, 1}, {-3})}, pool()))[0].scalar<float>(), -3);
  EXPECT_EQ((*evaluate("MaxPool", {image({-infinity, -infinity, -infinity, -infinity})}, pool()))[0].scalar<float>(),
            -infinity);
  for (const Tensor& x : {image({nan, 1, 2, 3}), image({1, 2, nan, 3}), image({1, 2, 3, nan})}) {
    EXPECT_TRUE(std::isnan((*evaluate("MaxPool", {x}, pool()))[0].scalar<float>()));
  }
}

// The gradient of maxima of an [n, size, size, channels] image, pixel by pixel: to the first NaN of a window, or else
// to the first of its largest.
Tensor plain_max_grad(const Tensor& x, const Tensor& grad, std::int64_t window, std::int64_t stride) {
  const std::int64_t size = x.dim(1), channels = x.dim(3), out = grad.dim(1);
  Tensor to = Tensor(DType::kFloat, x.shape());
  std::fill_n(to.data<float>(), to.num_elements(), 0.0f);
  for (std::int64_t i = 0; i < grad.num_elements(); ++i) {
    const std::int64_t channel = i % channels, cell = i / channels;
    const std::int64_t first = (cell / (out * out) * size + cell / out % out * stride) * size + cell % out * stride;
    std::int64_t winner = first * channels + channel;
    for (std::int64_t k = 1; k < window * window; ++k) {
      const std::int64_t at = (first + k / window * size + k % window) * channels + channel;
      const float best = x.data<float>()[winner], value = x.data<float>()[at];
      if (value > best || (std::isnan(value) && !std::isnan(best))) winner = at;
    }
    to.data<float>()[winner] += grad.data<float>()[i];
  }
  return to;
}

// The outputs of a gradient that nobody else reads the image after; whether they are where windows tile it.
std::vector<Tensor> grad_in_place(const std::string& op, const Tensor& x, const Tensor& y, const Tensor& grad,
                                  const AttrMap& attrs, bool tiled) {
  testing::KernelRunner runner;
  runner.give_up_inputs();
  Tensor image = x.clone().value_or_throw();
  const void* const place = image.raw();
  std::vector<Value> inputs;
  inputs.push_back(testing::value_of(std::move(image)));
  inputs.push_back(testing::value_of(y));
  inputs.push_back(testing::value_of(grad));
  const auto done = runner.run("unpool", op, attrs, std::move(inputs));
  EXPECT_TRUE(done->status().ok()) << done->status().to_string();
  EXPECT_EQ(done->tensor().raw() == place, tiled) << op;
  std::vector<Tensor> outputs{done->tensor()};
  if (op == "_MaxPoolReluGrad") outputs.push_back(done->tensor(1));
  return outputs;
}

TEST(PoolOps, GradientsOfMaximaGoToOnePixelEach) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{1, -1, 0, -0.0f, 2, 2, 1.5, -3, infinity, -infinity, std::nanf("")};
  std::mt19937 random(7);
  for (const auto& [window, stride] : {std::pair<std::int64_t, std::int64_t>{2, 2}, {3, 3}, {3, 1}, {2, 1}}) {
    for (const std::int64_t channels : {1, 8, 19, 32}) {
      for (const std::size_t kinds : {values.size() - 3, values.size()}) {
        Tensor x = floats({2, 6, 6, channels});
        for (std::int64_t i = 0; i < x.num_elements(); ++i) x.data<float>()[i] = values[random() % kinds];
        const AttrMap attrs{
            {"ksize", List{1, window, window, 1}}, {"strides", List{1, stride, stride, 1}}, {"padding", "VALID"}};
        const Tensor y = (*evaluate("MaxPool", {x}, attrs))[0];
        Tensor grad = floats(y.shape());
        for (std::int64_t i = 0; i < grad.num_elements(); ++i) grad.data<float>()[i] = static_cast<float>(i % 16 + 1);
        const std::string what =
            str_cat(window, "x", window, " by ", stride, ", ", channels, " channels, ", kinds, " values");
        const Tensor wanted = plain_max_grad(x, grad, window, stride);
        EXPECT_TRUE(bitwise_equal((*evaluate("MaxPoolGrad", {x, y, grad}, attrs))[0], wanted)) << what;
        const bool tiled = window == stride;
        EXPECT_TRUE(bitwise_equal(grad_in_place("MaxPoolGrad", x, y, grad, attrs, tiled)[0], wanted)) << what;

        Tensor sums = floats({channels});
        for (float& sum : sums.flat<float>()) sum = 0;
        for (std::int64_t i = 0; i < grad.num_elements(); ++i) {
          if (!(y.data<float>()[i] > 0)) grad.data<float>()[i] = 0;
          sums.data<float>()[i % channels] += grad.data<float>()[i];
        }
        const std::vector<Tensor> masked = grad_in_place("_MaxPoolReluGrad", x, y, grad, attrs, tiled);
        EXPECT_TRUE(bitwise_equal(masked[0], plain_max_grad(x, grad, window, stride))) << what;
        EXPECT_TRUE(bitwise_equal(masked[1], sums)) << what;
      }
    }
  }
}

TEST(PoolOps, MeansCountNoPadding) {
  const Tensor mean = (*evaluate("AvgPool", {Tensor::of<float>({1, 3, 3, 1}, {0, 1, 2, 3, 4, 5, 6, 0, 1})}, pool()))[0];
  EXPECT_TRUE(bitwise_equal(mean, Tensor::of<float>({1, 2, 2, 1}, {2, 3.5, 3, 1})));
  const Tensor grad = (*evaluate(
      "AvgPoolGrad", {Tensor::vector<std::int32_t>({1, 3, 3, 1}), Tensor::of<float>({1, 2, 2, 1}, {4, 2, 2, 1})},
      pool()))[0];
  EXPECT_TRUE(bitwise_equal(grad, Tensor::of<float>({1, 3, 3, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1})));
}

TEST(PoolOps, BadInputsAreNamed) {
  const Tensor x = floats({1, 4, 4, 2});
  expect_refused("MaxPool", {floats({4, 4, 2})}, pool(), {"4-dimensional", "[4,4,2]"});
  expect_refused("MaxPool", {x}, pool({{"ksize", List{1, 0, 2, 1}}}), {"dimension 1 was 0"});
  expect_refused("MaxPool", {x}, pool({{"strides", List{1, 2, -2, 1}}}), {"-2"});
  expect_refused("MaxPool", {x}, pool({{"ksize", List{2, 2, 2, 1}}}), {"batch"}, Code::kUnimplemented);
  expect_refused("MaxPool", {x}, pool({{"strides", List{-1, 2, 2, 1}}}), {"batch"}, Code::kUnimplemented);
  EXPECT_EQ((*evaluate("MaxPool", {x}, pool({{"strides", List{1, 2, 2, 7}}})))[0].shape(), (Shape{1, 2, 2, 2}));
  expect_refused("MaxPool", {x}, pool({{"ksize", List{1, 2, 2, 2}}}), {"exactly one"}, Code::kUnimplemented);
  expect_refused("AvgPool", {x}, pool({{"ksize", List{1, 1, 1, 2}}}), {"depth"}, Code::kUnimplemented);
  expect_refused("MaxPool", {x}, pool({{"padding", "EXPLICIT"}, {"explicit_paddings", List{0, 0, 2, 0, 0, 0, 0, 0}}}),
                 {"smaller than the window size 2"});
  expect_refused("MaxPoolGrad", {x, floats({1, 3, 2, 2}), floats({1, 2, 2, 2})}, pool(),
                 {"orig_output", "[1,2,2,2]", "[1,3,2,2]"});
  expect_refused("MaxPoolGrad", {x, floats({1, 2, 2, 2}), floats({1, 2, 3, 2})}, pool(), {"grad", "[1,2,3,2]"});
  expect_refused("AvgPoolGrad", {Tensor::vector<std::int32_t>({1, 4, 4, 2}), floats({1, 3, 2, 2})}, pool(),
                 {"[1,2,2,2]", "[1,3,2,2]"});
  expect_refused("MaxPoolV2", {x, Tensor::vector<std::int32_t>({1, 2, 2}), Tensor::vector<std::int32_t>({1, 2, 2, 1})},
                 {{"padding", "SAME"}}, {"4 dimensions"});
  const Tensor places = Tensor::of<std::int64_t>({1, 1, 1, 1}, {4});
  expect_refused("MaxPoolGradWithArgmax", {image({1, 2, 3, 4}), floats({1, 1, 1, 1}), places}, pool(),
                 {"argmax[0] is 4", "4 elements"});
}

TEST(BatchNorm, ByHand) {
  const Tensor x = Tensor::of<float>({4, 1, 1, 1}, {1, 2, 3, 6});
  const Tensor two = Tensor::vector<float>({2}), none = floats({0});
  const std::vector<Tensor> out =
      *evaluate("FusedBatchNormV3", {x, two, Tensor::vector<float>({10}), none, none}, {{"epsilon", 0.5f}});
  EXPECT_EQ(out[1].scalar<float>(), 3);
  EXPECT_FLOAT_EQ(out[2].scalar<float>(), 14.0f / 3);
  EXPECT_EQ(out[3].scalar<float>(), 3);
  EXPECT_EQ(out[4].scalar<float>(), 3.5f);
  EXPECT_EQ(out[5].shape(), Shape{});
  const float expected[] = {8, 9, 10, 13};
  for (int i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(out[0].data<float>()[i], expected[i]);
}

// Digits are not lost to a mean that is large beside the spread.
TEST(BatchNorm, LargeMeansKeepTheirDigits) {
  for (const std::int64_t channels : {5, 513}) {
    Tensor x = floats({100, 3, 3, channels});
    // Grows with the rows, too, so that blocks of them have other means than the whole.
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      const std::int64_t row = i / channels;
      x.data<float>()[i] = 4096.0f + static_cast<float>(row % 2) + (row < 450 ? 0.0f : 2.0f);
    }
    Tensor ones = floats({channels});
    for (float& value : ones.flat<float>()) value = 1;
    const std::vector<Tensor> out = *evaluate("FusedBatchNorm", {x, ones, ones, floats({0}), floats({0})});
    for (std::int64_t c = 0; c < channels; ++c) {
      EXPECT_NEAR(out[3].data<float>()[c], 4097.5f, 1e-3) << c << " of " << channels;
      EXPECT_NEAR(out[4].data<float>()[c], 1.25f, 1e-4) << c << " of " << channels;
    }
  }
}

TEST(BatchNorm, BadInputsAreNamed) {
  const Tensor x = floats({2, 2, 2, 2}), v = floats({2}), none = floats({0});
  expect_refused("FusedBatchNormV3", {floats({4, 2}), v, v, v, v}, {}, {"4 or 5-dimensional", "[4,2]"});
  expect_refused("FusedBatchNormV3", {x, floats({3}), v, v, v}, {}, {"scale", "got 3 and 2"});
  expect_refused("FusedBatchNormV3", {x, v, v, none, none}, {{"is_training", false}},
                 {"When is_training=false, mean", "got 0 and 2"});
  expect_refused("FusedBatchNormV3", {x, v, v, none, none}, {{"exponential_avg_factor", 0.5f}},
                 {"exponential_avg_factor != 1, mean"});
  expect_refused("FusedBatchNormGradV2", {floats({2, 2, 2, 1}), x, v, v, v}, {}, {"same shape"});
  expect_refused("FusedBatchNormGradV2", {x, x, v, none, v}, {}, {"saved mean", "got 0 and 2"});
}

TEST(Lrn, BadInputsAreNamed) {
  expect_refused("LRN", {floats({2, 2})}, {}, {"4-dimensional"});
  expect_refused("LRN", {floats({1, 1, 2, 2})}, {{"depth_radius", -1}}, {"depth_radius = -1"});
  const Tensor x = floats({1, 1, 2, 2});
  expect_refused("LRNGrad", {x, floats({1, 1, 2, 3}), x}, {}, {"[1,1,2,2]", "[1,1,2,3]"});
}

PartialShape shape_of_node(const std::string& op, const std::vector<PartialShape>& inputs, AttrMap attrs) {
  Graph graph(builtin_ops()->registry());
  std::vector<Output> in;
  for (const PartialShape& shape : inputs) in.push_back(placeholder(graph, DType::kFloat, shape));
  return op1(op, in, std::move(attrs)).shape();
}

TEST(WindowShapes, WhatIsKnownBeforeTheRun) {
  EXPECT_EQ(shape_of_node("Conv2D", {{-1, 28, 28, 1}, {5, 5, 1, 32}}, conv()), (PartialShape{-1, 28, 28, 32}));
  EXPECT_EQ(shape_of_node("Conv2D", {{-1, 28, -1, 1}, {5, 5, 1, 32}}, {{"strides", kTwos}, {"padding", "VALID"}}),
            (PartialShape{-1, 12, -1, 32}));
  EXPECT_EQ(shape_of_node("Conv2D", {{2, 3, 9, 9}, {}}, conv({{"data_format", "NCHW"}})), (PartialShape{2, -1, 9, 9}));
  EXPECT_EQ(shape_of_node("DepthwiseConv2dNative", {{2, 9, 9, 3}, {3, 3, 3, 2}}, conv()), (PartialShape{2, 9, 9, 6}));
  EXPECT_EQ(shape_of_node("MaxPool", {{-1, 7, 8, 3}}, pool()), (PartialShape{-1, 4, 4, 3}));
  EXPECT_EQ(shape_of_node("AvgPool", {{}}, pool()), (PartialShape{-1, -1, -1, -1}));
  EXPECT_THROW(shape_of_node("Conv2D", {{1, 9, 9, 3}, {3, 3, 2, 4}}, conv()), Error);
  EXPECT_THROW(shape_of_node("MaxPool", {{1, 2, 2, 3}}, pool({{"ksize", List{1, 9, 9, 1}}, {"padding", "VALID"}})),
               Error);
}

TEST(NnBuilders, WindowsMakeTheirNodes) {
  Graph graph(builtin_ops()->registry());
  Output x = placeholder(graph, DType::kFloat, {-1, 28, 28, 3});
  Output filter = placeholder(graph, DType::kFloat, {3, 3, 3, 8});
  Output y = nn::conv2d(x, filter, {.strides = {2, 2}, .padding = "SAME"});
  EXPECT_EQ(y.shape(), (PartialShape{-1, 14, 14, 8}));
  EXPECT_EQ(nn::max_pool(y, {2, 2}, {.strides = {2, 2}}).shape(), (PartialShape{-1, 7, 7, 8}));
  EXPECT_EQ(nn::avg_pool(y, {14, 14}).shape(), (PartialShape{-1, 1, 1, 8}));
  EXPECT_EQ(nn::depthwise_conv2d(x, filter, {.dilations = {2, 1}}).shape(), (PartialShape{-1, 24, 26, 24}));
  EXPECT_EQ(nn::conv2d_transpose(y, filter, Ints{5, 28, 28, 3}, {.strides = {2, 2}, .padding = "SAME"}).shape(),
            (PartialShape{5, 28, 28, 3}));
  Output scale = ones(graph, DType::kFloat, {8});
  const nn::BatchNormOutputs norm = nn::fused_batch_norm(y, scale, scale);
  EXPECT_EQ(norm.y.shape(), y.shape());
  EXPECT_EQ(norm.batch_variance.shape(), (PartialShape{8}));
  EXPECT_EQ(nn::local_response_normalization(y).shape(), y.shape());
  EXPECT_THROW(nn::max_pool(y, {2, 2}, {.dilations = {2, 2}}), Error);
}

}  // namespace tutti::conv_ops_test
