// Summaries: values of a step, packed for event files.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tutti/core/with_dtype.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/io/png.h"
#include "tutti/io/summary.h"
#include "tutti/io/wav.h"
#include "tutti/ops/host/image_bytes.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

Status put_summary(KernelContext& ctx, const SummaryBuilder& summary) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  out->data<std::string>()[0] = summary.bytes();
  return {};
}

Status check_scalar(const Tensor& tensor, std::string_view what) {
  if (tensor.rank() != 0) return invalid_argument(what, " must be scalar, got shape ", tensor.shape());
  return {};
}

// "tag/image", or with a number where several were asked for (not: were given).
std::string numbered_tag(const std::string& tag, std::string_view kind, std::int64_t asked_for, std::int64_t i) {
  return asked_for > 1 ? str_cat(tag, "/", kind, "/", i) : str_cat(tag, "/", kind);
}

Status scalar_summary(KernelContext& ctx) {
  const Tensor &tags = ctx.input(0), &values = ctx.input(1);
  if (!(tags.shape() == values.shape())) {
    return invalid_argument("tags and values are not the same shape: ", tags.shape(), " != ", values.shape());
  }
  SummaryBuilder summary;
  with_real(
      values.dtype(),
      [&]<typename T>(T) {
        for (std::int64_t i = 0; i < tags.num_elements(); ++i) {
          summary.add_scalar(tags.data<std::string>()[i], static_cast<float>(values.data<T>()[i]));
        }
      },
      [] {});
  return put_summary(ctx, summary);
}

// A double of any real element.
template <typename T>
double wide(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat16>)
    return static_cast<float>(value);
  else
    return static_cast<double>(value);
}

class HistogramSummary : public Kernel {
 public:
  explicit HistogramSummary(const KernelInit& init) : node_(init.node) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &tag = ctx.input(0), &values = ctx.input(1);
    TUTTI_RETURN_IF_ERROR(check_scalar(tag, "tags"));
    Histogram histogram;
    TUTTI_RETURN_IF_ERROR(with_real(
        values.dtype(), [&]<typename T>(T) { return add_all<T>(values, histogram); }, [] { return Status(); }));
    SummaryBuilder summary;
    summary.add_histogram(tag.scalar<std::string>(), histogram);
    return put_summary(ctx, summary);
  }

 private:
  template <typename T>
  Status add_all(const Tensor& values, Histogram& histogram) const {
    for (const T& element : values.flat<T>()) {
      const double value = wide(element);
      if (std::isnan(value)) return invalid_argument("Nan in summary histogram for: ", node_);
      if (std::isinf(value)) return invalid_argument("Infinity in Histogram for: ", node_);
      histogram.add(value);
    }
    return {};
  }

  const std::string node_;
};

class ImageSummary : public Kernel {
 public:
  ImageSummary(std::int64_t max_images, std::vector<std::uint8_t> bad_color)
      : max_images_(max_images), bad_color_(std::move(bad_color)) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const Tensor& color = init.attr<Tensor>("bad_color");
    if (color.dtype() != DType::kUint8) {
      return invalid_argument("bad_color must be uint8, got ", dtype_name(color.dtype()));
    }
    if (color.rank() != 1) return invalid_argument("bad_color must be a vector, got shape ", color.shape());
    const auto bytes = color.flat<std::uint8_t>();
    return std::unique_ptr<Kernel>(std::make_unique<ImageSummary>(
        init.attr<std::int64_t>("max_images"), std::vector<std::uint8_t>(bytes.begin(), bytes.end())));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor &tag = ctx.input(0), &images = ctx.input(1);
    TUTTI_RETURN_IF_ERROR(check_scalar(tag, "Tags"));
    TUTTI_RETURN_IF_ERROR(check(images));
    const int channels = static_cast<int>(images.dim(3));
    SummaryBuilder summary;
    for (std::int64_t i = 0; i < std::min(max_images_, images.dim(0)); ++i) {
      const std::vector<std::uint8_t> pixels = image_bytes(images.slice(i, i + 1), channels, bad_color_);
      TUTTI_ASSIGN_OR_RETURN(std::string png, encode_png(images.dim(1), images.dim(2), channels, pixels));
      summary.add_image(numbered_tag(tag.scalar<std::string>(), "image", max_images_, i), images.dim(1), images.dim(2),
                        channels, std::move(png));
    }
    return put_summary(ctx, summary);
  }

 private:
  Status check(const Tensor& images) const {
    if (images.rank() != 4 || (images.dim(3) != 1 && images.dim(3) != 3 && images.dim(3) != 4)) {
      return invalid_argument("Tensor must be 4-D with last dim 1, 3, or 4, not ", images.shape());
    }
    if (images.dtype() != DType::kUint8 && images.dim(3) > static_cast<std::int64_t>(bad_color_.size())) {
      return invalid_argument("expected depth <= bad_color.size, got depth = ", images.dim(3),
                              ", bad_color.size = ", bad_color_.size());
    }
    return {};
  }

  const std::int64_t max_images_;
  const std::vector<std::uint8_t> bad_color_;
};

