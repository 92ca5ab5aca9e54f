#include "tutti/io/summary.h"

#include <gtest/gtest.h>

#include "proto/summary.pb.h"

namespace tutti::summary_test {

tensorflow::Summary parse(const std::string& bytes) {
  tensorflow::Summary summary;
  EXPECT_TRUE(summary.ParseFromString(bytes));
  return summary;
}

TEST(SummaryBuilder, ScalarBytes) {
  SummaryBuilder builder;
  builder.add_scalar("loss", 0.5f);
  // value { tag: "loss" simple_value: 0.5 }: fields 1, then 1 and 2 inside.
  EXPECT_EQ(builder.bytes(), std::string("\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\x3f", 13));
  EXPECT_EQ(SummaryBuilder().bytes(), "");
}

TEST(SummaryBuilder, EveryKind) {
  SummaryBuilder builder;
  Histogram histogram;
  histogram.add(2);
  builder.add_histogram("h", histogram);
  builder.add_image("i", 2, 3, 4, "png");
  builder.add_audio("a", 8000, 2, 5, "wav");
  ASSERT_TRUE(builder.add_tensor("t", Tensor::vector<std::int32_t>({1, 2}), "").ok());
  ASSERT_TRUE(builder
                  .add_tensor("s", Tensor::scalar(std::string("x")),
                              std::string("\x12\x01"
                                          "d",
                                          3))
                  .ok());
  ASSERT_TRUE(builder.add_node_tensor("node", Tensor(DType::kFloat, {0, 2})).ok());
  const tensorflow::Summary summary = parse(builder.bytes());
  ASSERT_EQ(summary.value_size(), 6);
  EXPECT_EQ(summary.value(0).histo().sum_squares(), 4);
  EXPECT_EQ(summary.value(0).histo().bucket_size(), summary.value(0).histo().bucket_limit_size());
  EXPECT_EQ(summary.value(1).image().width(), 3);
  EXPECT_EQ(summary.value(2).audio().content_type(), "audio/wav");
  EXPECT_EQ(summary.value(3).tensor().tensor_content().size(), 8u);
  EXPECT_EQ(summary.value(4).tensor().string_val(0), "x");
  EXPECT_EQ(summary.value(4).metadata().display_name(), "d");
  EXPECT_EQ(summary.value(5).node_name(), "node");
  EXPECT_EQ(summary.value(5).tensor().tensor_shape().dim_size(), 2);
}

TEST(SummaryBuilder, RefusesWhatIsNoMessage) {
  SummaryBuilder builder;
  EXPECT_EQ(builder.add_tensor("t", Tensor::scalar(1.0f), "\xff\xff").code(), Code::kInvalidArgument);
  EXPECT_EQ(builder.add_tensor("t", Tensor(DType::kResource, {}), "").code(), Code::kUnimplemented);
  EXPECT_EQ(builder.add_values_of("\xff\xff").message(), "Could not parse one of the summary inputs");
}

TEST(SummaryBuilder, MergesAndFindsTagsTwice) {
  SummaryBuilder a, node;
  a.add_scalar("a", 1);
  ASSERT_TRUE(node.add_node_tensor("n", Tensor::scalar(1.0f)).ok());
  SummaryBuilder merged;
  EXPECT_TRUE(merged.add_values_of("").ok());
  EXPECT_TRUE(merged.add_values_of(a.bytes()).ok());
  EXPECT_TRUE(merged.add_values_of(node.bytes()).ok());
  EXPECT_TRUE(merged.add_values_of(node.bytes()).ok());  // no tag, so none twice
  EXPECT_EQ(merged.add_values_of(a.bytes()).message(), "Duplicate tag a found in summary inputs");
  EXPECT_EQ(parse(merged.bytes()).value_size(), 3);
}

}  // namespace tutti::summary_test
