// Convolutions and pools of volumes, dilation and the windows of patches: the float kernels against the double ones in
// sizes that drawn cases (tests/interop/drawn) do not reach, values by hand, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tutti/ops/op_evaluator.h"
#include "tutti/ops/op_table.h"

namespace tutti::volume_ops_test {

using List = std::vector<std::int64_t>;

Result<std::vector<Tensor>> try_op(const std::string& op, const std::vector<Tensor>& inputs, const AttrMap& attrs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}

Tensor drawn_volume(const Shape& shape, unsigned seed) {
  Tensor tensor(DType::kDouble, shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (double& element : tensor.flat<double>()) element = uniform(random);
  return tensor;
}
Tensor as_float(const Tensor& from) {
  if (from.dtype() != DType::kDouble) return from;
  Tensor to(DType::kFloat, from.shape());
  std::transform(from.data<double>(), from.data<double>() + from.num_elements(), to.data<float>(),
                 [](double x) { return static_cast<float>(x); });
  return to;
}
Tensor sizes_of(const Shape& shape) {
  return Tensor::vector<std::int32_t>(std::vector<std::int32_t>(shape.dims().begin(), shape.dims().end()));
}

void compare_types(const std::string& op, const std::vector<Tensor>& inputs, const AttrMap& attrs) {
  SCOPED_TRACE(op);
  std::vector<Tensor> floats;
  for (const Tensor& input : inputs) floats.push_back(as_float(input));
  const auto wide = try_op(op, inputs, attrs), narrow = try_op(op, floats, attrs);
  ASSERT_TRUE(wide.ok()) << wide.status().to_string();
  ASSERT_TRUE(narrow.ok()) << narrow.status().to_string();
  ASSERT_EQ((*wide)[0].shape(), (*narrow)[0].shape());
  double worst = 0;
  for (std::int64_t i = 0; i < (*wide)[0].num_elements(); ++i) {
    const double got = static_cast<double>((*narrow)[0].data<float>()[i]);
    worst = std::max(worst, std::abs((*wide)[0].data<double>()[i] - got));
  }
  EXPECT_LT(worst, 1e-3);
}

struct Conv3dSize {
  Shape input, filter;
};

void compare_conv3d(const std::string& format, const std::string& padding, const List& steps, const List& rates,
                    const Conv3dSize& size) {
  SCOPED_TRACE(format + padding);
  const bool first = format == "NCDHW";
  const auto five = [&](const List& three) {
    return first ? List{1, 1, three[0], three[1], three[2]} : List{1, three[0], three[1], three[2], 1};
  };
  const AttrMap attrs{
      {"strides", five(steps)}, {"dilations", five(rates)}, {"padding", padding}, {"data_format", format}};
  const Tensor volumes = drawn_volume(size.input, 1), weights = drawn_volume(size.filter, 2);
  const auto y = try_op("Conv3D", {volumes, weights}, attrs);
  ASSERT_TRUE(y.ok()) << y.status().to_string();
  const Tensor above = drawn_volume((*y)[0].shape(), 3);
  compare_types("Conv3D", {volumes, weights}, attrs);
  compare_types("Conv3DBackpropInputV2", {sizes_of(size.input), weights, above}, attrs);
  compare_types("Conv3DBackpropFilterV2", {volumes, sizes_of(size.filter), above}, attrs);
}

TEST(Volumes, Conv3dInFloatAndInDouble) {
  const Conv3dSize last{{3, 7, 9, 11, 8}, {2, 3, 3, 8, 16}}, second{{3, 8, 7, 9, 11}, {2, 3, 3, 8, 16}};
  compare_conv3d("NDHWC", "SAME", {1, 2, 1}, {1, 1, 1}, last);
  compare_conv3d("NDHWC", "VALID", {1, 1, 1}, {1, 2, 2}, last);
  compare_conv3d("NCDHW", "SAME", {2, 1, 1}, {1, 1, 1}, second);
  compare_conv3d("NDHWC", "SAME", {1, 1, 1}, {1, 1, 1}, {last.input, {2, 3, 3, 4, 16}});
}

// Images of this size, whose filter is large beside them, are convolved in another way than volumes are.
TEST(Volumes, SmallVolumesWithALargeFilter) {
  compare_conv3d("NDHWC", "SAME", {1, 1, 1}, {1, 1, 1}, {{1, 3, 8, 8, 64}, {3, 3, 3, 64, 64}});
  compare_conv3d("NDHWC", "VALID", {1, 1, 1}, {1, 1, 1}, {{1, 2, 4, 4, 256}, {1, 1, 1, 256, 256}});
}

TEST(Volumes, PoolsByHand) {
  const AttrMap attrs{{"ksize", List{1, 2, 1, 2, 1}}, {"strides", List{1, 1, 1, 2, 1}}, {"padding", "VALID"}};
  const Tensor x = Tensor::of<float>({1, 2, 1, 4, 1}, {1, 2, 3, 4, 8, 7, 6, 5});
  EXPECT_TRUE(bitwise_equal((*try_op("MaxPool3D", {x}, attrs))[0], Tensor::of<float>({1, 1, 1, 2, 1}, {8, 6})));
  EXPECT_TRUE(bitwise_equal((*try_op("AvgPool3D", {x}, attrs))[0], Tensor::of<float>({1, 1, 1, 2, 1}, {4.5, 4.5})));
}

TEST(Volumes, Refusals) {
  const auto expect_refused = [](const Result<std::vector<Tensor>>& result, const std::string& word) {
    ASSERT_FALSE(result.ok()) << word;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_NE(result.status().message().find(word), std::string::npos) << result.status().to_string();
  };
  const Tensor x(DType::kFloat, {1, 3, 3, 3, 2}), filter(DType::kFloat, {2, 2, 2, 2, 1});
  const AttrMap plain{{"strides", List{1, 1, 1, 1, 1}}, {"padding", "VALID"}};
  const auto with = [&](const std::string& name, const List& value) {
    AttrMap attrs = plain;
    attrs[name] = value;
    return attrs;
  };
  expect_refused(try_op("Conv3D", {x, Tensor(DType::kFloat, {2, 2, 2, 3, 1})}, plain), "depth");
  expect_refused(try_op("Conv3D", {x, Tensor(DType::kFloat, {2, 2, 2, 0, 1})}, plain), "");
  expect_refused(try_op("Conv3D", {x, Tensor(DType::kFloat, {5, 2, 2, 2, 1})}, plain), "negative");
  expect_refused(try_op("Conv3D", {x, Tensor(DType::kFloat, {2, 2, 2, 2})}, plain), "5");
  expect_refused(try_op("Conv3D", {x, filter}, with("strides", {1, 0, 1, 1, 1})), "strides");
  expect_refused(try_op("Conv3D", {x, filter}, with("strides", {2, 1, 1, 1, 1})), "batch");
  expect_refused(try_op("Conv3D", {x, filter}, with("dilations", {1, 1, 1, 1})), "5");
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  expect_refused(try_op("Conv3D", {x, filter}, with("strides", {1, most, 1, 1, 1})), "strides");
  const Tensor y(DType::kFloat, {1, 2, 2, 2, 1}), wrong(DType::kFloat, {1, 2, 2, 3, 1});
  expect_refused(try_op("Conv3DBackpropInputV2", {sizes_of(x.shape()), filter, wrong}, plain), "out_backprop");
  expect_refused(try_op("Conv3DBackpropInputV2", {sizes_of({1, 3, 3}), filter, y}, plain), "");
  expect_refused(try_op("Conv3DBackpropFilterV2", {x, Tensor::vector<std::int32_t>({2, 2, 2, -2, 1}), y}, plain), "");
  AttrMap pool = with("ksize", {1, 2, 2, 2, 1});
  expect_refused(try_op("AvgPool3DGrad", {sizes_of(x.shape()), y}, pool), "grad");
  expect_refused(try_op("MaxPool3DGrad", {x, y, y}, pool), "orig_output");
  const Tensor image(DType::kFloat, {1, 3, 3, 2});
  const AttrMap dilation{{"strides", List{1, 1, 1, 1}}, {"rates", List{1, 1, 1, 1}}, {"padding", "SAME"}};
  expect_refused(try_op("Dilation2D", {image, Tensor(DType::kFloat, {2, 2, 3})}, dilation), "");
  expect_refused(try_op("Dilation2D", {image, Tensor(DType::kFloat, {0, 2, 2})}, dilation), "");
}

// A sum of zero is not over the lowest number of what has no sign. Gradients as of TensorFlow 2.15.
template <typename T>
void expect_dilation_of_zeros(const std::vector<T>& to_filter, const std::vector<T>& to_image) {
  const AttrMap attrs{{"strides", List{1, 1, 1, 1}}, {"rates", List{1, 2, 2, 1}}, {"padding", "SAME"}};
  const std::vector<T> zeros(9, 0), ones(9, 1);
  const Tensor image = Tensor::of<T>({1, 3, 3, 1}, zeros);
  const Tensor filter = Tensor::of<T>({2, 2, 1}, std::span<const T>(zeros).first(4));
  const Tensor slope = Tensor::of<T>({1, 3, 3, 1}, ones);
  const auto of_filter = try_op("Dilation2DBackpropFilter", {image, filter, slope}, attrs);
  const auto of_image = try_op("Dilation2DBackpropInput", {image, filter, slope}, attrs);
  EXPECT_TRUE(bitwise_equal((*of_filter)[0], Tensor::of<T>({2, 2, 1}, to_filter)));
  EXPECT_TRUE(bitwise_equal((*of_image)[0], Tensor::of<T>({1, 3, 3, 1}, to_image)));
}

TEST(Dilation, WhereNothingIsOverTheLowestNumberTheFirstCellWins) {
  expect_dilation_of_zeros<std::uint8_t>({9, 0, 0, 0}, {4, 2, 0, 2, 1, 0, 0, 0, 0});
  expect_dilation_of_zeros<std::uint64_t>({9, 0, 0, 0}, {4, 2, 0, 2, 1, 0, 0, 0, 0});
  expect_dilation_of_zeros<std::int32_t>({4, 2, 2, 1}, {1, 2, 0, 2, 4, 0, 0, 0, 0});
}

}  // namespace tutti::volume_ops_test
