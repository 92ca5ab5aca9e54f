// What the comparison with TensorFlow does not draw: withdrawn ops, hostile values.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/support/kernel_runner.h"

namespace tutti::image_ops_test {

using testing::KernelRunner;
using testing::value_of;

class ImageOps : public ::testing::Test {
 protected:
  std::unique_ptr<testing::KernelRun> run(const std::string& op, AttrMap attrs, std::vector<Value> inputs) {
    return runner_.start(op + std::to_string(count_++), op, std::move(attrs), std::move(inputs));
  }
  static Value ints(std::vector<std::int32_t> values) { return value_of(Tensor::vector<std::int32_t>(values)); }
  static Value floats(const Shape& shape, std::vector<float> values) {
    return value_of(Tensor::of<float>(shape, std::span<const float>(values)));
  }

  KernelRunner runner_;
  int count_ = 0;
};

TEST_F(ImageOps, RandomCropTakesAPartOfTheImage) {
  Tensor image(DType::kInt32, Shape{5, 6, 2});
  for (int i = 0; i < 60; ++i) image.data<std::int32_t>()[i] = i;
  auto crop =
      run("RandomCrop", {{"seed", 7}, {"seed2", 3}}, {value_of(image), value_of(Tensor::vector<std::int64_t>({2, 3}))});
  ASSERT_TRUE(crop->status().ok()) << crop->status().to_string();
  const Tensor out = crop->tensor();
  ASSERT_EQ(out.shape(), (Shape{2, 3, 2}));
  const std::int32_t first = out.data<std::int32_t>()[0];
  for (int y = 0; y < 2; ++y) {
    for (int i = 0; i < 6; ++i) EXPECT_EQ(out.data<std::int32_t>()[6 * y + i], first + 12 * y + i);
  }
  auto large = run("RandomCrop", {{"seed", 7}}, {value_of(image), value_of(Tensor::vector<std::int64_t>({2, 7}))});
  EXPECT_EQ(large->status().code(), Code::kFailedPrecondition);
  auto negative = run("RandomCrop", {{"seed", 7}}, {value_of(image), value_of(Tensor::vector<std::int64_t>({-2, 3}))});
  EXPECT_EQ(negative->status().code(), Code::kInvalidArgument);
}

TEST_F(ImageOps, HugeSizesAreRefused) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  for (const char* op : {"ResizeBilinear", "ResizeBicubic", "ResizeNearestNeighbor", "ResizeArea"}) {
    auto huge = run(op, {}, {floats({1, 1, 1, 1}, {1}), ints({most, most})});
    EXPECT_FALSE(huge->status().ok()) << op;
  }
  auto grad = run("ResizeNearestNeighborGrad", {}, {floats({1, 1, 1, 1}, {1}), ints({most, most})});
  EXPECT_FALSE(grad->status().ok());
  auto crops = run("CropAndResizeGradImage", {{"T", DType::kFloat}},
                   {floats({1, 1, 1, 1}, {1}), floats({1, 4}, {0, 0, 1, 1}), ints({0}), ints({most, most, most, 1})});
  EXPECT_FALSE(crops->status().ok());
}

TEST_F(ImageOps, NoBoxesHaveAVectorOfNoIndices) {
  for (const Shape& shape : {Shape{0}, Shape{1, 0}}) {
    auto crops =
        run("CropAndResize", {},
            {floats({1, 1, 1, 1}, {1}), floats({0, 4}, {}), value_of(Tensor(DType::kInt32, shape)), ints({2, 2})});
    const Code wanted = shape.rank() == 1 ? Code::kOk : Code::kInvalidArgument;
    EXPECT_EQ(crops->status().code(), wanted) << crops->status().to_string();
  }
}

TEST_F(ImageOps, BoxesThatAreNotNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const float bad : {nan, inf, -inf}) {
    auto crop = run(
        "CropAndResize", {},
        {floats({1, 2, 2, 1}, {1, 2, 3, 4}), floats({2, 4}, {0, 0, 1, 1, 0, 0, bad, 1}), ints({0, 0}), ints({2, 2})});
    EXPECT_EQ(crop->status(), invalid_argument("Boxes contains at least one element that is not finite"));
  }
  auto drawn = run("DrawBoundingBoxes", {},
                   {floats({1, 2, 2, 1}, {5, 5, 5, 5}), floats({1, 2, 4}, {nan, nan, nan, nan, -inf, -inf, inf, inf})});
  ASSERT_TRUE(drawn->status().ok()) << drawn->status().to_string();
  for (const float value : drawn->tensor().flat<float>()) EXPECT_EQ(value, 5);
}

TEST_F(ImageOps, ColoursHaveThreeChannels) {
  const Value five = floats({5}, {1, 2, 3, 4, 5});
  for (const char* op : {"RGBToHSV", "HSVToRGB"}) {
    const Status status = run(op, {}, {five})->status();
    EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.to_string();
    EXPECT_NE(status.message().find("3 channels but instead has 5"), std::string::npos) << status.to_string();
  }
  auto hue = run("AdjustHue", {}, {floats({1, 1, 2}, {1, 2}), value_of(Tensor::scalar(0.5f))});
  EXPECT_EQ(hue->status().code(), Code::kInvalidArgument) << hue->status().to_string();
}

// As TensorFlow answers: the overlap is 0.140625 / 0.46875, which is not over 0.3, but would be when rounded to half.
TEST_F(ImageOps, OverlapsOfHalfAreComputedInFloat) {
  const auto halves = [](const Shape& shape, std::initializer_list<float> values) {
    Tensor tensor(DType::kHalf, shape);
    std::transform(values.begin(), values.end(), tensor.data<Half>(), [](float x) { return Half(x); });
    return value_of(tensor);
  };
  auto kept = run("NonMaxSuppressionV2", {},
                  {halves({2, 4}, {0.75f, 0.25f, 0.125f, 1, 0.25f, 0.875f, 0.625f, 0.5f}), halves({2}, {0.625f, -1}),
                   value_of(Tensor::scalar(std::int32_t{5})), floats({}, {0.3f})});
  ASSERT_TRUE(kept->status().ok()) << kept->status().to_string();
  EXPECT_TRUE(bitwise_equal(kept->tensor(), Tensor::vector<std::int32_t>({0, 1})));
}

TEST_F(ImageOps, PaddedSuppressionIsBounded) {
  auto padded = run("NonMaxSuppressionV4", {{"pad_to_max_output_size", true}},
                    {floats({1, 4}, {0, 0, 1, 1}), floats({1}, {0.5f}), value_of(Tensor::scalar(std::int32_t{3})),
                     floats({}, {0.5f}), floats({}, {0.0f})});
  ASSERT_TRUE(padded->status().ok()) << padded->status().to_string();
  EXPECT_TRUE(bitwise_equal(padded->tensor(), Tensor::vector<std::int32_t>({0, 0, 0})));
}

}  // namespace tutti::image_ops_test
