#include "tutti/kernels/cpu/convolution.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace tutti::cpu::convolution_test {

ConvShape same(std::int64_t batch, std::int64_t size, std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
               std::int64_t stride = 1) {
  ConvShape s{.batch = batch, .in_channels = inputs, .out_channels = outputs};
  const std::int64_t out = (size + stride - 1) / stride;
  const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * stride + kernel - size);
  s.rows = {.in = size,
            .out = out,
            .kernel = kernel,
            .stride = stride,
            .pad_before = total / 2,
            .pad_after = total - total / 2};
  s.columns = s.rows;
  return s;
}

std::vector<float> random_floats(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<float> values(static_cast<std::size_t>(n));
  for (float& value : values) value = std::uniform_real_distribution<float>(-1, 1)(engine);
  return values;
}

constexpr ConvResult kAll[] = {ConvResult::kOutput, ConvResult::kInput, ConvResult::kFilter};

// The result of one direction on given data.
std::vector<float> run(const Convolution& convolution, ConvResult result, const ConvShape& s, int threads) {
  Team team(threads);
  std::vector<float> x = random_floats(s.input_elements(), 1), w = random_floats(s.filter_elements(), 2),
                     y = random_floats(s.output_elements(), 3);
  const Status status = convolution.run(s, {x.data(), w.data(), y.data()}, team, heap_allocator());
  EXPECT_TRUE(status.ok()) << status.to_string();
  return result == ConvResult::kOutput ? y : result == ConvResult::kInput ? x : w;
}

TEST(Convolution, NothingHotFallsToTheReferenceKernel) {
  const std::vector<ConvShape> shapes = {same(128, 28, 1, 32, 3),    same(128, 14, 32, 64, 3), same(128, 7, 64, 128, 3),
                                         same(32, 32, 3, 64, 3),     same(32, 28, 64, 64, 5),  same(32, 14, 64, 256, 1),
                                         same(32, 56, 64, 128, 3, 2)};
  for (const ConvShape& s : shapes) {
    for (ConvResult result : kAll) {
      for (const bool biased : {false, result == ConvResult::kOutput}) {
        const std::string name = internal::OneDnnConvolutions::implementation(result, biased, s);
        EXPECT_EQ(name.find("ref"), std::string::npos) << name << " for the convolution " << s.to_string();
        EXPECT_FALSE(name.empty());
      }
    }
  }
}

TEST(Convolution, FewMultiplicationsForAPixelAreNotCalledOneByOne) {
  const auto of = [](const ConvShape& s) {
    return internal::OneDnnConvolutions::implementation(ConvResult::kOutput, true, s);
  };
  for (const ConvShape& s : {same(128, 28, 1, 32, 3), same(64, 28, 3, 16, 5), same(64, 32, 3, 32, 3, 2)}) {
    EXPECT_FALSE(of(s).starts_with("brgconv")) << of(s) << " for the convolution " << s.to_string();
  }
}

TEST(Convolution, DepthwiseDoesNotFallToTheReferenceKernel) {
  ConvShape s = same(32, 28, 64, 64, 3);
  s.groups = 64;
  for (ConvResult result : kAll) {
    const std::string name = internal::OneDnnConvolutions::implementation(result, false, s);
    EXPECT_EQ(name.find("ref"), std::string::npos) << name;
  }
}

// oneDNN writes behind its scratch memory there, over the filter that it makes, if that is what comes next.
TEST(Convolution, FilterOfStridedPixelsOfFewChannels) {
  for (std::int64_t inputs = 1; inputs < 10; ++inputs) {
    ConvShape s{.batch = 3, .in_channels = inputs, .out_channels = 2};
    s.rows = {.in = 6, .out = 3, .kernel = 1, .stride = 2};
    s.columns = {.in = 2, .out = 2, .kernel = 1};
    for (unsigned seed = 0; seed < 50; ++seed) {
      std::vector<float> x = random_floats(s.input_elements(), seed), y = random_floats(s.output_elements(), seed + 1),
                         w(static_cast<std::size_t>(s.filter_elements()));
      const std::vector<double> wide_x(x.begin(), x.end()), wide_y(y.begin(), y.end());
      std::vector<double> expected(w.size());
      ASSERT_TRUE(internal::unfolded_convolution<double>(ConvResult::kFilter, s, wide_x.data(), nullptr, wide_y.data(),
                                                         expected.data(), Team::alone(), heap_allocator())
                      .ok());
      const Convolution convolution(DType::kFloat, ConvResult::kFilter);
      ASSERT_TRUE(convolution.run(s, {x.data(), w.data(), y.data()}, Team::alone(), heap_allocator()).ok());
      for (std::size_t i = 0; i < w.size(); ++i) ASSERT_NEAR(w[i], expected[i], 1e-3) << inputs << " channels at " << i;
    }
  }
}

// Same inputs, same thread count, same bits; also through the cache.
TEST(Convolution, Repeats) {
  const ConvShape s = same(8, 14, 32, 64, 3);
  for (ConvResult result : kAll) {
    const Convolution convolution(DType::kFloat, result);
    for (int threads : {1, 2}) {
      const std::vector<float> first = run(convolution, result, s, threads);
      for (int i = 0; i < 5; ++i) ASSERT_EQ(run(convolution, result, s, threads), first);
    }
  }
}

