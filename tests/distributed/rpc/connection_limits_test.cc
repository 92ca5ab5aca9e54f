#include "tutti/distributed/rpc/internal/connection_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace tutti::rpc_internal::connection_limits_test {

using Connection = ConnectionLimits::Connection;

ServerLimits limits_of(int calls, std::size_t bytes) {
  ServerLimits limits;
  limits.calls_per_connection = calls;
  limits.connection_bytes = bytes;
  return limits;
}

TEST(ConnectionLimits, CountsTheCallsOfEachPeer) {
  ConnectionLimits limits(limits_of(2, 100));
  Connection* first = *limits.enter("a");
  Connection* second = *limits.enter("a");
  EXPECT_EQ(first, second);
  const auto third = limits.enter("a");
  EXPECT_EQ(third.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(third.status().message(), "connection a: 2 calls are open, which is the most at a time");
  EXPECT_TRUE(limits.enter("b").ok());
  limits.leave(*first, 0, 0);
  EXPECT_TRUE(limits.enter("a").ok());
}

TEST(ConnectionLimits, FewMessagesAreReadAtATimeInOrder) {
  ConnectionLimits limits(limits_of(1000, 100));
  std::vector<int> begun;
  Connection* connection = nullptr;
  constexpr int kCalls = 3 * ConnectionLimits::kReads;
  for (int i = 0; i < kCalls; ++i) {
    connection = *limits.enter("a");
    limits.read_when_allowed(*connection, [&begun, i] { begun.push_back(i); });
  }
  for (int i = 0; i < kCalls; ++i) {
    EXPECT_EQ(static_cast<int>(begun.size()), std::min(kCalls, i + ConnectionLimits::kReads));
    EXPECT_TRUE(limits.read_ended(*connection, 1).ok());
  }
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(begun[i], i);
}

TEST(ConnectionLimits, RefusesRequestsBeyondItsBytes) {
  ConnectionLimits limits(limits_of(10, 100));
  Connection* connection = *limits.enter("a");
  ASSERT_TRUE(limits.enter("a").ok());
  limits.read_when_allowed(*connection, [] {});
  EXPECT_TRUE(limits.read_ended(*connection, 100).ok());
  limits.read_when_allowed(*connection, [] {});
  EXPECT_EQ(limits.read_ended(*connection, 1).message(),
            "connection a: 101 bytes of requests are unanswered, more than 100");
  limits.leave(*connection, 100, 0);
  limits.read_when_allowed(*connection, [] {});
  EXPECT_TRUE(limits.read_ended(*connection, 99).ok());
}

TEST(ConnectionLimits, AnswersThatAreNotTakenHoldRequestsBack) {
  ConnectionLimits limits(limits_of(10, 100));
  Connection* connection = *limits.enter("a");
  ASSERT_TRUE(limits.enter("a").ok());
  limits.answering(*connection, 101);
  bool begun = false;
  limits.read_when_allowed(*connection, [&] { begun = true; });
  EXPECT_FALSE(begun);
  Connection* other = *limits.enter("b");
  bool other_begun = false;
  limits.read_when_allowed(*other, [&] { other_begun = true; });
  EXPECT_TRUE(other_begun);
  limits.leave(*connection, 0, 101);
  EXPECT_TRUE(begun);
}

}  // namespace tutti::rpc_internal::connection_limits_test
