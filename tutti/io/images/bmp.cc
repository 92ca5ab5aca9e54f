#include <cstdlib>

#include "tutti/io/images/image_codec.h"

namespace tutti {
namespace {

std::uint32_t little32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

constexpr std::size_t kBmpHeaderBytes = 32;  // as far as what is read here

}  // namespace

Status decode_bmp(std::string_view bytes, int channels, const ImageLimits& limits, const PixelRoom& room) {
  if (bytes.size() < kBmpHeaderBytes) {
    return invalid_argument("Incomplete bmp content, requires at least ", kBmpHeaderBytes, " bytes, got ",
                            bytes.size());
  }
  const std::int64_t header = static_cast<std::int32_t>(little32(bytes, 10));
  const std::int64_t width = static_cast<std::int32_t>(little32(bytes, 18));
  const std::int64_t height = static_cast<std::int32_t>(little32(bytes, 22));
  const int bits = static_cast<unsigned char>(bytes[28]) | static_cast<unsigned char>(bytes[29]) << 8;
  if (bits != 8 && bits != 24 && bits != 32) {
    return invalid_argument("Number of channels inherent in the image must be 1, 3 or 4, was ", bits, " bits");
  }
  if (channels != 0 && channels != 3 && channels != 4) {
    return invalid_argument("`channels` must be 0, 3 or 4 for BMP, but got ", channels);
  }
  const int stored = bits / 8;
  const ImageSize size{.height = std::abs(height), .width = width, .channels = channels != 0 ? channels : stored};
  TUTTI_RETURN_IF_ERROR(check_image_size(size, limits, "BMP"));
  const std::int64_t stride = (width * stored + 3) / 4 * 4;
  const std::int64_t surplus = static_cast<std::int64_t>(bytes.size()) - header - stride * size.height;
  if (header < 0 || surplus != 0) {
    return invalid_argument("Input size should match (header_size + row_size * abs_height) but they differ by ",
                            surplus, ": ", bytes.size(), " bytes for ", width, " by ", size.height, " pixels of ", bits,
                            " bits from offset ", header);
  }
  TUTTI_ASSIGN_OR_RETURN(void* to, room(size));
  auto* out = static_cast<std::uint8_t*>(to);
  for (std::int64_t y = 0; y < size.height; ++y) {
    const std::int64_t row = height < 0 ? y : size.height - 1 - y;  // the bottom first, unless the height is negative
    const auto* from = reinterpret_cast<const std::uint8_t*>(bytes.data()) + header + row * stride;
    for (std::int64_t x = 0; x < size.width; ++x, from += stored, out += size.channels) {
      if (size.channels == 1) {
        out[0] = from[0];
        continue;
      }
      const bool grey = stored == 1;  // else blue comes first
      out[0] = from[grey ? 0 : 2];
      out[1] = from[grey ? 0 : 1];
      out[2] = from[0];
      if (size.channels == 4) out[3] = stored == 4 ? from[3] : 255;
    }
  }
  return {};
}

}  // namespace tutti
