#include "tutti/io/summary_values.h"

#include <utility>

#include "proto/summary.pb.h"
#include "tutti/io/internal/proto_bytes.h"

namespace tutti {
namespace {

using Value = tensorflow::Summary::Value;

Result<HistogramValue> histogram_of(const tensorflow::HistogramProto& proto) {
  if (proto.bucket_limit_size() != proto.bucket_size()) {
    return data_loss("a histogram with ", proto.bucket_limit_size(), " limits and ", proto.bucket_size(), " counts");
  }
  HistogramValue histogram{.min = proto.min(),
                           .max = proto.max(),
                           .count = proto.num(),
                           .sum = proto.sum(),
                           .sum_of_squares = proto.sum_squares(),
                           .buckets = {}};
  for (int i = 0; i < proto.bucket_size(); ++i) {
    histogram.buckets.push_back({.limit = proto.bucket_limit(i), .count = proto.bucket(i)});
  }
  return histogram;
}

ImageValue image_of(const tensorflow::Summary::Image& proto) {
  return {.height = proto.height(),
          .width = proto.width(),
          .channels = proto.colorspace(),
          .png = proto.encoded_image_string()};
}

AudioValue audio_of(const tensorflow::Summary::Audio& proto) {
  return {.sample_rate = proto.sample_rate(),
          .channels = proto.num_channels(),
          .frames = proto.length_frames(),
          .content_type = proto.content_type(),
          .bytes = proto.encoded_audio_string()};
}

Result<SummaryValue> value_of(const Value& proto) {
  SummaryValue value;
  value.tag = proto.tag();
  value.node_name = proto.node_name();
  value.plugin_name = proto.metadata().plugin_data().plugin_name();
  value.plugin_content = proto.metadata().plugin_data().content();
  value.display_name = proto.metadata().display_name();
  value.description = proto.metadata().summary_description();
  switch (proto.value_case()) {
    case Value::kSimpleValue:
      value.value = proto.simple_value();
      break;
    case Value::kHisto: {
      TUTTI_ASSIGN_OR_RETURN(value.value, histogram_of(proto.histo()));
      break;
    }
    case Value::kImage:
      value.value = image_of(proto.image());
      break;
    case Value::kAudio:
      value.value = audio_of(proto.audio());
      break;
    case Value::kTensor:
      value.value = TensorValue{stored_bytes(proto.tensor())};
      break;
    case Value::kObsoleteOldStyleHistogram:
    case Value::VALUE_NOT_SET:
      break;
  }
  return value;
}

}  // namespace

Result<std::vector<SummaryValue>> parse_summary(std::string_view summary) {
  tensorflow::Summary proto;
  TUTTI_RETURN_IF_ERROR(parse_stored(summary, "summary", &proto));
  std::vector<SummaryValue> values;
  for (const Value& value : proto.value()) {
    Result<SummaryValue> parsed = value_of(value);
    if (!parsed.ok()) return parsed.status().with_context(str_cat("summary \"", printable(value.tag()), "\""));
    values.push_back(*std::move(parsed));
  }
  return values;
}

}  // namespace tutti
