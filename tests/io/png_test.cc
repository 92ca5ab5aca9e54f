#include "tutti/io/png.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <numeric>
#include <random>
#include <vector>

namespace tutti::png_test {

using Bytes = std::vector<std::uint8_t>;

std::uint32_t be32(std::string_view bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes.at(at + i));
  return value;
}

struct Decoded {
  std::uint32_t width = 0, height = 0;
  int color_type = -1;
  Bytes pixels;
};

// A reader for what the writer may write: checks every chunk's length and CRC, undoes the filters.
Decoded decode(std::string_view png, std::size_t channels) {
  Decoded out;
  EXPECT_EQ(png.substr(0, 8), std::string_view("\x89PNG\r\n\x1a\n"));
  std::string data;
  std::vector<std::string> types;
  for (std::size_t at = 8; at < png.size();) {
    const std::uint32_t size = be32(png, at);
    const std::string_view body = png.substr(at + 4, 4 + size);
    EXPECT_EQ(be32(png, at + 8 + size), crc32(0, reinterpret_cast<const Bytef*>(body.data()), size + 4));
    types.emplace_back(body.substr(0, 4));
    if (types.back() == "IHDR") {
      out.width = be32(body, 4);
      out.height = be32(body, 8);
      EXPECT_EQ(body[12], 8);
      out.color_type = body[13];
    }
    if (types.back() == "IDAT") data += body.substr(4);
    at += 12 + size;
  }
  EXPECT_EQ(types.front(), "IHDR");
  EXPECT_EQ(types.back(), "IEND");
  const std::size_t row = out.width * channels;
  Bytes filtered(out.height * (row + 1));
  uLongf size = filtered.size();
  EXPECT_EQ(uncompress(filtered.data(), &size, reinterpret_cast<const Bytef*>(data.data()), data.size()), Z_OK);
  EXPECT_EQ(size, filtered.size());
  for (std::size_t y = 0; y < out.height; ++y) {
    const int filter = filtered[y * (row + 1)];
    for (std::size_t x = 0; x < row; ++x) {
      const int left = x >= channels ? out.pixels[y * row + x - channels] : 0;
      const int up = y > 0 ? out.pixels[(y - 1) * row + x] : 0;
      const int base = filter == 0 ? 0 : filter == 1 ? left : up;
      EXPECT_LE(filter, 2);
      out.pixels.push_back(static_cast<std::uint8_t>(filtered[y * (row + 1) + 1 + x] + base));
    }
  }
  return out;
}

TEST(Png, ReadsBackAsItWas) {
  std::mt19937 random(5);
  for (int channels : {1, 3, 4}) {
    for (auto [height, width] : {std::pair{1, 1}, {3, 5}, {64, 33}, {1, 200}, {200, 1}}) {
      Bytes pixels(static_cast<std::size_t>(height * width * channels));
      for (std::size_t i = 0; i < pixels.size(); ++i) {
        // Noise in one half, a ramp in the other, so that all filters have their turn.
        pixels[i] = static_cast<std::uint8_t>(i % 2 ? random() : i / 3);
      }
      const Result<std::string> png = encode_png(height, width, channels, pixels);
      ASSERT_TRUE(png.ok()) << png.status().to_string();
      const Decoded decoded = decode(*png, static_cast<std::size_t>(channels));
      EXPECT_EQ(decoded.height, static_cast<std::uint32_t>(height));
      EXPECT_EQ(decoded.width, static_cast<std::uint32_t>(width));
      EXPECT_EQ(decoded.color_type, channels == 1 ? 0 : channels == 3 ? 2 : 6);
      EXPECT_EQ(decoded.pixels, pixels);
    }
  }
}

TEST(Png, SmoothImagesGetSmall) {
  Bytes pixels(256 * 256);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i % 256 / 2 + i / 512);
  EXPECT_LT(encode_png(256, 256, 1, pixels)->size(), 2000u);
}

TEST(Png, RefusesWhatIsNoImage) {
  const Bytes pixels(12);
  for (auto [height, width, channels] :
       {std::tuple{0, 4, 3}, {4, 0, 3}, {-1, 4, 3}, {2, 2, 2}, {2, 2, 5}, {2, 2, 4}, {2, 3, 1}}) {
    EXPECT_EQ(encode_png(height, width, channels, pixels).status().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(encode_png(std::int64_t{1} << 31, 1, 1, pixels).status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::png_test
