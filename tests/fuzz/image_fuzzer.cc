// libFuzzer target: bytes are an image file, decoded as the first byte says (how) and as their own first bytes say
// (which format). Anything may fail, with kInvalidArgument; nothing may crash, read out of bounds, hang, or take memory
// beyond the limit.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tutti/io/images/image_codec.h"

extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=256:detect_leaks=0"; }

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const unsigned how = data[0];
  const std::string_view file(reinterpret_cast<const char*>(data) + 1, size - 1);
  const ImageLimits limits{.max_bytes = 1 << 20};
  std::vector<std::uint8_t> pixels;
  const PixelRoom room = [&pixels](const ImageSize& image) -> Result<void*> {
    pixels.resize(static_cast<std::size_t>(image.bytes()));
    return pixels.data();
  };
  constexpr int kChannels[] = {0, 1, 3, 4};
  const int channels = kChannels[how % 4];
  Status status;
  switch (image_format(file)) {
    case ImageFormat::kJpeg: {
      JpegOptions options{.channels = channels == 4 ? 0 : channels, .ratio = 1 << (how >> 2) % 4};
      options.fancy_upscaling = (how & 16) != 0;
      options.fast_dct = (how & 32) != 0;
      options.recover_truncated = (how & 64) != 0;
      options.acceptable_fraction = 0.3f;
      if ((how & 128) != 0) options.crop = CropWindow{.y = how % 7, .x = how % 11, .height = 3, .width = 5};
      status = decode_jpeg(file, options, limits, room);
      (void)jpeg_size(file);
      break;
    }
    case ImageFormat::kPng:
      status = decode_png(file, channels, (how & 16) != 0 ? 2 : 1, limits, room);
      break;
    case ImageFormat::kGif:
      status = decode_gif(file, (how & 16) != 0, limits, room);
      break;
    case ImageFormat::kBmp:
      status = decode_bmp(file, channels, limits, room);
      break;
    default:
      (void)jpeg_size(file);
  }
  if (!status.ok() && status.code() != Code::kInvalidArgument) std::abort();
  return 0;
}
