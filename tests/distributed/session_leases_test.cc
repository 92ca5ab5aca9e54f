#include "tutti/distributed/session_leases.h"

#include <gtest/gtest.h>

namespace tutti::session_leases_test {

using namespace std::chrono_literals;
using Names = std::vector<std::string>;

class SessionLeasesTest : public ::testing::Test {
 protected:
  TimePoint now_ = TimePoint() + 1h;
  SessionLeases leases_{{.renew = 10s}};
};

TEST_F(SessionLeasesTest, AHeldCallKeepsTheSession) {
  leases_.held("a");
  EXPECT_FALSE(leases_.next_tick());
  EXPECT_TRUE(leases_.tick(now_ + 24h).empty());
}

TEST_F(SessionLeasesTest, AnAnsweredCallMustBeRenewed) {
  leases_.held("a");
  leases_.answered("a", now_);
  EXPECT_EQ(*leases_.next_tick(), now_ + 10s);
  EXPECT_TRUE(leases_.tick(now_ + 9s).empty());
  leases_.held("a");
  EXPECT_TRUE(leases_.tick(now_ + 11s).empty());
  leases_.answered("a", now_ + 11s);
  EXPECT_EQ(leases_.tick(now_ + 21s), Names{"a"});
  EXPECT_EQ(leases_.size(), 0u);
}

TEST_F(SessionLeasesTest, WhoPromisedALeaseMustCome) {
  leases_.created("a", now_);
  leases_.created("b", now_);
  leases_.held("b");
  EXPECT_TRUE(leases_.tick(now_ + 9s).empty());
  EXPECT_EQ(leases_.tick(now_ + 10s), Names{"a"});
  leases_.created("b", now_ + 10s);  // nothing new
  EXPECT_TRUE(leases_.tick(now_ + 24h).empty());
  EXPECT_EQ(leases_.size(), 1u);
}

TEST_F(SessionLeasesTest, ABrokenConnectionLeavesAShortGrace) {
  leases_.held("a");
  leases_.broken("a", now_);
  EXPECT_TRUE(leases_.tick(now_ + 999ms).empty());
  EXPECT_EQ(leases_.tick(now_ + 1s), Names{"a"});
  EXPECT_TRUE(leases_.tick(now_ + 2s).empty());
}

TEST_F(SessionLeasesTest, ASecondCallOutlivesTheFirst) {
  leases_.held("a");
  leases_.held("a");
  leases_.broken("a", now_);
  EXPECT_TRUE(leases_.tick(now_ + 1min).empty());
  leases_.broken("a", now_ + 1min);
  EXPECT_EQ(leases_.tick(now_ + 1min + 1s), Names{"a"});
}

TEST_F(SessionLeasesTest, AMasterThatSleptDoesNotBlameItsClients) {
  leases_.created("a", now_);
  leases_.created("b", now_ + 3s);
  EXPECT_TRUE(leases_.tick(now_ + 40s).empty()) << "stopped, and continued";
  EXPECT_EQ(*leases_.next_tick(), now_ + 41s);
  leases_.held("b");  // its renewal was waiting
  EXPECT_EQ(leases_.tick(now_ + 41s), Names{"a"}) << "real silence counts again";
  EXPECT_EQ(leases_.size(), 1u);
}

TEST_F(SessionLeasesTest, WhatEndedOtherwiseIsForgotten) {
  leases_.held("a");
  leases_.forget("a");
  leases_.broken("a", now_);
  EXPECT_TRUE(leases_.tick(now_ + 1min).empty());
  EXPECT_EQ(leases_.size(), 0u);
}

}  // namespace tutti::session_leases_test
