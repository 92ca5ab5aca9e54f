#include "tutti/io/summary.h"

#include <limits>
#include <utility>

#include "proto/summary.pb.h"

namespace tutti {
namespace {

// Packed, but strings in their list.
Status fill_tensor(const Tensor& tensor, tensorflow::TensorProto* proto) {
  if (tensor.dtype() != DType::kString && is_object(tensor.dtype())) {
    return unimplemented("a summary of ", dtype_name(tensor.dtype()));
  }
  proto->set_dtype(static_cast<tensorflow::DataType>(tensor.dtype()));
  proto->mutable_tensor_shape();
  for (const std::int64_t size : tensor.shape().dims()) proto->mutable_tensor_shape()->add_dim()->set_size(size);
  if (tensor.dtype() == DType::kString) {
    for (const std::string& text : tensor.flat<std::string>()) proto->add_string_val(text);
  } else if (tensor.bytes() > 0) {
    proto->set_tensor_content(tensor.raw(), tensor.bytes());
  }
  return {};
}

}  // namespace

std::string summary_metadata(const SummaryDescription& description) {
  tensorflow::SummaryMetadata metadata;
  metadata.mutable_plugin_data()->set_plugin_name(description.plugin_name);
  metadata.mutable_plugin_data()->set_content(description.plugin_content);
  metadata.set_display_name(description.display_name);
  metadata.set_summary_description(description.description);
  metadata.set_data_class(static_cast<tensorflow::DataClass>(description.data_class));
  return metadata.SerializeAsString();
}

SummaryBuilder::SummaryBuilder() : summary_(std::make_unique<tensorflow::Summary>()) {}
SummaryBuilder::~SummaryBuilder() = default;

void SummaryBuilder::add_scalar(std::string_view tag, float value) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  added->set_simple_value(value);
}

void SummaryBuilder::add_histogram(std::string_view tag, const Histogram& histogram) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  auto* histo = added->mutable_histo();
  histo->set_min(histogram.min());
  histo->set_max(histogram.max());
  histo->set_num(histogram.count());
  histo->set_sum(histogram.sum());
  histo->set_sum_squares(histogram.sum_of_squares());
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    histo->add_bucket_limit(bucket.limit);
    histo->add_bucket(bucket.count);
  }
}

void SummaryBuilder::add_image(std::string_view tag, std::int64_t height, std::int64_t width, int channels,
                               std::string png) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  auto* image = added->mutable_image();
  image->set_height(static_cast<std::int32_t>(height));
  image->set_width(static_cast<std::int32_t>(width));
  image->set_colorspace(channels);
  image->set_encoded_image_string(std::move(png));
}

void SummaryBuilder::add_audio(std::string_view tag, float sample_rate, std::int64_t channels, std::int64_t frames,
                               std::string wav) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  auto* audio = added->mutable_audio();
  audio->set_sample_rate(sample_rate);
  audio->set_num_channels(channels);
  audio->set_length_frames(frames);
  audio->set_encoded_audio_string(std::move(wav));
  audio->set_content_type("audio/wav");
}

void SummaryBuilder::add_text(std::string_view tag, std::string_view text) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  added->mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  added->mutable_metadata()->set_data_class(tensorflow::DATA_CLASS_TENSOR);
  added->mutable_tensor()->set_dtype(tensorflow::DT_STRING);
  added->mutable_tensor()->mutable_tensor_shape();
  added->mutable_tensor()->add_string_val(std::string(text));
}

Status SummaryBuilder::add_tensor(std::string_view tag, const Tensor& tensor, std::string_view metadata) {
  auto* added = summary_->add_value();
  added->set_tag(std::string(tag));
  if (!added->mutable_metadata()->ParseFromString(std::string(metadata))) {
    return invalid_argument("the summary metadata of ", printable(tag), " is no SummaryMetadata");
  }
  return fill_tensor(tensor, added->mutable_tensor());
}

Status SummaryBuilder::add_node_tensor(std::string_view node, const Tensor& tensor) {
  auto* added = summary_->add_value();
  added->set_node_name(std::string(node));
  return fill_tensor(tensor, added->mutable_tensor());
}

Status SummaryBuilder::add_values_of(std::string_view bytes) {
  tensorflow::Summary other;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !other.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument("Could not parse one of the summary inputs");
  }
  for (auto& value : *other.mutable_value()) {
    // Tensor summaries of the first kind have no tag.
    if (!value.tag().empty() && !tags_.insert(value.tag()).second) {
      return invalid_argument("Duplicate tag ", printable(value.tag()), " found in summary inputs");
    }
    *summary_->add_value() = std::move(value);
  }
  return {};
}

std::string SummaryBuilder::bytes() const { return summary_->SerializeAsString(); }

}  // namespace tutti
