// The values of a Summary message, as readers of event files see them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tutti/core/status.h"
#include "tutti/io/histogram.h"

namespace tutti {

struct HistogramValue {
  double min = 0, max = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<Histogram::Bucket> buckets;
};
struct ImageValue {
  int height = 0, width = 0, channels = 0;
  std::string png;  // or what else was written
};
struct AudioValue {
  float sample_rate = 0;
  std::int64_t channels = 0, frames = 0;
  std::string content_type;
  std::string bytes;
};
struct TensorValue {
  std::string tensor_proto;
};

struct SummaryValue {
  std::string tag;
  std::string node_name;
  // Of its metadata; empty when this value has none.
  std::string plugin_name, plugin_content, display_name, description;
  // None of them: nothing, or a kind that is no longer in use.
  std::variant<std::monostate, float, HistogramValue, ImageValue, AudioValue, TensorValue> value;
};

// kDataLoss when the bytes are no Summary, or one of its histograms has counts without limits.
Result<std::vector<SummaryValue>> parse_summary(std::string_view summary);

}  // namespace tutti
