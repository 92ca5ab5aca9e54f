// Sound files to samples and back.
#include <algorithm>

#include "tutti/graph/shape_inference.h"
#include "tutti/io/wav.h"
#include "tutti/io/wav_reader.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

class DecodeWav : public Kernel {
 public:
  DecodeWav(std::int64_t channels, std::int64_t samples) : channels_(channels), samples_(samples) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    return std::unique_ptr<Kernel>(std::make_unique<DecodeWav>(init.attr<std::int64_t>("desired_channels"),
                                                               init.attr<std::int64_t>("desired_samples")));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& contents = ctx.input(0);
    if (contents.rank() != 0) return invalid_argument("contents must be scalar, got shape ", contents.shape());
    TUTTI_ASSIGN_OR_RETURN(const WavFile file, read_wav(contents.scalar<std::string>()));
    const std::int64_t channels = channels_ < 0 ? file.channels : channels_;
    const std::int64_t frames = samples_ < 0 ? file.frames : samples_;
    const std::int64_t dims[] = {frames, channels};
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * audio, ctx.allocate_output(0, shape));
    float* to = audio->data<float>();
    for (std::int64_t i = 0; i < frames && channels > 0; ++i) {
      for (std::int64_t c = 0; c < channels; ++c) {
        // Silence behind the end; the last channel stands for those that are not there.
        *to++ = i < file.frames ? file.sample(i, std::min(c, file.channels - 1)) : 0.0f;
      }
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * rate, ctx.allocate_output(1, Shape{}));
    *rate->data<std::int32_t>() = static_cast<std::int32_t>(file.sample_rate);
    return {};
  }

 private:
  const std::int64_t channels_, samples_;
};

Status encode_wav_op(KernelContext& ctx) {
  const Tensor& audio = ctx.input(0);
  const Tensor& rate = ctx.input(1);
  if (audio.rank() != 2) return invalid_argument("audio must be 2-dimensional, got ", audio.shape());
  if (rate.rank() != 0) return invalid_argument("Input sample_rate should be a scalar tensor, got ", rate.shape());
  if (audio.num_elements() == 0) return invalid_argument("audio must not be empty, got ", audio.shape());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  TUTTI_ASSIGN_OR_RETURN(out->data<std::string>()[0], encode_wav(static_cast<double>(rate.scalar<std::int32_t>()),
                                                                 audio.dim(1), audio.flat<float>()));
  return {};
}

Status decoded_audio_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  const std::int64_t channels = c.attr<std::int64_t>("desired_channels"),
                     samples = c.attr<std::int64_t>("desired_samples");
  c.set_output(0, {samples < 0 ? kUnknownDim : samples, channels < 0 ? kUnknownDim : channels});
  c.set_output(1, PartialShape::scalar());
  return {};
}

Status encoded_audio_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 2).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 0).status());
  return shape::scalar(c);
}

}  // namespace

void register_audio_ops(OpTable& ops) {
  ops.add({.name = "DecodeWav",
           .signature = "contents: string -> audio: float, sample_rate: int32",
           .attrs = "desired_channels: int = -1; desired_samples: int = -1",
           .shape = decoded_audio_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_of<DecodeWav>())}});
  ops.add({.name = "EncodeWav",
           .signature = "audio: float, sample_rate: int32 -> contents: string",
           .shape = encoded_audio_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(encode_wav_op))}});
}

}  // namespace tutti
