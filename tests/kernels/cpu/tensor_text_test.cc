#include "tutti/kernels/cpu/tensor_text.h"

#include <gtest/gtest.h>

#include <complex>
#include <limits>
#include <numeric>

namespace tutti::cpu::tensor_text_test {

Tensor counting(const Shape& shape) {
  Tensor tensor(DType::kInt32, shape);
  std::iota(tensor.flat<std::int32_t>().begin(), tensor.flat<std::int32_t>().end(), 0);
  return tensor;
}

// Expected texts are what TensorFlow prints.
TEST(TensorText, Summaries) {
  EXPECT_EQ(summary_of(counting({20}), 3), "0 1 2...");
  EXPECT_EQ(summary_of(counting({2, 3}), -1), "[0 1 2][3 4 5]");
  EXPECT_EQ(summary_of(counting({2, 3}), 3), "[0 1 2]...");
  EXPECT_EQ(summary_of(counting({2, 3}), 1), "[0...]...");
  EXPECT_EQ(summary_of(counting({2, 3, 4}), 3), "[[0 1 2...]]...");
  EXPECT_EQ(summary_of(Tensor::scalar(std::int32_t{5}), 3), "5");
  EXPECT_EQ(summary_of(Tensor::scalar(std::int32_t{5}), 0), "...");
  EXPECT_EQ(summary_of(Tensor(DType::kFloat, {2, 0}), 3), "");
  EXPECT_EQ(summary_of(Tensor::vector<std::complex<float>>({1, 2}), 1), "?...");
  EXPECT_EQ(summary_of(Tensor::vector<bool>({true, false}), 3), "1 0");
}

TEST(TensorText, Nested) {
  EXPECT_EQ(nested_text_of(counting({20}), 3), "[0 1 2 ... 17 18 19]");
  EXPECT_EQ(nested_text_of(counting({0}), 3), "[]");
  EXPECT_EQ(nested_text_of(Tensor(DType::kBool, {2, 0}), 3), "");
  EXPECT_EQ(nested_text_of(counting({2, 3}), 3), "[[0 1 2]\n [3 4 5]]");
  EXPECT_EQ(nested_text_of(counting({2, 3, 4}), 1),
            "[[[0 ... 3]\n  ...\n  [8 ... 11]]\n\n [[12 ... 15]\n  ...\n  [20 ... 23]]]");
  EXPECT_EQ(nested_text_of(Tensor(DType::kFloat, {0}), 3), "[]");
  EXPECT_EQ(nested_text_of(Tensor::vector<std::string>({"a\n\"b", "c"}), 3), "[\"a\\n\\\"b\" \"c\"]");
  EXPECT_EQ(nested_text_of(Tensor::scalar(std::int32_t{5}), -1), "5");
  EXPECT_EQ(nested_text_of(Tensor::vector<std::complex<double>>({1}), 3), "[?]");
}

TEST(TensorText, Numbers) {
  EXPECT_EQ(number_text(0.1f), "0.1");
  EXPECT_EQ(number_text(1.0f / 3), "0.333333343");
  EXPECT_EQ(number_text(1e10f), "1e+10");
  EXPECT_EQ(number_text(1.0 / 3), "0.33333333333333331");
  EXPECT_EQ(number_text(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(number_text(std::numeric_limits<float>::quiet_NaN()), "nan");
  EXPECT_EQ(summary_of(Tensor::vector<std::uint64_t>({~std::uint64_t{0}}), 1), "18446744073709551615");
}

TEST(TensorText, Escapes) { EXPECT_EQ(escaped("a\t'\\\x01\x7f\xc3\xa9\r"), "a\\t\\'\\\\\\001\\177\xc3\xa9\\r"); }

}  // namespace tutti::cpu::tensor_text_test