class AudioSummary : public Kernel {
 public:
  explicit AudioSummary(const KernelInit& init) : max_outputs_(init.attr<std::int64_t>("max_outputs")) {}

  Status compute(KernelContext& ctx) override {
    const Tensor &tag = ctx.input(0), &tensor = ctx.input(1);
    TUTTI_RETURN_IF_ERROR(check_scalar(tag, "Tag"));
    TUTTI_RETURN_IF_ERROR(check_scalar(ctx.input(2), "sample_rate"));
    if (tensor.rank() != 2 && tensor.rank() != 3) {
      return invalid_argument("Tensor must be 3-D or 2-D, got: ", tensor.shape());
    }
    const float sample_rate = ctx.input(2).scalar<float>();
    if (!(sample_rate > 0)) return invalid_argument("sample_rate must be > 0, got ", sample_rate);
    const std::int64_t channels = tensor.rank() == 2 ? 1 : tensor.dim(2);
    SummaryBuilder summary;
    for (std::int64_t i = 0; i < std::min(max_outputs_, tensor.dim(0)); ++i) {
      const Tensor clip = tensor.slice(i, i + 1);
      TUTTI_ASSIGN_OR_RETURN(std::string wav,
                             encode_wav(static_cast<double>(sample_rate), channels, clip.flat<float>()));
      summary.add_audio(numbered_tag(tag.scalar<std::string>(), "audio", max_outputs_, i), sample_rate, channels,
                        tensor.dim(1), std::move(wav));
    }
    return put_summary(ctx, summary);
  }

 private:
  const std::int64_t max_outputs_;
};

class TensorSummary : public Kernel {
 public:
  explicit TensorSummary(const KernelInit& init) : node_(init.node) {}
  Status compute(KernelContext& ctx) override {
    SummaryBuilder summary;
    TUTTI_RETURN_IF_ERROR(summary.add_node_tensor(node_, ctx.input(0)));
    return put_summary(ctx, summary);
  }

 private:
  const std::string node_;
};

Status tensor_summary_v2(KernelContext& ctx) {
  TUTTI_RETURN_IF_ERROR(check_scalar(ctx.input(0), "tag"));
  TUTTI_RETURN_IF_ERROR(check_scalar(ctx.input(2), "serialized_summary_metadata"));
  SummaryBuilder summary;
  TUTTI_RETURN_IF_ERROR(
      summary.add_tensor(ctx.input(0).scalar<std::string>(), ctx.input(1), ctx.input(2).scalar<std::string>()));
  return put_summary(ctx, summary);
}

Status merge_summary(KernelContext& ctx) {
  SummaryBuilder summary;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    for (const std::string& bytes : ctx.input(i).flat<std::string>()) {
      TUTTI_RETURN_IF_ERROR(summary.add_values_of(bytes));
    }
  }
  return put_summary(ctx, summary);
}

OpRow summary_row(std::string name, std::string inputs, std::string attrs, DTypeSet types, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(inputs) + " -> summary: string",
          .attrs = std::move(attrs),
          .types = types,
          .shape = shape::scalar,
          .no_gradient = true,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

}  // namespace

void register_summary_ops(OpTable& ops) {
  const DTypeSet image_types{DType::kUint8, DType::kFloat, DType::kHalf, DType::kDouble};
  ops.add(summary_row("ScalarSummary", "tags: string, values: T", "T: type", kReals, kernel_from(scalar_summary)));
  ops.add(summary_row("HistogramSummary", "tag: string, values: T", "T: type = float", kReals,
                      kernel_of<HistogramSummary>()));
  ops.add(summary_row("ImageSummary", "tag: string, tensor: T",
                      "max_images: int >= 1 = 3; T: type = float; bad_color: tensor = uint8[255, 0, 0, 255]",
                      image_types, kernel_of<ImageSummary>()));
  ops.add(summary_row("AudioSummaryV2", "tag: string, tensor: float, sample_rate: float", "max_outputs: int >= 1 = 3",
                      DTypeSet::all(), kernel_of<AudioSummary>()));
  OpRow tensor_summary =
      summary_row("TensorSummary", "tensor: T",
                  "T: type; description: string = ''; labels: list(string) = []; display_name: string = ''",
                  DTypeSet::all(), kernel_of<TensorSummary>());
  // Its value has the node's name in it: neither to be merged with an equal node nor folded.
  tensor_summary.traits = kStateful;
  ops.add(std::move(tensor_summary));
  ops.add(summary_row("TensorSummaryV2", "tag: string, tensor: T, serialized_summary_metadata: string", "T: type",
                      DTypeSet::all(), kernel_from(tensor_summary_v2)));
  ops.add(
      summary_row("MergeSummary", "inputs: N * string", "N: int >= 1", DTypeSet::all(), kernel_from(merge_summary)));
}

}  // namespace tutti
