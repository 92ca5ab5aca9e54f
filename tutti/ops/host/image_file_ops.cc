// Image files to pixels and back.
#include <algorithm>
#include <limits>
#include <vector>

#include "tutti/graph/shape_inference.h"
#include "tutti/io/images/image_codec.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

Result<std::string_view> file_contents(KernelContext& ctx) {
  const Tensor& contents = ctx.input(0);
  if (contents.rank() != 0) return invalid_argument("`contents` must be scalar but got shape", contents.shape());
  const std::string& bytes = contents.scalar<std::string>();
  if (bytes.empty()) return invalid_argument("Input is empty.");
  return std::string_view(bytes);
}

// What the attributes of the decoding ops ask for; each op has some of them.
struct DecodeRequest {
  std::string op;
  DType dtype = DType::kUint8;
  JpegOptions jpeg = {};
  bool expand_animations = true;

  bool is(std::string_view name) const { return op == name; }
};

Result<JpegOptions> jpeg_options(const KernelInit& init) {
  JpegOptions options;
  const std::int64_t ratio = init.attr<std::int64_t>("ratio");
  if (ratio != 1 && ratio != 2 && ratio != 4 && ratio != 8) {
    return invalid_argument("ratio must be 1, 2, 4, or 8, got ", ratio);
  }
  options.ratio = static_cast<int>(ratio);
  options.fancy_upscaling = init.attr<bool>("fancy_upscaling");
  options.recover_truncated = init.attr<bool>("try_recover_truncated");
  options.acceptable_fraction = init.attr<float>("acceptable_fraction");
  const std::string& dct = init.attr<std::string>("dct_method");
  if (dct != "" && dct != "INTEGER_FAST" && dct != "INTEGER_ACCURATE") {
    return invalid_argument("dct_method must be one of {'', 'INTEGER_FAST', 'INTEGER_ACCURATE'}, got ", printable(dct));
  }
  options.fast_dct = dct != "INTEGER_ACCURATE";
  return options;
}

