// Summary messages: what summary ops make and event files hold.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"
#include "tutti/io/histogram.h"

namespace tensorflow {
class Summary;
}

namespace tutti {

// A message under construction.
class SummaryBuilder {
 public:
  SummaryBuilder();
  ~SummaryBuilder();

  void add_scalar(std::string_view tag, float value);
  void add_histogram(std::string_view tag, const Histogram& histogram);
  void add_image(std::string_view tag, std::int64_t height, std::int64_t width, int channels, std::string png);
  void add_audio(std::string_view tag, float sample_rate, std::int64_t channels, std::int64_t frames, std::string wav);
  // `metadata`: the bytes of a SummaryMetadata; kInvalidArgument when they are not. kUnimplemented for tensors of
  // handles and variants.
  Status add_tensor(std::string_view tag, const Tensor& tensor, std::string_view metadata);
  // Known by the name of its node only.
  Status add_node_tensor(std::string_view node, const Tensor& tensor);
  // All values of another message. kInvalidArgument when the bytes are none, or for a tag
  // that an earlier call brought.
  Status add_values_of(std::string_view summary);

  // The message's bytes.
  std::string bytes() const;

 private:
  std::unique_ptr<tensorflow::Summary> summary_;
  std::set<std::string, std::less<>> tags_;  // of the values that add_values_of brought
};

}  // namespace tutti
