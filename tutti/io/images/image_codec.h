// Reading and writing image files: bytes in, pixels out. What is malformed is kInvalidArgument, whatever it is, and a
// header can claim no more memory than the limits allow.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

enum class ImageFormat { kUnknown, kJpeg, kPng, kGif, kBmp };

// By the first bytes.
ImageFormat image_format(std::string_view bytes);
std::string_view image_format_name(ImageFormat format);

struct ImageSize {
  std::int64_t frames = 1;
  std::int64_t height = 0;
  std::int64_t width = 0;
  int channels = 0;
  int channel_bytes = 1;  // 2: samples of 16 bits, in the machine's order

  std::int64_t row_bytes() const { return width * channels * channel_bytes; }
  std::int64_t bytes() const { return frames * height * row_bytes(); }
};

// Asked once the size is known, for `size.bytes()` bytes: frames, rows from the top, pixels, channels innermost. So a
// decoder writes straight into a tensor.
using PixelRoom = std::function<Result<void*>(const ImageSize& size)>;

struct ImageLimits {
  std::int64_t max_side = std::int64_t{1} << 27;
  std::int64_t max_bytes = (std::int64_t{1} << 29) - 1;  // of all pixels
};

struct CropWindow {
  std::int64_t y = 0, x = 0, height = 0, width = 0;
};

struct JpegOptions {
  int channels = 0;  // 1, 3, or 0 for those of the file
  int ratio = 1;     // 1, 2, 4 or 8: that many times smaller
  bool fancy_upscaling = true;
  bool fast_dct = true;  // as TensorFlow unless it is asked for INTEGER_ACCURATE
  // A file that ends early, or breaks off: what there is of it, when that is at least the fraction of all rows.
  bool recover_truncated = false;
  float acceptable_fraction = 1;
  std::optional<CropWindow> crop = std::nullopt;
};

Status decode_jpeg(std::string_view bytes, const JpegOptions& options, const ImageLimits& limits,
                   const PixelRoom& room);
// Without decoding the pixels. `channels` of the file.
Result<ImageSize> jpeg_size(std::string_view bytes);

// Channels 1 to 4, or 0 for those of the file. `channel_bytes` 1 or 2, whatever the file has.
Status decode_png(std::string_view bytes, int channels, int channel_bytes, const ImageLimits& limits,
                  const PixelRoom& room);
// RGB. Frames are drawn one over the other; transparent pixels of the first are black.
Status decode_gif(std::string_view bytes, bool first_frame_only, const ImageLimits& limits, const PixelRoom& room);
// Uncompressed, 8, 24 or 32 bits a pixel. Channels 3 or 4, or 0 for those of the file.
Status decode_bmp(std::string_view bytes, int channels, const ImageLimits& limits, const PixelRoom& room);

struct JpegWriteOptions {
  int quality = 95;  // 0 to 100
  bool progressive = false;
  bool optimize_size = false;
  bool chroma_downsampling = true;
  int density_unit = 1;  // 1: per inch, 2: per centimetre
  int x_density = 300;
  int y_density = 300;
  std::string xmp_metadata = "";
};

// Pixels as of a PixelRoom. JPEG: one frame of 1 or 3 channels of 8 bits. kInvalidArgument for other sizes.
Result<std::string> encode_jpeg(const void* pixels, const ImageSize& size, const JpegWriteOptions& options);
// One frame of 1 to 4 channels. `compression` 0 to 9, or -1 for zlib's own.
Result<std::string> encode_png_image(const void* pixels, const ImageSize& size, int compression);

// Shared by decoders: kInvalidArgument when there is nothing of it or too much.
Status check_image_size(const ImageSize& size, const ImageLimits& limits, std::string_view format);

}  // namespace tutti
