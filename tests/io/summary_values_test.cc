#include "tutti/io/summary_values.h"

#include "proto/summary.pb.h"
#include "tests/io/io_support.h"
#include "tutti/io/summary.h"

namespace tutti::summary_values_test {

TEST(SummaryValues, EveryKind) {
  SummaryBuilder builder;
  Histogram histogram;
  histogram.add(2);
  histogram.add(-3);
  builder.add_scalar("s", 1.5f);
  builder.add_histogram("h", histogram);
  builder.add_image("i", 2, 3, 4, "png");
  builder.add_audio("a", 8000, 2, 5, "wav");
  builder.add_text("t", "some *text*");
  ASSERT_OK(builder.add_node_tensor("node", Tensor::scalar(1.f)));
  const auto values = parse_summary(builder.bytes()).value_or_throw();
  ASSERT_EQ(values.size(), 6u);
  EXPECT_EQ(values[0].tag, "s");
  EXPECT_EQ(std::get<float>(values[0].value), 1.5f);
  const auto& histo = std::get<HistogramValue>(values[1].value);
  EXPECT_EQ(histo.min, -3);
  EXPECT_EQ(histo.max, 2);
  EXPECT_EQ(histo.count, 2);
  EXPECT_EQ(histo.sum, -1);
  EXPECT_EQ(histo.sum_of_squares, 13);
  ASSERT_EQ(histo.buckets.size(), histogram.buckets().size());
  EXPECT_EQ(histo.buckets[0].limit, histogram.buckets()[0].limit);
  const auto& image = std::get<ImageValue>(values[2].value);
  EXPECT_EQ(image.height, 2);
  EXPECT_EQ(image.width, 3);
  EXPECT_EQ(image.channels, 4);
  EXPECT_EQ(image.png, "png");
  const auto& audio = std::get<AudioValue>(values[3].value);
  EXPECT_EQ(audio.sample_rate, 8000);
  EXPECT_EQ(audio.channels, 2);
  EXPECT_EQ(audio.frames, 5);
  EXPECT_EQ(audio.content_type, "audio/wav");
  EXPECT_EQ(audio.bytes, "wav");
  EXPECT_EQ(values[4].plugin_name, "text");
  tensorflow::TensorProto text;
  ASSERT_TRUE(text.ParseFromString(std::get<TensorValue>(values[4].value).tensor_proto));
  EXPECT_EQ(text.string_val(0), "some *text*");
  EXPECT_EQ(values[5].tag, "");
  EXPECT_EQ(values[5].node_name, "node");
}

TEST(SummaryValues, Metadata) {
  SummaryBuilder builder;
  const std::string metadata = summary_metadata({.plugin_name = "scalars",
                                                 .plugin_content = "c",
                                                 .display_name = "d",
                                                 .description = "e",
                                                 .data_class = SummaryDescription::DataClass::kScalar});
  ASSERT_OK(builder.add_tensor("x", Tensor::scalar(1.f), metadata));
  const SummaryValue value = parse_summary(builder.bytes()).value_or_throw().at(0);
  EXPECT_EQ(value.plugin_name, "scalars");
  EXPECT_EQ(value.plugin_content, "c");
  EXPECT_EQ(value.display_name, "d");
  EXPECT_EQ(value.description, "e");
  tensorflow::Summary summary;
  ASSERT_TRUE(summary.ParseFromString(builder.bytes()));
  EXPECT_EQ(summary.value(0).metadata().data_class(), tensorflow::DATA_CLASS_SCALAR);
}

TEST(SummaryValues, Damaged) {
  EXPECT_EQ(parse_summary("\xff").status().code(), Code::kDataLoss);
  tensorflow::Summary summary;
  summary.add_value()->set_tag("uneven");
  summary.mutable_value(0)->mutable_histo()->add_bucket(1);
  const Status status = parse_summary(summary.SerializeAsString()).status();
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_HAS(status.message(), "uneven");
}

}  // namespace tutti::summary_values_test