// Decodes whatever image file it is given: TensorFlow's ops look at the bytes, not at their own names.
class DecodeImageFile : public Kernel {
 public:
  explicit DecodeImageFile(DecodeRequest request) : request_(std::move(request)) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    DecodeRequest request{.op = std::string(init.op)};
    const auto has = [&](std::string_view name) { return init.attrs.find(name) != init.attrs.end(); };
    if (has("ratio")) {
      TUTTI_ASSIGN_OR_RETURN(request.jpeg, jpeg_options(init));
    }
    const std::int64_t channels = has("channels") ? init.attr<std::int64_t>("channels")
                                                  : (request.is("DecodeGif") ? 3 : 0);  // of other formats, too
    if (channels != 0 && channels != 1 && channels != 3 && channels != 4) {
      return invalid_argument("`channels` must be 0, 1, 3 or 4 but got ", channels);
    }
    request.jpeg.channels = request.is("DecodeGif") ? 3 : static_cast<int>(channels);  // a GIF's, whatever it is given
    if (has("dtype")) request.dtype = init.attr<DType>("dtype");
    if (has("expand_animations")) request.expand_animations = init.attr<bool>("expand_animations");
    return std::unique_ptr<Kernel>(std::make_unique<DecodeImageFile>(std::move(request)));
  }

  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const std::string_view bytes, file_contents(ctx));
    const ImageFormat format = image_format(bytes);
    TUTTI_RETURN_IF_ERROR(check_format(format));
    // Only PNG has samples of 16 bits. What is not wanted as it is in the file is converted afterwards.
    const bool wide = format == ImageFormat::kPng && request_.dtype != DType::kUint8;
    const DType stored = wide ? DType::kUint16 : DType::kUint8;
    Tensor pixels;
    const PixelRoom room = [&](const ImageSize& size) -> Result<void*> {
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, shape_of(format, size));
      if (stored == request_.dtype) {
        TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
        return out->raw();
      }
      TUTTI_ASSIGN_OR_RETURN(pixels, ctx.allocate_temp(stored, shape));
      return pixels.raw();
    };
    TUTTI_RETURN_IF_ERROR(decode(ctx, format, bytes, wide ? 2 : 1, room));
    return stored == request_.dtype ? Status() : convert(ctx, pixels);
  }

 private:
  Status check_format(ImageFormat format) const {
    const std::string_view name = image_format_name(format);
    if (format == ImageFormat::kUnknown) {
      return invalid_argument("Unknown image file format. One of JPEG, PNG, GIF, BMP required.");
    }
    if (request_.is("DecodeBmp") && format != ImageFormat::kBmp) {
      return invalid_argument("Trying to decode ", name, " format using DecodeBmp op. Use `decode_image` instead.");
    }
    if (request_.is("DecodeAndCropJpeg") && format != ImageFormat::kJpeg) {
      return invalid_argument("DecodeAndCropJpeg operation can run on JPEG only, but detected ", name, ".");
    }
    if (format == ImageFormat::kBmp && !request_.is("DecodeBmp") && !request_.is("DecodeImage")) {
      return invalid_argument(
          "Trying to decode BMP format using a wrong op. Use `decode_bmp` or `decode_image` instead. Op used: ",
          request_.op);
    }
    const int channels = request_.jpeg.channels;
    if (format == ImageFormat::kJpeg && channels == 4) return invalid_argument("JPEG does not support 4 channels");
    if (format == ImageFormat::kGif && channels != 0 && channels != 3) {
      return invalid_argument("channels must be 0 or 3 for GIF, got ", channels);
    }
    return {};
  }

  Result<Shape> shape_of(ImageFormat format, const ImageSize& size) const {
    const bool animated = format == ImageFormat::kGif && request_.is("DecodeImage") && request_.expand_animations;
    std::vector<std::int64_t> dims{size.height, size.width, size.channels};
    if (animated || request_.is("DecodeGif")) {
      dims.insert(dims.begin(), size.frames);
    } else if (size.frames != 1) {
      return invalid_argument("Got ", size.frames,
                              " frames, but animated gifs can only be decoded by tf.io.decode_gif or "
                              "tf.io.decode_image");
    }
    return Shape::create(dims);
  }

  Status decode(KernelContext& ctx, ImageFormat format, std::string_view bytes, int channel_bytes,
                const PixelRoom& room) const {
    const int channels = request_.jpeg.channels;
    if (format == ImageFormat::kPng) return decode_png(bytes, channels, channel_bytes, {}, room);
    if (format == ImageFormat::kBmp) return decode_bmp(bytes, channels, {}, room);
    if (format == ImageFormat::kGif) {
      return decode_gif(bytes, request_.is("DecodeImage") && !request_.expand_animations, {}, room);
    }
    JpegOptions options = request_.jpeg;
    if (ctx.num_inputs() > 1) {
      const Tensor& window = ctx.input(1);
      if (window.rank() != 1 || window.dim(0) != 4) {
        return invalid_argument("crop_window must have four elements, got shape ", window.shape());
      }
      const std::int32_t* w = window.data<std::int32_t>();
      options.crop = CropWindow{.y = w[0], .x = w[1], .height = w[2], .width = w[3]};
    }
    return decode_jpeg(bytes, options, {}, room);
  }

  template <typename From, typename To>
  static void scale(KernelContext& ctx, const Tensor& from, Tensor& to, To by) {
    const From* in = from.data<From>();
    To* out = to.data<To>();
    cpu::parallel_for(ctx.team(), from.num_elements(), cpu::kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(static_cast<To>(in[i]) * by);
    });
  }

  Status convert(KernelContext& ctx, const Tensor& pixels) const {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, pixels.shape()));
    if (request_.dtype == DType::kUint16) {
      scale<std::uint8_t, std::uint16_t>(ctx, pixels, *out, 256);
    } else if (pixels.dtype() == DType::kUint8) {
      scale<std::uint8_t, float>(ctx, pixels, *out, 1.0f / 255);
    } else {
      scale<std::uint16_t, float>(ctx, pixels, *out, 1.0f / 65535);
    }
    return {};
  }

  const DecodeRequest request_;
};

Status extract_jpeg_shape(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::string_view bytes, file_contents(ctx));
  TUTTI_ASSIGN_OR_RETURN(const ImageSize size, jpeg_size(bytes));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{3}));
  const std::int64_t dims[3] = {size.height, size.width, size.channels};
  for (int i = 0; i < 3; ++i) {
    if (out->dtype() == DType::kInt64) {
      out->data<std::int64_t>()[i] = dims[i];
    } else {
      out->data<std::int32_t>()[i] = static_cast<std::int32_t>(dims[i]);
    }
  }
  return {};
}

// --- Writing. ---

