#include "tutti/kernels/cpu/row_loops.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tutti::cpu::row_loops_test {

template <typename T>
Tensor random_rows(std::int64_t rows, std::int64_t width, std::mt19937& random) {
  Tensor table(dtype_of<T>(), Shape{rows, width});
  std::uniform_int_distribution<int> digit(-8, 8);  // sums are exact
  for (T& value : table.flat<T>()) value = static_cast<T>(static_cast<float>(digit(random)));
  return table;
}

template <typename T>
float number(T value) {
  return static_cast<float>(value);
}

template <typename T>
void compare_sums() {
  std::mt19937 random(7);
  const RowLoops loops = find_row_loops(dtype_of<T>());
  ASSERT_TRUE(loops);
  const std::vector<std::int64_t> rows{3, 0, 3, 4, 1};
  const std::vector<std::int32_t> narrow(rows.begin(), rows.end());
  for (const std::int64_t width : {1, 2, 7, 8, 15, 16, 33, 64, 65, 130, 257}) {
    const Tensor table = random_rows<T>(5, width, random);
    for (std::int64_t count = 0; count <= 5; ++count) {
      Tensor out(dtype_of<T>(), Shape{width}), out_narrow(dtype_of<T>(), Shape{width});
      loops.sum_of_64(table.raw(), rows.data(), count, 5, width, 1, out.raw());
      loops.sum_of_32(table.raw(), narrow.data(), count, 5, width, 1, out_narrow.raw());
      EXPECT_TRUE(bitwise_equal(out, out_narrow));
      for (std::int64_t c = 0; c < width; ++c) {
        float expected = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          expected += number(table.data<T>()[rows[static_cast<std::size_t>(i)] * width + c]);
        }
        ASSERT_EQ(number(out.data<T>()[c]), expected) << width << " wide, " << count << " rows, column " << c;
      }
    }
  }
}

TEST(RowLoops, SumsOfEveryWidth) {
  compare_sums<float>();
  compare_sums<double>();
  compare_sums<Half>();
  compare_sums<Bfloat16>();
  compare_sums<std::int32_t>();
  compare_sums<std::int8_t>();
}

TEST(RowLoops, Scaled) {
  const Tensor table = Tensor::of<float>(Shape{2, 2}, {1, 2, 3, 4});
  const std::vector<std::int64_t> rows{0, 1};
  Tensor out(DType::kFloat, Shape{2});
  const RowLoops loops = find_row_loops(DType::kFloat);
  loops.sum_of_64(table.raw(), rows.data(), 2, 2, 2, 0.5, out.raw());
  EXPECT_TRUE(bitwise_equal(out, Tensor::vector<float>({2, 3})));
  loops.add(table.raw(), 2, 2, out.raw());
  EXPECT_TRUE(bitwise_equal(out, Tensor::vector<float>({4, 7})));
}

TEST(RowLoops, TextHasNone) {
  EXPECT_FALSE(find_row_loops(DType::kString));
  EXPECT_FALSE(find_row_loops(DType::kBool));
}

// The same bits on any number of threads.
TEST(RowLoops, ScatteredOverThreads) {
  std::mt19937 random(11);
  constexpr std::int64_t kRows = 5000, kWidth = 33, kCount = 20000;
  Tensor from(DType::kFloat, Shape{kCount, kWidth}), targets(DType::kInt32, Shape{kCount});
  std::normal_distribution<float> normal;
  for (float& value : from.flat<float>()) value = normal(random);
  std::uniform_int_distribution<std::int32_t> row(-1, kRows - 1);
  for (std::int32_t& target : targets.flat<std::int32_t>()) target = row(random);
  const RowLoops loops = find_row_loops(DType::kFloat);
  Tensor alone(DType::kFloat, Shape{kRows, kWidth}), together(DType::kFloat, Shape{kRows, kWidth});
  scatter_rows(Team::alone(), loops, from, targets, nullptr, nullptr, kWidth, alone);
  Team team(4);
  scatter_rows(team, loops, from, targets, nullptr, nullptr, kWidth, together);
  EXPECT_TRUE(bitwise_equal(alone, together));
  double in = 0, out = 0;
  for (std::int64_t i = 0; i < kCount; ++i) {
    if (targets.data<std::int32_t>()[i] < 0) continue;
    for (std::int64_t c = 0; c < kWidth; ++c) in += from.data<float>()[i * kWidth + c];
  }
  for (const float value : alone.flat<float>()) out += value;
  EXPECT_NEAR(in, out, 0.5);
}

}  // namespace tutti::cpu::row_loops_test