// Small images with large filters go another way than through oneDNN, which agrees: padded, strided, dilated, a pixel
// at a time.
TEST(Convolution, FewPlacesAgreeWithOneDnn) {
  ConvShape dilated = same(2, 5, 128, 64, 3);
  dilated.rows.dilation = dilated.columns.dilation = 2;
  dilated.rows.pad_before = dilated.rows.pad_after = 2;
  dilated.columns = dilated.rows;
  ConvShape wide = same(3, 4, 96, 80, 3);
  wide.columns = same(3, 6, 96, 80, 3).columns;
  for (const ConvShape& s :
       {same(8, 2, 256, 256, 1), same(8, 4, 256, 256, 1, 2), same(4, 5, 96, 96, 3, 2), dilated, wide}) {
    ASSERT_TRUE(internal::has_few_places(s)) << s.to_string();
    for (ConvResult result : kAll) {
      std::vector<float> x = random_floats(s.input_elements(), 1), w = random_floats(s.filter_elements(), 2),
                         y = random_floats(s.output_elements(), 3);
      internal::OneDnnConvolutions onednn(result, false);
      ASSERT_TRUE(onednn.run(s, {x.data(), w.data(), y.data()}, Team::alone(), heap_allocator()).ok());
      const std::vector<float>& expected = result == ConvResult::kOutput ? y : result == ConvResult::kInput ? x : w;
      const std::vector<float> got = run(Convolution(DType::kFloat, result), result, s, 2);
      ASSERT_EQ(got.size(), expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        ASSERT_NEAR(got[i], expected[i], 2e-3) << s.to_string() << " " << static_cast<int>(result) << " at " << i;
      }
    }
  }
  EXPECT_FALSE(internal::has_few_places(same(8, 15, 256, 256, 1)));
  EXPECT_FALSE(internal::has_few_places(same(8, 8, 64, 128, 3)));
  EXPECT_FALSE(internal::has_few_places(same(8, 2, 16, 16, 1)));
}

// In bands, which machines differ about preferring, against double: padded, strided, dilated, of several bands and
// images, the last band shorter.
TEST(Convolution, BandsAgreeWithDouble) {
  ConvShape dilated = same(2, 9, 16, 24, 3);
  dilated.rows.dilation = 2;
  dilated.rows.pad_before = dilated.rows.pad_after = 2;
  dilated.columns.dilation = 3;
  dilated.columns.pad_before = dilated.columns.pad_after = 3;
  ConvShape wide = same(3, 20, 8, 5, 5);
  wide.columns = same(3, 33, 8, 5, 5, 2).columns;
  ConvShape lopsided = same(2, 12, 3, 7, 4);
  lopsided.rows.pad_before = 3;
  lopsided.rows.pad_after = 0;
  for (const ConvShape& s : {same(5, 14, 70, 33, 3), same(2, 40, 3, 16, 7, 2), same(3, 16, 128, 128, 1),
                             same(2, 9, 128, 512, 1, 2), dilated, wide, lopsided}) {
    std::vector<float> x = random_floats(s.input_elements(), 1), w = random_floats(s.filter_elements(), 2),
                       y = random_floats(s.output_elements(), 3), bias = random_floats(s.out_channels, 4);
    const std::vector<double> wide_x(x.begin(), x.end()), wide_w(w.begin(), w.end()), wide_y(y.begin(), y.end());
    for (ConvResult result : {ConvResult::kOutput, ConvResult::kFilter}) {
      std::vector<float>& got = result == ConvResult::kOutput ? y : w;
      std::vector<double> expected(got.size());
      ASSERT_TRUE(internal::unfolded_convolution<double>(result, s, wide_x.data(), wide_w.data(), wide_y.data(),
                                                         expected.data(), Team::alone(), heap_allocator())
                      .ok());
      for (const bool biased : {false, result == ConvResult::kOutput}) {
        const ConvArrays arrays{x.data(), w.data(), y.data(), biased ? bias.data() : nullptr};
        const std::vector<float> before = got;
        ASSERT_TRUE(internal::banded_convolution(result, s, arrays, heap_allocator()).ok());
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double want = expected[i] + (biased ? bias[i % bias.size()] : 0);
          ASSERT_NEAR(got[i], want, 2e-3) << s.to_string() << " " << static_cast<int>(result) << " at " << i;
        }
        got = before;
      }
    }
  }
}

TEST(Convolution, BandsRefuseToAllocateTooMuch) {
  const std::unique_ptr<Allocator> tiny = make_pool_allocator(64);
  const ConvShape s = same(2, 28, 4, 32, 3);
  std::vector<float> x(static_cast<std::size_t>(s.input_elements())), w(static_cast<std::size_t>(s.filter_elements())),
      y(static_cast<std::size_t>(s.output_elements()));
  const Status status = internal::banded_convolution(ConvResult::kOutput, s, {x.data(), w.data(), y.data()}, *tiny);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
}

TEST(Convolution, MoreShapesThanAreKept) {
  const Convolution convolution(DType::kFloat, ConvResult::kOutput);
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t size = 3; size < 45; ++size) {
      const ConvShape s = same(1, size, 1, 1, 1);
      std::vector<float> x = random_floats(s.input_elements(), 1), w{2}, y(x.size());
      ASSERT_TRUE(convolution.run(s, {x.data(), w.data(), y.data()}, Team::alone(), heap_allocator()).ok());
      for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i]);
    }
  }
}

TEST(Convolution, RefusesToAllocateTooMuch) {
  const std::unique_ptr<Allocator> tiny = make_pool_allocator(64);
  const Convolution convolution(DType::kHalf, ConvResult::kOutput);
  std::vector<std::uint16_t> zeros(128 * 28 * 28 * 32);
  const Status status =
      convolution.run(same(2, 28, 1, 32, 3), {zeros.data(), zeros.data(), zeros.data()}, Team::alone(), *tiny);
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
}

}  // namespace tutti::cpu::convolution_test