Result<ImageSize> size_to_write(const Tensor& image) {
  const int rank = image.rank();
  const ImageSize size{.height = image.dim(rank - 3),
                       .width = image.dim(rank - 2),
                       .channels = static_cast<int>(std::min<std::int64_t>(image.dim(rank - 1), 255)),
                       .channel_bytes = image.dtype() == DType::kUint16 ? 2 : 1};
  if (size.width > std::numeric_limits<std::int32_t>::max() || size.height > std::numeric_limits<std::int32_t>::max()) {
    return invalid_argument("image too large: ", image.shape());
  }
  return size;
}

class EncodePng : public Kernel {
 public:
  explicit EncodePng(std::int64_t compression) : compression_(static_cast<int>(compression)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const std::int64_t compression = init.attr<std::int64_t>("compression");
    if (compression < -1 || compression > 9) {
      return invalid_argument("compression should be in [-1,9], got ", compression);
    }
    return std::unique_ptr<Kernel>(std::make_unique<EncodePng>(compression));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& images = ctx.input(0);
    if (images.rank() < 3) return invalid_argument("images must be at least rank 3", images.shape());
    TUTTI_ASSIGN_OR_RETURN(const ImageSize size, size_to_write(images));
    if (size.channels < 1 || size.channels > 4) {
      return invalid_argument("image must have 1, 2, 3, or 4 channels, got ", size.channels);
    }
    const std::vector<std::int64_t> batch(images.shape().dims().begin(), images.shape().dims().end() - 3);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, Shape::create(batch));
    if (shape.num_elements() > 0 && images.num_elements() == 0) {
      return internal_error("PNG encoding failed: images of shape ", images.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    const std::int64_t step = size.bytes();
    for (std::int64_t i = 0; i < out->num_elements(); ++i) {
      const char* pixels = static_cast<const char*>(images.raw()) + i * step;
      TUTTI_ASSIGN_OR_RETURN(out->data<std::string>()[i], encode_png_image(pixels, size, compression_));
    }
    return {};
  }

 private:
  const int compression_;
};

class EncodeJpeg : public Kernel {
 public:
  EncodeJpeg(JpegWriteOptions options, int channels) : options_(std::move(options)), channels_(channels) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    JpegWriteOptions options;
    const std::int64_t quality = init.attr<std::int64_t>("quality");
    if (quality < 0 || quality > 100) return invalid_argument("quality must be in [0,100], got ", quality);
    options.quality = static_cast<int>(quality);
    options.progressive = init.attr<bool>("progressive");
    options.optimize_size = init.attr<bool>("optimize_size");
    options.chroma_downsampling = init.attr<bool>("chroma_downsampling");
    options.density_unit = init.attr<std::string>("density_unit") == "in" ? 1 : 2;
    options.x_density = static_cast<int>(init.attr<std::int64_t>("x_density"));
    options.y_density = static_cast<int>(init.attr<std::int64_t>("y_density"));
    options.xmp_metadata = init.attr<std::string>("xmp_metadata");
    const std::string& format = init.attr<std::string>("format");
    const int channels = format.empty() ? 0 : (format == "rgb" ? 3 : 1);
    return std::unique_ptr<Kernel>(std::make_unique<EncodeJpeg>(std::move(options), channels));
  }

  Status compute(KernelContext& ctx) override {
    const Tensor& image = ctx.input(0);
    if (image.rank() != 3) return invalid_argument("image must be 3-dimensional", image.shape());
    TUTTI_ASSIGN_OR_RETURN(const ImageSize size, size_to_write(image));
    if (channels_ != 0 && size.channels != channels_) {
      return invalid_argument("format ", channels_ == 3 ? "rgb" : "grayscale", " expects ", channels_,
                              " channels, got ", image.shape());
    }
    if (size.channels != 1 && size.channels != 3) {
      return invalid_argument("image must have 1 or 3 channels, got ", image.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
    TUTTI_ASSIGN_OR_RETURN(out->data<std::string>()[0], encode_jpeg(image.raw(), size, options_));
    return {};
  }

 private:
  const JpegWriteOptions options_;
  const int channels_;  // 0: any
};

Status encode_jpeg_variable_quality(KernelContext& ctx) {
  const Tensor& image = ctx.input(0);
  const Tensor& quality = ctx.input(1);
  if (image.rank() != 3) return invalid_argument("image must be 3-dimensional", image.shape());
  if (quality.rank() != 0) return invalid_argument("quality must be scalar: ", quality.shape());
  TUTTI_ASSIGN_OR_RETURN(const ImageSize size, size_to_write(image));
  JpegWriteOptions options;
  options.quality = quality.scalar<std::int32_t>();
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  TUTTI_ASSIGN_OR_RETURN(out->data<std::string>()[0], encode_jpeg(image.raw(), size, options));
  return {};
}

// --- Shapes. ---

Status image_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  const Node& node = c.node();
  std::int64_t channels = kUnknownDim;
  if (node.find_attr("channels") != nullptr && c.attr<std::int64_t>("channels") > 0) {
    channels = c.attr<std::int64_t>("channels");
  }
  PartialShape image{kUnknownDim, kUnknownDim, channels};
  if (c.num_inputs() > 1) {
    if (const std::optional<Tensor> window = c.constant(1)) {
      const std::span<const std::int32_t> sides = window->flat<std::int32_t>();
      for (int i = 0; i < 2 && sides.size() == 4; ++i) {
        const std::int32_t side = sides[static_cast<std::size_t>(2 + i)];
        if (side >= 0) image.set_dim(i, side);
      }
    }
  }
  c.set_output(0, std::move(image));
  return {};
}

Status gif_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  c.set_output(0, {kUnknownDim, kUnknownDim, kUnknownDim, 3});
  return {};
}

