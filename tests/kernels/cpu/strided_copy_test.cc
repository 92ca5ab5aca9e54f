#include "tutti/kernels/cpu/strided_copy.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

#include "tutti/core/tensor.h"

namespace tutti::cpu::strided_copy_test {

struct Loop {
  std::int64_t size, to, from;
};

// The obvious way.
template <typename T>
void copy_slowly(const std::vector<Loop>& loops, std::size_t depth, T* to, const T* from) {
  if (depth == loops.size()) {
    *to = *from;
    return;
  }
  for (std::int64_t i = 0; i < loops[depth].size; ++i) {
    copy_slowly(loops, depth + 1, to + i * loops[depth].to, from + i * loops[depth].from);
  }
}

template <typename T>
void expect_same(const std::vector<Loop>& loops, std::vector<T> from, std::int64_t from_offset, std::int64_t to_size,
                 int threads = 1) {
  std::vector<T> expected(to_size), actual(to_size);
  copy_slowly(loops, 0, expected.data(), from.data() + from_offset);
  StridedCopy copy;
  for (const Loop& loop : loops) copy.add_loop(loop.size, loop.to, loop.from);
  Team team(threads);
  copy.run(dtype_of<T>(), actual.data(), from.data() + from_offset, team);
  EXPECT_EQ(actual, expected);
}

std::vector<float> numbers(std::int64_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

TEST(StridedCopy, OneElementAndNone) {
  expect_same<float>({}, {7}, 0, 1);
  expect_same<float>({{1, 5, 9}}, {7}, 0, 1);
  expect_same<float>({{2, 1, 1}, {0, 1, 1}}, {7}, 0, 4);
}

TEST(StridedCopy, RowsTransposesRepeatsAndReversals) {
  expect_same<float>({{2, 3, 3}, {3, 1, 1}}, numbers(6), 0, 6);            // whole
  expect_same<float>({{3, 2, 1}, {2, 1, 3}}, numbers(6), 0, 6);            // transposed
  expect_same<float>({{40, 50, 1}, {50, 1, 40}}, numbers(2000), 0, 2000);  // transposed over several tiles
  expect_same<float>({{4, 6, 1}, {2, 3, 4}, {3, 1, 8}}, numbers(24), 0, 24);
  expect_same<float>({{3, 2, 0}, {2, 1, 1}}, numbers(2), 0, 6);  // repeated rows
  expect_same<float>({{2, 3, 1}, {3, 1, 0}}, numbers(2), 0, 6);  // repeated elements
  expect_same<float>({{5, 1, -1}}, numbers(5), 4, 5);            // backwards
  expect_same<float>({{2, 4, 2}, {2, 1, 1}}, numbers(4), 0, 8);  // into a wider place
}

TEST(StridedCopy, EveryElementSize) {
  const std::vector<Loop> transposed{{3, 2, 1}, {2, 1, 3}};
  expect_same<std::int8_t>(transposed, {1, 2, 3, 4, 5, 6}, 0, 6);
  expect_same<std::int16_t>(transposed, {1, 2, 3, 4, 5, 6}, 0, 6);
  expect_same<double>(transposed, {1, 2, 3, 4, 5, 6}, 0, 6);
  expect_same<std::complex<double>>(transposed, {1, 2, 3, 4, 5, 6}, 0, 6);
  expect_same<std::string>(transposed, {"one", "two", "three", "four", "five", std::string(100, 'x')}, 0, 6);
}

TEST(StridedCopy, RandomPermutationsOfRandomShapes) {
  std::mt19937 random(1);
  for (int trial = 0; trial < 200; ++trial) {
    const int rank = 1 + static_cast<int>(random() % 5);
    std::vector<std::int64_t> dims(rank), from(rank), to(rank);
    std::vector<int> perm(rank);
    std::int64_t count = 1;
    for (int d = rank - 1; d >= 0; --d) {
      dims[d] = 1 + static_cast<std::int64_t>(random() % 5);
      from[d] = count;
      count *= dims[d];
      perm[d] = d;
    }
    std::shuffle(perm.begin(), perm.end(), random);
    std::int64_t stride = 1;
    for (int i = rank - 1; i >= 0; --i) {
      to[i] = stride;
      stride *= dims[perm[i]];
    }
    std::vector<Loop> loops;
    for (int i = 0; i < rank; ++i) loops.push_back({dims[perm[i]], to[i], from[perm[i]]});
    expect_same<float>(loops, numbers(count), 0, count);
  }
}

TEST(StridedCopy, LargeCopiesOnSeveralThreads) {
  const std::int64_t n = 700;
  expect_same<double>({{n, n, 1}, {n, 1, n}}, std::vector<double>(n * n, 3.0), 0, n * n, /*threads=*/3);
  std::vector<double> from(n * n);
  std::iota(from.begin(), from.end(), 0.0);
  expect_same<double>({{n, n, 1}, {n, 1, n}}, from, 0, n * n, /*threads=*/3);
}

}  // namespace tutti::cpu::strided_copy_test
