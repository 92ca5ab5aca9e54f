#include "tutti/kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tutti::cpu::gemm_test {

template <typename T>
std::vector<T> random_matrix(std::int64_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<T> values;
  for (std::int64_t i = 0; i < n; ++i)
    values.push_back(static_cast<T>(std::uniform_real_distribution<double>(-1, 1)(engine)));
  return values;
}

template <typename T>
double relative_error(const GemmShape& s, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& c) {
  double error = 0, norm = 0;
  for (std::int64_t i = 0; i < s.m; ++i) {
    for (std::int64_t j = 0; j < s.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < s.k; ++k) {
        sum += static_cast<double>(a[s.transpose_a ? k * s.m + i : i * s.k + k]) *
               b[s.transpose_b ? j * s.k + k : k * s.n + j];
      }
      error += std::pow(c[i * s.n + j] - sum, 2);
      norm += sum * sum;
    }
  }
  return std::sqrt(error / std::max(norm, 1e-30));
}

template <typename T>
void check_shapes(double tolerance) {
  Team two(2);
  const std::int64_t sizes[][3] = {{1, 1, 1},
                                   {6, 16, 256},
                                   {7, 17, 257},
                                   {97, 513, 300},
                                   {200, 5, 700},
                                   {3, 700, 3},
                                   {1, 600, 90},
                                   {600, 1, 90},
                                   {32, 500, 784},
                                   {12, 1030, 20},
                                   {400, 33, 1100},
                                   // Few rows times many, which may be transposed.
                                   {2, 96, 96},
                                   {33, 97, 513},
                                   {64, 200, 512},
                                   {65, 200, 100}};
  for (const auto& [m, n, k] : sizes) {
    for (int flags = 0; flags < 4; ++flags) {
      for (Team* team_of : {&Team::alone(), &two}) {
        Team& team = *team_of;
        const GemmShape shape{m, n, k, (flags & 1) != 0, (flags & 2) != 0};
        const std::vector<T> a = random_matrix<T>(m * k, 1), b = random_matrix<T>(k * n, 2);
        std::vector<T> c(static_cast<std::size_t>(m * n), T(99));
        ASSERT_TRUE(gemm(shape, a.data(), b.data(), c.data(), team, heap_allocator()).ok());
        EXPECT_LE(relative_error(shape, a, b, c), tolerance) << m << "x" << n << "x" << k << " flags " << flags;
      }
    }
  }
}

TEST(Gemm, Float) { check_shapes<float>(1e-6); }
TEST(Gemm, Double) { check_shapes<double>(5e-15); }

TEST(Gemm, IntegersWrapInsteadOfOverflowing) {
  const std::int32_t a[] = {2147483647, 2}, b[] = {2, 3};
  std::int32_t c = 0;
  ASSERT_TRUE(gemm(GemmShape{1, 1, 2}, a, b, &c, Team::alone(), heap_allocator()).ok());
  EXPECT_EQ(c, 4);  // 2^32 - 2 + 6
}

TEST(Gemm, EmptyDimensions) {
  float c[6] = {1, 2, 3, 4, 5, 6};
  const float* none = nullptr;
  ASSERT_TRUE(gemm({2, 3, 0}, none, none, c, Team::alone(), heap_allocator()).ok());
  for (float value : c) EXPECT_EQ(value, 0);
  ASSERT_TRUE(gemm({0, 3, 4}, none, c, static_cast<float*>(nullptr), Team::alone(), heap_allocator()).ok());
}

// Same inputs, same size of team, same bits.
TEST(Gemm, Repeats) {
  const GemmShape shape{64, 300, 500};
  const std::vector<float> a = random_matrix<float>(64 * 500, 3), b = random_matrix<float>(500 * 300, 4);
  for (int threads : {1, 2}) {
    Team team(threads);
    std::vector<float> first(64 * 300), again(64 * 300);
    ASSERT_TRUE(gemm(shape, a.data(), b.data(), first.data(), team, heap_allocator()).ok());
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(gemm(shape, a.data(), b.data(), again.data(), team, heap_allocator()).ok());
      ASSERT_EQ(first, again);
    }
  }
}

}  // namespace tutti::cpu::gemm_test