Status any_image_shape(ShapeContext& c) {
  if (!c.attr<bool>("expand_animations")) return image_shape(c);
  return c.with_rank(0, 0).status();  // with frames or without
}

Status three_numbers(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  c.set_output(0, {3});
  return {};
}

Status encoded_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 3).status());
  c.set_output(0, PartialShape::scalar());
  return {};
}

Status encoded_batch_shape(ShapeContext& c) {
  const PartialShape& images = c.input(0);
  if (!images.has_rank()) return {};
  TUTTI_RETURN_IF_ERROR(c.with_rank_at_least(0, 3).status());
  c.set_output(0, PartialShape(std::vector<std::int64_t>(images.dims().begin(), images.dims().end() - 3)));
  return {};
}

// --- Rows. ---

OpRow decoder(std::string name, std::string signature, std::string attrs, ShapeFn shape) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .no_gradient = true,
          .traits = kExpensive,
          .kernels = {TUTTI_CPU(kernel_of<DecodeImageFile>())}};
}

}  // namespace

void register_image_file_ops(OpTable& ops) {
  const std::string jpeg =
      "channels: int = 0; ratio: int = 1; fancy_upscaling: bool = true; try_recover_truncated: bool = false; "
      "acceptable_fraction: float = 1.0; dct_method: string = ''";
  ops.add(decoder("DecodeJpeg", "contents: string -> image: uint8", jpeg, image_shape));
  ops.add(decoder("DecodeAndCropJpeg", "contents: string, crop_window: int32 -> image: uint8", jpeg, image_shape));
  ops.add(decoder("DecodePng", "contents: string -> image: dtype", "channels: int = 0; dtype: {uint8, uint16} = uint8",
                  image_shape));
  ops.add(decoder("DecodeBmp", "contents: string -> image: uint8", "channels: int = 0", image_shape));
  ops.add(decoder("DecodeGif", "contents: string -> image: uint8", "", gif_shape));
  ops.add(decoder("DecodeImage", "contents: string -> image: dtype",
                  "channels: int = 0; dtype: {uint8, uint16, float} = uint8; expand_animations: bool = true",
                  any_image_shape));
  ops.add({.name = "ExtractJpegShape",
           .signature = "contents: string -> image_shape: output_type",
           .attrs = "output_type: {int32, int64} = int32",
           .shape = three_numbers,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(extract_jpeg_shape))}});
  ops.add({.name = "EncodePng",
           .signature = "image: T -> contents: string",
           .attrs = "compression: int = -1; T: {uint8, uint16} = uint8",
           .shape = encoded_batch_shape,
           .no_gradient = true,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_of<EncodePng>())}});
  ops.add({.name = "EncodeJpeg",
           .signature = "image: uint8 -> contents: string",
           .attrs = "format: {'', 'grayscale', 'rgb'} = ''; quality: int = 95; progressive: bool = false; "
                    "optimize_size: bool = false; chroma_downsampling: bool = true; density_unit: {'in', 'cm'} = 'in'; "
                    "x_density: int = 300; y_density: int = 300; xmp_metadata: string = ''",
           .shape = encoded_shape,
           .no_gradient = true,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_of<EncodeJpeg>())}});
  ops.add({.name = "EncodeJpegVariableQuality",
           .signature = "images: uint8, quality: int32 -> contents: string",
           .shape = encoded_shape,
           .no_gradient = true,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(kernel_from(encode_jpeg_variable_quality))}});
}

}  // namespace tutti
