#include "tutti/data/digits.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <random>

#include "gzip_support.h"

namespace tutti::digits_test {

TEST(Digits, ShapesAndRanges) {
  const DigitSet set = draw_digits(500, 1);
  EXPECT_EQ(set.size(), 500);
  EXPECT_EQ(set.images.shape(), (Shape{500, 784}));
  std::vector<int> counts(10);
  for (std::int64_t label : set.labels.flat<std::int64_t>()) {
    ASSERT_TRUE(label >= 0 && label < 10);
    ++counts[static_cast<std::size_t>(label)];
  }
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 20);
  const auto [low, high] = std::minmax_element(set.images.flat<float>().begin(), set.images.flat<float>().end());
  EXPECT_EQ(*low, 0.0f);
  EXPECT_LE(*high, 1.0f);
  EXPECT_GT(*high, 0.9f);
}

TEST(Digits, OneSeedOneSet) {
  const DigitSet a = draw_digits(50, 3), b = draw_digits(50, 3), other = draw_digits(50, 4);
  EXPECT_TRUE(bitwise_equal(a.images, b.images));
  EXPECT_TRUE(bitwise_equal(a.labels, b.labels));
  EXPECT_FALSE(bitwise_equal(a.images, other.images));
  // An image does not depend on how many are drawn.
  EXPECT_TRUE(bitwise_equal(a.images.slice(0, 10), draw_digits(10, 3).images));
}

TEST(Digits, NoneDrawn) { EXPECT_EQ(draw_digits(0, 1).images.shape(), (Shape{0, 784})); }

// Softmax regression by plain stochastic gradient descent, written out.
double linear_accuracy(const DigitSet& train, const DigitSet& test, int epochs) {
  std::vector<float> w(784 * 10), b(10);
  const auto scores = [&](const float* x, float* out) {
    std::copy(b.begin(), b.end(), out);
    for (int i = 0; i < 784; ++i) {
      for (int k = 0; k < 10; ++k) out[k] += x[i] * w[static_cast<std::size_t>(i * 10 + k)];
    }
  };
  std::vector<std::int64_t> order(static_cast<std::size_t>(train.size()));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(5);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    std::shuffle(order.begin(), order.end(), random);
    const float rate = 0.02f / static_cast<float>(1 + epoch);
    for (std::int64_t n : order) {
      const float* x = train.images.data<float>() + n * 784;
      float p[10];
      scores(x, p);
      const float top = *std::max_element(p, p + 10);
      float sum = 0;
      for (float& v : p) sum += v = std::exp(v - top);
      for (int k = 0; k < 10; ++k) p[k] = rate * ((k == train.labels.data<std::int64_t>()[n]) - p[k] / sum);
      for (int k = 0; k < 10; ++k) b[static_cast<std::size_t>(k)] += p[k];
      for (int i = 0; i < 784; ++i) {
        for (int k = 0; k < 10; ++k) w[static_cast<std::size_t>(i * 10 + k)] += x[i] * p[k];
      }
    }
  }
  int right = 0;
  for (std::int64_t n = 0; n < test.size(); ++n) {
    float p[10];
    scores(test.images.data<float>() + n * 784, p);
    right += std::max_element(p, p + 10) - p == test.labels.data<std::int64_t>()[n];
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

TEST(Digits, LinearModelStaysUnder93Percent) {
  const double accuracy = linear_accuracy(draw_digits(20000, 1), draw_digits(3000, 2), 6);
  EXPECT_LT(accuracy, 0.93);
  EXPECT_GT(accuracy, 0.85);  // the labels do belong to the images
}

// --- MNIST's files ---

class MnistFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = str_cat(::testing::TempDir(), "/tutti_mnist_", ::getpid());
    ASSERT_TRUE(local_file_system().make_directories(directory_).ok());
    put("train-images-idx3-ubyte.gz", testing::gzip(images(3)));
    put("train-labels-idx1-ubyte", labels({7, 0, 9}));
    put("t10k-images-idx3-ubyte", images(1));
    put("t10k-labels-idx1-ubyte.gz", testing::gzip(labels({4})));
  }
  void TearDown() override {
    Result<std::vector<std::string>> names = local_file_system().list(directory_);
    ASSERT_TRUE(names.ok());
    for (const std::string& name : *names) EXPECT_TRUE(local_file_system().remove(directory_ + "/" + name).ok());
    EXPECT_TRUE(local_file_system().remove(directory_).ok());
  }
  void put(const std::string& name, const std::string& bytes) {
    ASSERT_TRUE(write_file(local_file_system(), directory_ + "/" + name, bytes).ok());
  }
  static std::string images(int n, int side = 28) {
    std::string out{0, 0, 8, 3, 0, 0, 0, static_cast<char>(n), 0, 0, 0, static_cast<char>(side), 0, 0, 0, 28};
    for (int i = 0; i < n * side * 28; ++i) out += static_cast<char>(i % 256);
    return out;
  }
  static std::string labels(const std::vector<int>& values) {
    std::string out{0, 0, 8, 1, 0, 0, 0, static_cast<char>(values.size())};
    for (int value : values) out += static_cast<char>(value);
    return out;
  }
  void expect_error(Code code, const std::string& words) {
    const Status status = load_mnist(local_file_system(), directory_).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  }
  std::string directory_;
};

TEST_F(MnistFiles, PlainAndGzip) {
  Result<DigitSplit> split = load_mnist(local_file_system(), directory_);
  ASSERT_TRUE(split.ok()) << split.status().to_string();
  EXPECT_EQ(split->train.images.shape(), (Shape{3, 784}));
  EXPECT_EQ(split->train.images.data<float>()[255], 1.0f);
  EXPECT_EQ(split->train.images.data<float>()[256], 0.0f);
  EXPECT_TRUE(bitwise_equal(split->train.labels, Tensor::vector<std::int64_t>({7, 0, 9})));
  EXPECT_TRUE(bitwise_equal(split->test.labels, Tensor::vector<std::int64_t>({4})));
}

TEST_F(MnistFiles, BadFilesAreNamed) {
  put("train-labels-idx1-ubyte", labels({7, 0}));
  expect_error(Code::kInvalidArgument, "train-labels-idx1-ubyte: uint8 [2] for 3 images");
  put("train-labels-idx1-ubyte", labels({7, 10, 0}));
  expect_error(Code::kInvalidArgument, "label 10 of image 1 is over 9");
  put("train-labels-idx1-ubyte", labels({7, 0, 9}));
  put("t10k-images-idx3-ubyte", images(1, 27));
  expect_error(Code::kInvalidArgument, "t10k-images-idx3-ubyte: uint8 [1,27,28] where uint8 [n,28,28] is wanted");
  ASSERT_TRUE(local_file_system().remove(directory_ + "/t10k-images-idx3-ubyte").ok());
  expect_error(Code::kNotFound, "t10k-images-idx3-ubyte");
  put("t10k-images-idx3-ubyte", images(1));
}

TEST(Mnist, RealFiles) {
  const char* directory = std::getenv("TUTTI_DATA_DIR");
  if (directory == nullptr) GTEST_SKIP() << "TUTTI_DATA_DIR is not set";
  Result<DigitSplit> split = load_mnist(local_file_system(), str_cat(directory, "/mnist"));
  ASSERT_TRUE(split.ok()) << split.status().to_string();
  EXPECT_EQ(split->train.size(), 60000);
  EXPECT_EQ(split->test.size(), 10000);
  EXPECT_EQ(split->train.labels.data<std::int64_t>()[0], 5);
  EXPECT_EQ(split->test.labels.data<std::int64_t>()[0], 7);
}

}  // namespace tutti::digits_test
