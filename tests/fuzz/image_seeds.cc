// Writes image files for the fuzzer to start from, in its own form: image_seeds FOLDER
#include <cstdio>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"
#include "tutti/io/images/image_codec.h"

using namespace tutti;

namespace {

// 3 by 2 pixels of two colours, then one frame over it with a transparent colour.
std::string gif() {
  const std::string colors("\x01\x02\x03\x0a\x0b\x0c", 6);
  const std::string frame("\x2c\0\0\0\0\x03\0\x02\0\0\x02\x03\x44\x12\x05\0", 16);
  return std::string("GIF89a\x03\0\x02\0\x80\0\0", 13) + colors + frame + std::string("\x21\xf9\x04\x01\0\0\x01\0", 8) +
         frame + "\x3b";
}

std::string bmp() {
  std::string file("BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\x18\0", 30);
  file.resize(54);
  return file + std::string("\x03\x02\x01\0\x06\x05\x04\0", 8);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: image_seeds FOLDER\n"), 2;
  try {
    const std::string folder = argv[1];
    const auto write = [&](const std::string& name, char how, const std::string& bytes) {
      throw_if_error(write_file(local_file_system(), folder + "/" + name, std::string(1, how) + bytes));
    };
    std::vector<std::uint8_t> pixels(20 * 17 * 4);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37 % 251);
    for (const int channels : {1, 3}) {
      for (const bool progressive : {false, true}) {
        const JpegWriteOptions options{.quality = 40, .progressive = progressive};
        const std::string name = "jpeg" + std::to_string(channels) + (progressive ? "p" : "");
        write(name, 0,
              encode_jpeg(pixels.data(), {.height = 20, .width = 17, .channels = channels}, options).value_or_throw());
      }
    }
    for (const int channels : {1, 2, 3, 4}) {
      const ImageSize size{.height = 9, .width = 5, .channels = channels, .channel_bytes = 1 + channels % 2};
      write("png" + std::to_string(channels), 16, encode_png_image(pixels.data(), size, -1).value_or_throw());
    }
    write("gif", 0, gif());
    write("bmp", 0, bmp());
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "image_seeds: %s\n", error.what());
    return 1;
  }
}
