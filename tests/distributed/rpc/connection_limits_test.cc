#include "tutti/distributed/rpc/internal/connection_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "tutti/core/strings.h"

namespace tutti::rpc_internal::connection_limits_test {

using Connection = ConnectionLimits::Connection;
using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

ServerLimits limits_of(int calls, std::size_t bytes) {
  ServerLimits limits;
  limits.calls_per_connection = calls;
  limits.connection_bytes = bytes;
  return limits;
}

TEST(ConnectionLimits, CountsTheCallsOfEachPeer) {
  ConnectionLimits limits(limits_of(2, 100));
  Connection* first = *limits.enter("a", kNow);
  Connection* second = *limits.enter("a", kNow);
  EXPECT_EQ(first, second);
  const auto third = limits.enter("a", kNow);
  EXPECT_EQ(third.status().code(), Code::kResourceExhausted);
  EXPECT_EQ(third.status().message(), "connection a: 2 calls are open, which is the most at a time (--max-calls)");
  EXPECT_TRUE(limits.enter("b", kNow).ok());
  limits.leave(*first, 0, 0);
  EXPECT_TRUE(limits.enter("a", kNow).ok());
}

TEST(ConnectionLimits, FewMessagesAreReadAtATimeInOrder) {
  ConnectionLimits limits(limits_of(1000, 100));
  std::vector<int> begun;
  Connection* connection = nullptr;
  constexpr int kCalls = 3 * ConnectionLimits::kReads;
  for (int i = 0; i < kCalls; ++i) {
    connection = *limits.enter("a", kNow);
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
  Connection* connection = *limits.enter("a", kNow);
  ASSERT_TRUE(limits.enter("a", kNow).ok());
  limits.read_when_allowed(*connection, [] {});
  EXPECT_TRUE(limits.read_ended(*connection, 100).ok());
  limits.read_when_allowed(*connection, [] {});
  EXPECT_EQ(limits.read_ended(*connection, 1).message(),
            "connection a: 101 bytes of requests are unanswered, more than 100 (--max-connection-bytes)");
  limits.leave(*connection, 100, 0);
  limits.read_when_allowed(*connection, [] {});
  EXPECT_TRUE(limits.read_ended(*connection, 99).ok());
}

TEST(ConnectionLimits, AnswersThatAreNotTakenHoldRequestsBack) {
  ConnectionLimits limits(limits_of(10, 100));
  Connection* connection = *limits.enter("a", kNow);
  ASSERT_TRUE(limits.enter("a", kNow).ok());
  limits.answering(*connection, 101);
  bool begun = false;
  limits.read_when_allowed(*connection, [&] { begun = true; });
  EXPECT_FALSE(begun);
  Connection* other = *limits.enter("b", kNow);
  bool other_begun = false;
  limits.read_when_allowed(*other, [&] { other_begun = true; });
  EXPECT_TRUE(other_begun);
  limits.leave(*connection, 0, 101);
  EXPECT_TRUE(begun);
}

TEST(ConnectionLimits, AHostMayOweSoManyMessages) {
  ConnectionLimits limits(limits_of(2, 100));
  std::vector<Connection*> connections;
  for (int i = 0; i < 10; ++i) {
    for (int call = 0; call < 2; ++call) {
      connections.push_back(*limits.enter(str_cat("ipv4:10.0.0.1:", i), kNow));
      limits.read_when_allowed(*connections.back(), [] {});
    }
  }
  EXPECT_EQ(limits.enter("ipv4:10.0.0.1:99", kNow).status(),
            resource_exhausted("host ipv4:10.0.0.1: 20 calls wait for their message, which is the most at a time "
                               "(ten times --max-calls)"));
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.2:1", kNow).ok()) << "each host has its own";
  EXPECT_TRUE(limits.read_ended(*connections.front(), 1).ok());
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.1:99", kNow).ok());
}

TEST(ConnectionLimits, TellsWhetherMessagesComeOn) {
  ConnectionLimits limits(limits_of(10, 100));
  EXPECT_FALSE(limits.owed_message("a"));
  Connection* connection = *limits.enter("a", kNow);
  EXPECT_FALSE(limits.owed_message("a"));
  limits.read_when_allowed(*connection, [] {});
  limits.read_when_allowed(*connection, [] {});
  const auto begun = limits.owed_message("a");
  ASSERT_TRUE(begun);
  EXPECT_EQ(limits.owed_message("a"), begun);
  EXPECT_TRUE(limits.read_ended(*connection, 1).ok());
  const auto next = limits.owed_message("a");
  ASSERT_TRUE(next);
  EXPECT_NE(next, begun);
  EXPECT_TRUE(limits.read_ended(*connection, 1).ok());
  EXPECT_FALSE(limits.owed_message("a"));
}

TEST(CallRates, ASecondsCallsAtOnceAndThenAsTimeGivesBack) {
  CallRates rates(4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rates.admit("a", kNow)) << i;
  EXPECT_FALSE(rates.admit("a", kNow));
  EXPECT_TRUE(rates.admit("b", kNow)) << "each host has its own";
  EXPECT_FALSE(rates.admit("a", kNow + 249ms));
  EXPECT_TRUE(rates.admit("a", kNow + 250ms));
  EXPECT_FALSE(rates.admit("a", kNow + 250ms)) << "one was given back, and those refused cost none";
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(rates.admit("a", kNow + 1h)) << "not more than a second's are saved up";
  EXPECT_FALSE(rates.admit("a", kNow + 1h));
}

TEST(CallRates, AnyNumberWhereNoneIsSet) {
  CallRates rates(0);
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(rates.admit("a", kNow));
  EXPECT_EQ(rates.num_hosts(), 0u);
}

TEST(CallRates, SilentHostsAreForgotten) {
  CallRates rates(10);
  for (int i = 0; i < 100'000; ++i) ASSERT_TRUE(rates.admit(std::to_string(i), kNow + i * 1ms));
  EXPECT_LE(rates.num_hosts(), 1000u) << "100 of them could not make ten calls at once";
}

TEST(ConnectionLimits, CountsTheCallsOfEachHostInASecond) {
  ServerLimits few;
  few.calls_per_second = 2;
  ConnectionLimits limits(few);
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.1:5", kNow).ok());
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.1:6", kNow).ok());
  EXPECT_EQ(limits.enter("ipv4:10.0.0.1:7", kNow).status(),
            resource_exhausted("host ipv4:10.0.0.1: more than 2 calls a second (--max-calls-per-second)"));
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.2:5", kNow).ok());
  EXPECT_TRUE(limits.enter("ipv4:10.0.0.1:8", kNow + 500ms).ok());
}

}  // namespace tutti::rpc_internal::connection_limits_test
