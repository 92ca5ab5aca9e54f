#include "tutti/kernels/cpu/broadcast.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu::broadcast_test {

// Every element of the result, with the positions in both operands, by plain coordinates.
std::vector<std::array<std::int64_t, 2>> positions(const Shape& out, const Shape& a, const Shape& b) {
  std::vector<std::array<std::int64_t, 2>> all;
  for (std::int64_t i = 0; i < out.num_elements(); ++i) {
    std::array<std::int64_t, 2> at{};
    std::array<std::int64_t, 2> scale{1, 1};
    std::int64_t rest = i;
    for (int d = out.rank() - 1; d >= 0; --d) {
      const std::int64_t index = rest % out.dim(d);
      rest /= out.dim(d);
      for (int o = 0; o < 2; ++o) {
        const Shape& s = o == 0 ? a : b;
        const int local = d - (out.rank() - s.rank());
        if (local < 0) continue;
        if (s.dim(local) != 1) at[o] += index * scale[o];
        scale[o] *= s.dim(local);
      }
    }
    all.push_back(at);
  }
  return all;
}

void check(const Shape& a, const Shape& b) {
  Result<Shape> out = broadcast_shapes(a, b);
  ASSERT_TRUE(out.ok());
  const auto want = positions(*out, a, b);
  const Broadcast<2> walk(*out, {&a, &b});
  ASSERT_EQ(walk.rows() * walk.row_size(), out->num_elements());
  std::int64_t visited = 0;
  // In two pieces, as two threads would.
  for (const auto& [begin, end] :
       {std::pair{std::int64_t{0}, walk.rows() / 3}, std::pair{walk.rows() / 3, walk.rows()}}) {
    walk.for_rows(begin, end, [&](std::int64_t to, const std::array<std::int64_t, 2>& from) {
      for (std::int64_t i = 0; i < walk.row_size(); ++i, ++visited) {
        ASSERT_EQ(to + i, visited);
        for (int o = 0; o < 2; ++o) EXPECT_EQ(from[o] + i * walk.row_step()[o], want[visited][o]) << visited;
      }
    });
  }
  EXPECT_EQ(visited, out->num_elements());
  // Cut anywhere, also inside of rows.
  for (std::int64_t cut = 0; cut <= out->num_elements(); ++cut) {
    visited = 0;
    for (const auto& [begin, end] : {std::pair{std::int64_t{0}, cut}, std::pair{cut, out->num_elements()}}) {
      walk.for_elements(begin, end, [&](std::int64_t to, const std::array<std::int64_t, 2>& from, std::int64_t count) {
        ASSERT_LE(count, walk.row_size());
        for (std::int64_t i = 0; i < count; ++i, ++visited) {
          ASSERT_EQ(to + i, visited);
          for (int o = 0; o < 2; ++o) {
            EXPECT_EQ(from[o] + i * walk.row_step()[o], want[visited][o]) << visited;
          }
        }
      });
      ASSERT_EQ(visited, end);
    }
  }
}

TEST(Broadcast, VisitsEveryElementOnceInOrder) {
  check({}, {});
  check({3}, {});
  check({4, 5}, {5});
  check({4, 5}, {4, 1});
  check({4, 1}, {1, 5});
  check({2, 3, 4}, {2, 3, 4});
  check({2, 1, 4, 1}, {3, 1, 5});
  check({1, 1, 1}, {2, 1, 3});
  check({0, 3}, {1, 3});
  check({2, 1, 3, 1, 2, 1, 2, 1, 2, 1}, {2, 1, 3, 1, 2, 1, 2, 1, 2});
}

TEST(Broadcast, JoinsDimensions) {
  const Shape a{2, 3, 4}, b{4};
  EXPECT_EQ(Broadcast<2>(a, {&a, &a}).rows(), 1);
  EXPECT_EQ(Broadcast<2>(a, {&a, &b}).rows(), 6);
}

TEST(ParallelFor, CoversTheRangeOnce) {
  for (std::int64_t n : {0, 1, 100, 5000, 100000}) {
    for (int threads : {1, 2, 3}) {
      std::vector<std::atomic<int>> hits(static_cast<std::size_t>(n));
      Team team(threads);
      parallel_for(team, n, 1000, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
      });
      for (const auto& hit : hits) ASSERT_EQ(hit.load(), 1);
    }
  }
}

}  // namespace tutti::cpu::broadcast_test
