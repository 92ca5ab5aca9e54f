#include "tutti/io/images/image_codec.h"

namespace tutti {

ImageFormat image_format(std::string_view bytes) {
  if (bytes.starts_with("\xff\xd8\xff")) return ImageFormat::kJpeg;
  if (bytes.starts_with("\x89PNG\r\n\x1a\n")) return ImageFormat::kPng;
  if (bytes.starts_with("GIF8")) return ImageFormat::kGif;
  if (bytes.starts_with("BM")) return ImageFormat::kBmp;
  return ImageFormat::kUnknown;
}

std::string_view image_format_name(ImageFormat format) {
  switch (format) {
    case ImageFormat::kJpeg:
      return "JPEG";
    case ImageFormat::kPng:
      return "PNG";
    case ImageFormat::kGif:
      return "GIF";
    case ImageFormat::kBmp:
      return "BMP";
    default:
      return "unknown";
  }
}

Status check_image_size(const ImageSize& size, const ImageLimits& limits, std::string_view format) {
  const bool sides_fit =
      size.width > 0 && size.height > 0 && size.width < limits.max_side && size.height < limits.max_side;
  // Sides under 2^27 and a few channels cannot overflow; the frames are divided by.
  if (!sides_fit || size.frames <= 0 || size.row_bytes() * size.height > limits.max_bytes / size.frames) {
    return invalid_argument(format, " size too large for int, or empty: ", size.frames, " frames of ", size.width,
                            " by ", size.height, " with ", size.channels, " channels");
  }
  return {};
}

}  // namespace tutti
