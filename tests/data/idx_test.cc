#include "tutti/data/idx.h"

#include <gtest/gtest.h>

#include <random>

#include "gzip_support.h"

namespace tutti::idx_test {

using testing::gzip;

// "\0\0", type, rank and big-endian dimensions, written out by hand.
std::string header(int type, const std::vector<std::uint32_t>& dims) {
  std::string out{'\0', '\0', static_cast<char>(type), static_cast<char>(dims.size())};
  for (std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(dim >> shift);
  }
  return out;
}

void expect_error(const std::string& bytes, Code code, const std::string& words) {
  const Status status = parse_idx(bytes).status();
  EXPECT_EQ(status.code(), code) << status.to_string();
  EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
}

Tensor parsed(const std::string& bytes) {
  Result<Tensor> tensor = parse_idx(bytes);
  EXPECT_TRUE(tensor.ok()) << tensor.status().to_string();
  return tensor.ok() ? *tensor : Tensor();
}

TEST(Idx, EveryElementType) {
  EXPECT_TRUE(bitwise_equal(parsed(header(0x08, {2, 2}) + std::string("\x01\x02\xfe\xff", 4)),
                            Tensor::of<std::uint8_t>({2, 2}, {1, 2, 254, 255})));
  EXPECT_TRUE(
      bitwise_equal(parsed(header(0x09, {2}) + std::string("\xff\x7f", 2)), Tensor::vector<std::int8_t>({-1, 127})));
  EXPECT_TRUE(bitwise_equal(parsed(header(0x0B, {2}) + std::string("\x01\x02\xff\xfe", 4)),
                            Tensor::vector<std::int16_t>({0x0102, -2})));
  EXPECT_TRUE(bitwise_equal(parsed(header(0x0C, {1}) + std::string("\x01\x02\x03\x04", 4)),
                            Tensor::vector<std::int32_t>({0x01020304})));
  EXPECT_TRUE(
      bitwise_equal(parsed(header(0x0D, {1}) + std::string("\x3f\xc0\x00\x00", 4)), Tensor::vector<float>({1.5f})));
  EXPECT_TRUE(bitwise_equal(parsed(header(0x0E, {1}) + std::string("\xc0\x04\x00\x00\x00\x00\x00\x00", 8)),
                            Tensor::vector<double>({-2.5})));
}

TEST(Idx, ScalarsAndEmpties) {
  EXPECT_TRUE(bitwise_equal(parsed(header(0x08, {}) + "\x07"), Tensor::scalar<std::uint8_t>(7)));
  EXPECT_EQ(parsed(header(0x0D, {0, 28, 28})).shape(), (Shape{0, 28, 28}));
}

TEST(Idx, GzipIsSeenByItsMagic) {
  EXPECT_TRUE(bitwise_equal(parsed(gzip(header(0x08, {3}) + "abc")), Tensor::vector<std::uint8_t>({'a', 'b', 'c'})));
}

TEST(Idx, TruncationsAreNamed) {
  expect_error("", Code::kDataLoss, "0 bytes are less than a header");
  expect_error(header(0x08, {3, 4}).substr(0, 9), Code::kDataLoss, "9 of 12 bytes for rank 2");
  expect_error(header(0x08, {3}) + "ab", Code::kDataLoss, "10 of 11 bytes for uint8 [3]");
  expect_error(gzip(header(0x08, {3}) + "ab"), Code::kDataLoss, "10 of 11 bytes");
  const std::string folded = gzip(header(0x08, {3}) + "abc");
  expect_error(folded.substr(0, folded.size() - 9), Code::kDataLoss, "ends early");
}

TEST(Idx, GarbageIsRefused) {
  expect_error("PK\x03\x04 zip", Code::kInvalidArgument, "starts with bytes 80 75");
  expect_error(header(0x0A, {1}) + "a", Code::kInvalidArgument, "unknown element type 10");
  expect_error(header(0x08, {2}) + "abc", Code::kInvalidArgument, "more bytes than the 10");
  expect_error(gzip(header(0x08, {2}) + std::string(1000, 'a')), Code::kInvalidArgument, "more bytes than the 10");
}

TEST(Idx, SizesThatOverflowOrLie) {
  const std::uint32_t big = 0xffffffff;
  expect_error(header(0x0E, {big, big, big}), Code::kInvalidArgument, "IDX");
  expect_error(header(0x0E, {big, 0x7fffffff}), Code::kInvalidArgument, "too large");
  // 16 GiB announced, nothing there: an error at once, without taking the memory.
  expect_error(header(0x08, {1 << 17, 1 << 17}), Code::kDataLoss, "for uint8 [131072,131072]");
  expect_error(gzip(header(0x08, {1 << 17, 1 << 17})), Code::kDataLoss, "for uint8 [131072,131072]");
}

TEST(Idx, RandomBytesNeverCrash) {
  std::mt19937 random(7);
  const auto small = [&] { return static_cast<std::uint32_t>(random() % 4); };
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = header(static_cast<int>(random() % 16), {small(), small()});
    bytes.resize(random() % 40);
    for (int k = 0; k < 3 && !bytes.empty(); ++k) bytes[random() % bytes.size()] = static_cast<char>(random());
    (void)parse_idx(bytes);
  }
}

TEST(Idx, FileErrorsNameThePath) {
  const Status status = read_idx(local_file_system(), "no/such/file-idx1").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("no/such/file-idx1"), std::string::npos);
}

}  // namespace tutti::idx_test
