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

// What tells TensorBoard which of its pages shows a tensor, and how.
struct SummaryDescription {
  // "scalars": a float. "histograms": [k, 3], rows of left edge, right edge, count. "images": strings width, height,
  // then the PNG of each image. "text": strings, shown as Markdown. Others as their plugins have it.
  std::string plugin_name;
  std::string plugin_content = "";
  std::string display_name = "";
  std::string description = "";
  enum class DataClass { kUnknown = 0, kScalar = 1, kTensor = 2, kBlobSequence = 3 };
  DataClass data_class = DataClass::kUnknown;
};
// The bytes of a SummaryMetadata.
std::string summary_metadata(const SummaryDescription& description);

// A message under construction.
class SummaryBuilder {
 public:
  SummaryBuilder();
  ~SummaryBuilder();

  void add_scalar(std::string_view tag, float value);
  void add_histogram(std::string_view tag, const Histogram& histogram);
  void add_image(std::string_view tag, std::int64_t height, std::int64_t width, int channels, std::string png);
  void add_audio(std::string_view tag, float sample_rate, std::int64_t channels, std::int64_t frames, std::string wav);
  // Shown as Markdown.
  void add_text(std::string_view tag, std::string_view text);
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
