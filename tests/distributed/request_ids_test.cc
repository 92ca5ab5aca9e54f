#include "tutti/distributed/internal/request_ids.h"

#include <gtest/gtest.h>

#include <set>

namespace tutti::internal::request_ids_test {

TEST(RequestIdsTest, AreNeverTheSameAndNeverZero) {
  RequestIds ids(1);
  RequestIds others(2);
  std::set<std::int64_t> seen{0};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(seen.insert(ids.next()).second);
    EXPECT_TRUE(seen.insert(others.next()).second);
  }
}

TEST(RecentRequestsTest, RemembersTheLatest) {
  RecentRequests recent;
  EXPECT_TRUE(recent.is_new(0));
  EXPECT_TRUE(recent.is_new(0));
  const auto count = static_cast<std::int64_t>(RecentRequests::kRemembered);
  for (std::int64_t id = 1; id <= count; ++id) EXPECT_TRUE(recent.is_new(id));
  for (std::int64_t id = 1; id <= count; ++id) EXPECT_FALSE(recent.is_new(id));
  EXPECT_TRUE(recent.is_new(count + 1));
  EXPECT_TRUE(recent.is_new(1)) << "the oldest is forgotten";
  EXPECT_FALSE(recent.is_new(count));
}

}  // namespace tutti::internal::request_ids_test
