#include "tutti/distributed/internal/request_ids.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "tutti/distributed/internal/id_source.h"

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

// The counter behind a number of RequestIds.
std::uint64_t counter_of(std::uint64_t id) {
  const auto unshift = [](std::uint64_t z, int bits) {
    std::uint64_t out = z;
    for (int done = bits; done < 64; done += bits) out = z ^ (out >> bits);
    return out;
  };
  const auto inverse = [](std::uint64_t odd) {
    std::uint64_t out = odd;
    for (int i = 0; i < 6; ++i) out *= 2 - odd * out;
    return out;
  };
  id = unshift(id, 31) * inverse(0x94D049BB133111EBu);
  id = unshift(id, 27) * inverse(0xBF58476D1CE4E5B9u);
  return unshift(id, 30);
}

TEST(IdSourceTest, NobodyComputesAHandleFromAnother) {
  RequestIds ids(1);
  const std::int64_t first = ids.next();
  RequestIds same(counter_of(static_cast<std::uint64_t>(first)));
  EXPECT_EQ(same.next(), ids.next()) << "numbers of requests can be computed";
  IdSource source(0);
  RequestIds guessed(counter_of(std::stoull(source.handle(), nullptr, 16)));
  std::set<std::string> handles;
  for (int i = 0; i < 100; ++i) {
    const std::string handle = source.handle();
    EXPECT_EQ(handle.size(), 16u);
    EXPECT_NE(static_cast<std::uint64_t>(guessed.next()), std::stoull(handle, nullptr, 16));
    EXPECT_TRUE(handles.insert(handle).second);
  }
  EXPECT_EQ(IdSource(1).handle(), IdSource(1).handle()) << "simulations are repeatable";
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
