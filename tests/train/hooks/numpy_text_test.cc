#include "tutti/train/hooks/numpy_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

namespace tutti::numpy_text_test {

// The texts are numpy 1.26's.
TEST(NumpyTextTest, Scalars) {
  EXPECT_EQ(numpy_text(Tensor::scalar(0.1f)), "0.1");
  EXPECT_EQ(numpy_text(Tensor::scalar(1e-5f)), "1e-05");
  EXPECT_EQ(numpy_text(Tensor::scalar(1.0f)), "1.0");
  EXPECT_EQ(numpy_text(Tensor::scalar(1e20f)), "1e+20");
  EXPECT_EQ(numpy_text(Tensor::scalar(16777216.0f)), "16777216.0");
  EXPECT_EQ(numpy_text(Tensor::scalar(1.0 / 3)), "0.3333333333333333");
  EXPECT_EQ(numpy_text(Tensor::scalar(std::numeric_limits<float>::quiet_NaN())), "nan");
  EXPECT_EQ(numpy_text(Tensor::scalar<std::int64_t>(-3)), "-3");
  EXPECT_EQ(numpy_text(Tensor::scalar(true)), "True");
  EXPECT_EQ(numpy_text(Tensor::scalar<std::string>("it's")), "b\"it's\"");
}

TEST(NumpyTextTest, Vectors) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(numpy_text(Tensor::vector<float>({1, 2.5f, -3.25f})), "[ 1.    2.5  -3.25]");
  EXPECT_EQ(numpy_text(Tensor::vector<float>({0.1f, 0.25f, 1e-9f})), "[0.1  0.25 0.  ]");
  EXPECT_EQ(numpy_text(Tensor::vector<float>({1e8f, 2.5f})), "[1.0e+08 2.5e+00]");
  EXPECT_EQ(numpy_text(Tensor::vector<float>({1, std::nanf(""), -infinity})), "[  1.  nan -inf]");
  EXPECT_EQ(numpy_text(Tensor::vector<float>({123456.789f, 0.001f})), "[123456.79       0.001]");
  EXPECT_EQ(numpy_text(Tensor::vector<float>({-0.0f, 1})), "[-0.  1.]");
  EXPECT_EQ(numpy_text(Tensor::vector<double>({1.0 / 3, 2.0 / 3})), "[0.33333333 0.66666667]");
  EXPECT_EQ(numpy_text(Tensor::vector<std::uint8_t>({200, 3})), "[200   3]");
  EXPECT_EQ(numpy_text(Tensor::vector<bool>({true, false})), "[ True False]");
  EXPECT_EQ(numpy_text(Tensor::vector<std::string>({"a", "bcd"})), "[b'a' b'bcd']");
  EXPECT_EQ(numpy_text(Tensor(DType::kFloat, Shape{0, 3})), "[]");
}

Tensor thirds(std::int64_t count) {
  Tensor tensor(DType::kFloat, Shape{count});
  for (std::int64_t i = 0; i < count; ++i) tensor.data<float>()[i] = static_cast<float>(i) / 3;
  return tensor;
}

TEST(NumpyTextTest, RowsAndLongLines) {
  EXPECT_EQ(numpy_text(Tensor::of<std::int32_t>({2, 2}, {1, 2, 3, 40})), "[[ 1  2]\n [ 3 40]]");
  EXPECT_EQ(numpy_text(Tensor::of<std::int32_t>({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7})),
            "[[[0 1]\n  [2 3]]\n\n [[4 5]\n  [6 7]]]");
  EXPECT_EQ(numpy_text(thirds(15)),
            "[0.         0.33333334 0.6666667  1.         1.3333334  1.6666666\n"
            " 2.         2.3333333  2.6666667  3.         3.3333333  3.6666667\n"
            " 4.         4.3333335  4.6666665 ]");
}

TEST(NumpyTextTest, ManyElementsAreLeftOut) {
  Tensor counted(DType::kInt64, Shape{2000});
  std::iota(counted.data<std::int64_t>(), counted.data<std::int64_t>() + 2000, 0);
  EXPECT_EQ(numpy_text(counted), "[   0    1    2 ... 1997 1998 1999]");
  Tensor wide(DType::kFloat, Shape{4, 1000});
  for (int i = 0; i < 4000; ++i) wide.data<float>()[i] = static_cast<float>(i) / 7;
  EXPECT_EQ(numpy_text(wide),
            "[[  0.           0.14285715   0.2857143  ... 142.42857    142.57143\n"
            "  142.71428   ]\n"
            " [142.85715    143.         143.14285    ... 285.2857     285.42856\n"
            "  285.57144   ]\n"
            " [285.7143     285.85715    286.         ... 428.14285    428.2857\n"
            "  428.42856   ]\n"
            " [428.57144    428.7143     428.85715    ... 571.         571.1429\n"
            "  571.2857    ]]");
}

TEST(NumpyTextTest, OtherTypesAreStillSaid) {
  EXPECT_NE(numpy_text(Tensor(DType::kHalf, Shape{2})).find("half"), std::string::npos);
}

}  // namespace tutti::numpy_text_test
