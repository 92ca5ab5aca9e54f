// Image files that are damaged or lie about their size: an error, never a crash and never much memory.
#include <random>
#include <string>
#include <vector>

#include "tests/ops/host/file_ops_fixture.h"
#include "tutti/io/images/image_codec.h"

namespace tutti::image_file_ops_test {

class ImageFileOps : public testing::FileOpsFixture {
 protected:
  static std::vector<std::uint8_t> pixels(std::int64_t count) {
    std::vector<std::uint8_t> values(static_cast<std::size_t>(count));
    std::mt19937 random(7);
    for (std::uint8_t& value : values) value = static_cast<std::uint8_t>(random());
    return values;
  }
  static std::string png() {
    return encode_png_image(pixels(5 * 7 * 3).data(), {.height = 5, .width = 7, .channels = 3}, -1).value_or_throw();
  }
  static std::string jpeg() {
    return encode_jpeg(pixels(20 * 17 * 3).data(), {.height = 20, .width = 17, .channels = 3}, {}).value_or_throw();
  }
  static std::string gif() {  // 3 by 2 pixels of two colours, without compression
    return std::string("GIF89a\x03\0\x02\0\x80\0\0\x01\x02\x03\x0a\x0b\x0c", 19) +
           std::string("\x2c\0\0\0\0\x03\0\x02\0\0\x02\x03\x44\x12\x05\0\x3b", 17);
  }
  static std::string bmp() {
    std::string file("BM\x3e\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x02\0\0\0\x01\0\x18\0", 30);
    file.resize(54);
    return file + std::string("\x03\x02\x01\0\x06\x05\x04\0", 8);
  }
};

TEST_F(ImageFileOps, PngComesBackAsItWent) {
  auto decoded = run("DecodePng", {text(png())});
  ASSERT_TRUE(decoded->status().ok()) << decoded->status().to_string();
  const std::vector<std::uint8_t> values = pixels(105);
  EXPECT_TRUE(bitwise_equal(decoded->tensor(), Tensor::of<std::uint8_t>({5, 7, 3}, std::span(values))));
}

TEST_F(ImageFileOps, SmallFilesByHand) {
  auto image = run("DecodeBmp", {text(bmp())});
  ASSERT_TRUE(image->status().ok()) << image->status().to_string();
  EXPECT_TRUE(bitwise_equal(image->tensor(), Tensor::of<std::uint8_t>({2, 1, 3}, {4, 5, 6, 1, 2, 3})));
}

TEST_F(ImageFileOps, LargeJpegFilesAreWhole) {
  const std::vector<std::uint8_t> values = pixels(160 * 160 * 3);
  const ImageSize size{.height = 160, .width = 160, .channels = 3};
  const std::string file = encode_jpeg(values.data(), size, {}).value_or_throw();
  EXPECT_GT(file.size(), 20000u);  // more than one buffer
  EXPECT_EQ(file.substr(file.size() - 2), "\xff\xd9");
  auto decoded = run("DecodeJpeg", {text(file)});
  ASSERT_TRUE(decoded->status().ok()) << decoded->status().to_string();
  EXPECT_EQ(decoded->tensor().shape(), Shape({160, 160, 3}));
}

TEST_F(ImageFileOps, AJpegOfManyScansIsRefused) {
  const std::vector<std::uint8_t> values = pixels(64);
  JpegWriteOptions options;
  options.progressive = true;
  const ImageSize size{.height = 8, .width = 8, .channels = 1};
  const std::string file = encode_jpeg(values.data(), size, options).value_or_throw();
  const std::size_t scan = file.rfind("\xff\xda"), end = file.size() - 2;
  std::string many = file.substr(0, end);
  for (int i = 0; i < 600; ++i) many += file.substr(scan, end - scan);
  EXPECT_TRUE(status("DecodeJpeg", {text(file)}).ok());
  const Status refused = status("DecodeJpeg", {text(many + "\xff\xd9")});
  EXPECT_EQ(refused.code(), Code::kInvalidArgument);
  EXPECT_NE(refused.message().find("scans"), std::string::npos) << refused.to_string();
}

TEST_F(ImageFileOps, WhatDecodeGifGivesHasThreeChannels) {
  const std::vector<std::uint8_t> values = pixels(12);
  for (const int channels : {1, 2, 4}) {
    const ImageSize size{.height = 3, .width = 1, .channels = channels};
    auto decoded = run("DecodeGif", {text(encode_png_image(values.data(), size, -1).value_or_throw())});
    ASSERT_TRUE(decoded->status().ok()) << decoded->status().to_string();
    EXPECT_EQ(decoded->tensor().shape(), Shape({1, 3, 1, 3}));
  }
}

// A frame of pixels 0 and 1, in codes of 3 bits that never grow: every second one forgets.
std::string gif_frame(int left, int top, int width, int height, const std::vector<int>& pixels) {
  std::string packed;
  unsigned bits = 0;
  int have = 0;
  const auto put = [&](unsigned code) {
    bits |= code << have;
    for (have += 3; have >= 8; have -= 8, bits >>= 8) packed += static_cast<char>(bits);
  };
  for (const int pixel : pixels) {
    put(4);
    put(static_cast<unsigned>(pixel));
  }
  put(5);
  packed += static_cast<char>(bits);
  std::string frame(",");
  for (const int word : {left, top, width, height}) frame += {static_cast<char>(word), '\0'};
  return frame + std::string("\0\x02", 2) + static_cast<char>(packed.size()) + packed + '\0';
}

// Colours 0 and 1 are grey: 10 and 40.
std::string gif_of(const std::string& frames) {
  return std::string("GIF89a\x04\0\x04\0\x80\0\0\x0a\x0a\x0a\x28\x28\x28", 19) + frames;
}

Tensor gray(const Shape& shape, const std::vector<int>& pixels) {
  std::vector<std::uint8_t> values;
  for (const int pixel : pixels) values.insert(values.end(), 3, static_cast<std::uint8_t>(pixel));
  return Tensor::of<std::uint8_t>(shape, std::span(values));
}

// TensorFlow 2.15's images of the same files.
TEST_F(ImageFileOps, TheSizeOfAGifGoesByItsLargestFrame) {
  const std::string file = gif_of(gif_frame(0, 0, 2, 1, {0, 1}) + gif_frame(1, 1, 2, 3, {1, 1, 1, 1, 0, 0}) + ";");
  const std::vector<int> first{10, 40, 0, 0, 0, 0};
  auto still = run("DecodeImage", {text(file)}, {{"expand_animations", false}});
  ASSERT_TRUE(still->status().ok()) << still->status().to_string();
  EXPECT_TRUE(bitwise_equal(still->tensor(), gray({3, 2, 3}, first)));
  auto all = run("DecodeGif", {text(file)});
  ASSERT_TRUE(all->status().ok()) << all->status().to_string();
  EXPECT_TRUE(bitwise_equal(all->tensor(), gray({2, 3, 2, 3}, {10, 40, 0, 0, 0, 0, 10, 40, 0, 40, 0, 40})));
}

TEST_F(ImageFileOps, OfADamagedGifTheWholeFramesCount) {
  const std::string whole = gif_of(gif_frame(0, 0, 2, 1, {0, 1})), large = gif_frame(0, 0, 3, 3, std::vector<int>(9));
  const std::string short_of_pixels = gif_frame(0, 0, 3, 3, {0, 0});
  for (const std::string& rest : {std::string(), std::string("xyz"), large.substr(0, 6),
                                  large.substr(0, large.size() - 3), short_of_pixels + large + ";"}) {
    auto image = run("DecodeGif", {text(whole + rest)});
    ASSERT_TRUE(image->status().ok()) << image->status().to_string();
    EXPECT_TRUE(bitwise_equal(image->tensor(), gray({1, 1, 2, 3}, {10, 40})));
  }
  EXPECT_EQ(status("DecodeGif", {text(gif_of(short_of_pixels + large + ";"))}).code(), Code::kInvalidArgument);
  EXPECT_EQ(status("DecodeGif", {text(gif_of(";"))}).code(), Code::kInvalidArgument);
}

// Cut anywhere and with any byte changed: whatever comes of it, it is a result or kInvalidArgument.
TEST_F(ImageFileOps, DamageIsAnErrorOrAnImage) {
  for (const std::string& file : {png(), jpeg(), gif(), bmp()}) {
    for (std::size_t cut = 0; cut < file.size(); ++cut) {
      const Status status = this->status("DecodeImage", {text(file.substr(0, cut))});
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << cut << ": " << status.to_string();
    }
    std::mt19937 random(3);
    for (int i = 0; i < 400; ++i) {
      std::string changed = file;
      changed[random() % changed.size()] = static_cast<char>(random());
      changed[random() % changed.size()] ^= static_cast<char>(1u << random() % 8);
      const Status status = this->status("DecodeImage", {text(changed)});
      EXPECT_TRUE(status.ok() || status.code() == Code::kInvalidArgument) << status.to_string();
    }
  }
}

TEST_F(ImageFileOps, SizesThatLie) {
  std::string wide = png();
  wide.replace(16, 8, "\x7f\xff\xff\xff\x7f\xff\xff\xff");
  EXPECT_EQ(status("DecodePng", {text(wide)}).code(), Code::kInvalidArgument);
  std::string large = bmp();
  large.replace(18, 8, "\xff\xff\xff\x7f\xff\xff\xff\x7f");
  EXPECT_EQ(status("DecodeBmp", {text(large)}).code(), Code::kInvalidArgument);
  std::string lowest = bmp();
  lowest.replace(22, 4, std::string("\0\0\0\x80", 4));
  EXPECT_EQ(status("DecodeBmp", {text(lowest)}).code(), Code::kInvalidArgument);
  const ImageLimits small{.max_bytes = 100};
  const PixelRoom none = [](const ImageSize&) -> Result<void*> { return internal_error("asked for room"); };
  EXPECT_EQ(decode_png(png(), 0, 1, small, none).code(), Code::kInvalidArgument);
  EXPECT_EQ(decode_jpeg(jpeg(), {}, small, none).code(), Code::kInvalidArgument);
}

TEST_F(ImageFileOps, CropsOutsideAreRefused) {
  const std::string file = jpeg();
  for (const std::vector<std::int32_t>& window : std::vector<std::vector<std::int32_t>>{
           {-1, 0, 2, 2}, {0, 0, 21, 2}, {0, 16, 2, 2}, {2147483647, 0, 2147483647, 1}, {0, 0, 0, 1}}) {
    EXPECT_EQ(status("DecodeAndCropJpeg", {text(file), Tensor::vector<std::int32_t>(window)}).code(),
              Code::kInvalidArgument);
  }
  EXPECT_TRUE(status("DecodeAndCropJpeg", {text(file), Tensor::vector<std::int32_t>({3, 5, 17, 12})}).ok());
}

}  // namespace tutti::image_file_ops_test
