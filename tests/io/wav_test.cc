#include "tutti/io/wav.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace tutti::wav_test {

template <typename T>
T at(const std::string& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

TEST(Wav, HeaderAndSamples) {
  const std::vector<float> samples = {0, 0.5f, -0.5f, 1, -1, 2, -2, 0.00004f, std::nanf(""), 0.33333f};
  const std::string wav = *encode_wav(8000.5, 2, samples);
  ASSERT_EQ(wav.size(), 44 + 20u);
  EXPECT_EQ(wav.substr(0, 4), "RIFF");
  EXPECT_EQ(at<std::uint32_t>(wav, 4), wav.size() - 8);
  EXPECT_EQ(wav.substr(8, 8), "WAVEfmt ");
  EXPECT_EQ(at<std::uint16_t>(wav, 22), 2);
  EXPECT_EQ(at<std::uint32_t>(wav, 24), 8000u);
  EXPECT_EQ(at<std::uint32_t>(wav, 28), 32000u);
  EXPECT_EQ(at<std::uint32_t>(wav, 40), 20u);
  const std::vector<std::int16_t> expected = {0, 16384, -16384, 32767, -32768, 32767, -32768, 1, 0, 10923};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(at<std::int16_t>(wav, 44 + 2 * i), expected[i]) << i;
}

TEST(Wav, Refuses) {
  const std::vector<float> samples(6);
  EXPECT_TRUE(encode_wav(1, 1, {}).ok());
  EXPECT_EQ(at<std::uint32_t>(*encode_wav(0.5, 1, samples), 24), 0u);  // the format has whole numbers only
  EXPECT_EQ(encode_wav(8000, 0, samples).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode_wav(8000, 4, samples).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(encode_wav(8000, 100000, {}).status().code(), Code::kInvalidArgument);
  for (double rate : {0.0, -1.0, 5e9, std::nan("")}) {
    EXPECT_EQ(encode_wav(rate, 1, samples).status().code(), Code::kInvalidArgument) << rate;
  }
  EXPECT_EQ(encode_wav(4e9, 2, samples).status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::wav_test
