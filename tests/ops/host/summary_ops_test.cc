// What the comparison with TensorFlow (tests/interop/check_text.py) leaves out.
#include <gtest/gtest.h>

#include <cmath>

#include "proto/summary.pb.h"
#include "tutti/ops/host/image_bytes.h"
#include "tutti/ops/op_evaluator.h"

namespace tutti::summary_ops_test {

using Bytes = std::vector<std::uint8_t>;

Result<std::vector<Tensor>> try_op(const std::string& op, const AttrMap& attrs, const std::vector<Tensor>& inputs) {
  return evaluate_op(*builtin_ops(), op, attrs, inputs);
}
Tensor tag(std::string value) { return Tensor::scalar(std::move(value)); }

TEST(SummaryOps, ScalarsOfAShape) {
  const Tensor tags = Tensor::of<std::string>({1, 2}, {"a", "b"});
  const auto out = try_op("ScalarSummary", {}, {tags, Tensor::of<std::int64_t>({1, 2}, {3, -4})});
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString((*out)[0].scalar<std::string>()));
  ASSERT_EQ(summary.value_size(), 2);
  EXPECT_EQ(summary.value(1).tag(), "b");
  EXPECT_EQ(summary.value(1).simple_value(), -4);
  EXPECT_EQ(try_op("ScalarSummary", {}, {tags, Tensor::scalar(1.0f)}).status().message(),
            "tags and values are not the same shape: [1,2] != []");
}

TEST(SummaryOps, HistogramsOfWhatIsNotFinite) {
  for (double bad : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const Status status = try_op("HistogramSummary", {}, {tag("h"), Tensor::vector<double>({1, bad})}).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find("for: HistogramSummary"), std::string::npos) << status.message();
  }
}

TEST(SummaryOps, ImageErrors) {
  const auto message = [](const AttrMap& attrs, const Shape& shape) {
    return try_op("ImageSummary", attrs, {tag("i"), Tensor(DType::kFloat, shape)}).status().message();
  };
  EXPECT_EQ(message({}, {1, 2, 2, 2}), "Tensor must be 4-D with last dim 1, 3, or 4, not [1,2,2,2]");
  EXPECT_EQ(message({}, {2, 2}), "Tensor must be 4-D with last dim 1, 3, or 4, not [2,2]");
  EXPECT_NE(message({}, {1, 0, 2, 1}), "");  // a PNG has at least one pixel
  EXPECT_EQ(message({{"bad_color", Tensor::vector<std::uint8_t>({1})}}, {1, 2, 2, 3}),
            "expected depth <= bad_color.size, got depth = 3, bad_color.size = 1");
  EXPECT_EQ(message({{"bad_color", Tensor::vector<float>({1})}}, {1, 2, 2, 1}), "bad_color must be uint8, got float");
  EXPECT_EQ(message({{"bad_color", Tensor::scalar(std::uint8_t{1})}}, {1, 2, 2, 1}),
            "bad_color must be a vector, got shape []");
  EXPECT_EQ(try_op("ImageSummary", {}, {Tensor::vector<std::string>({"i"}), Tensor(DType::kFloat, {1, 1, 1, 1})})
                .status()
                .code(),
            Code::kInvalidArgument);
}

TEST(ImageBytes, StretchesToTheRange) {
  const Bytes red = {255, 0, 0, 255};
  EXPECT_EQ(image_bytes(Tensor::vector<float>({0, 1, 2}), 1, red), (Bytes{0, 127, 255}));
  EXPECT_EQ(image_bytes(Tensor::vector<float>({-2, 0, 1}), 1, red), (Bytes{1, 128, 191}));
  EXPECT_EQ(image_bytes(Tensor::vector<float>({0, 0}), 1, red), (Bytes{0, 0}));
  EXPECT_EQ(image_bytes(Tensor::vector<double>({1e-9, 0}), 1, red), (Bytes{0, 0}));
  EXPECT_EQ(image_bytes(Tensor::vector<std::uint8_t>({7, 9}), 1, red), (Bytes{7, 9}));
  EXPECT_EQ(image_bytes(Tensor::vector<float>({1, 1, NAN, 2, 2, 2}), 3, red), (Bytes{255, 0, 0, 255, 255, 255}));
  EXPECT_EQ(image_bytes(Tensor::vector<float>({INFINITY}), 1, red), (Bytes{255}));
}

TEST(SummaryOps, MergeOfGarbage) {
  EXPECT_EQ(try_op("MergeSummary", {}, {tag("\xff\xff")}).status(),
            invalid_argument("Could not parse one of the summary inputs"));
  EXPECT_EQ((*try_op("MergeSummary", {}, {Tensor(DType::kString, {0})}))[0].scalar<std::string>(), "");
}

TEST(SummaryOps, MetadataOfGarbage) {
  EXPECT_EQ(try_op("TensorSummaryV2", {}, {tag("t"), Tensor::scalar(1.0f), tag("\xff\xff")}).status().code(),
            Code::kInvalidArgument);
}

}  // namespace tutti::summary_ops_test
