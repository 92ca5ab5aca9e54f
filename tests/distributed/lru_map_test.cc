#include "tutti/distributed/internal/lru_map.h"

#include <gtest/gtest.h>

namespace tutti::internal::lru_map_test {

TEST(LruMap, ForgetsWhatWasNotAskedForTheLongest) {
  LruMap<int> map(3);
  map.insert("a", 1);
  map.insert("b", 2);
  map.insert("c", 3);
  ASSERT_NE(map.find("a"), nullptr);
  map.insert("d", 4);
  EXPECT_EQ(map.find("b"), nullptr);
  EXPECT_EQ(*map.find("a"), 1);
  EXPECT_EQ(*map.find("c"), 3);
  EXPECT_EQ(*map.find("d"), 4);
  EXPECT_EQ(map.size(), 3u);
}

TEST(LruMap, AnOldValueStays) {
  LruMap<int> map(2);
  map.insert("a", 1);
  EXPECT_EQ(map.insert("a", 2), 1);
  EXPECT_EQ(map.size(), 1u);
  map.insert("b", 2);
  EXPECT_EQ(map.insert("a", 3), 1);  // and was asked for
  map.insert("c", 3);
  EXPECT_EQ(map.find("b"), nullptr);
}

TEST(LruMap, ManyKeys) {
  LruMap<std::string> map(10);
  for (int i = 0; i < 1000; ++i) map.insert(std::string(40, 'k') + std::to_string(i), std::to_string(i));
  EXPECT_EQ(map.size(), 10u);
  for (int i = 990; i < 1000; ++i) EXPECT_EQ(*map.find(std::string(40, 'k') + std::to_string(i)), std::to_string(i));
}

}  // namespace tutti::internal::lru_map_test
