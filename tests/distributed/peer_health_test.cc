#include "tutti/distributed/peer_health.h"

#include <gtest/gtest.h>

namespace tutti::peer_health_test {

using namespace std::chrono_literals;
using Kind = PeerEvent::Kind;

const std::string kPs = "/job:ps/replica:0/task:0";

class PeerHealthTest : public ::testing::Test {
 protected:
  // Lets time pass in small steps and gives what happened.
  PeerHealth::Events pass(Duration time) {
    PeerHealth::Events all;
    const TimePoint end = now_ + time;
    while (now_ < end) {
      now_ += 1ms;
      for (auto& event : health_.tick(now_)) all.push_back(std::move(event));
    }
    return all;
  }
  static std::vector<PeerEvent> of_kind(const PeerHealth::Events& events, Kind kind) {
    std::vector<PeerEvent> some;
    for (const auto& event : events) {
      if (event.kind == kind) some.push_back(event);
    }
    return some;
  }
  void make_alive(std::uint64_t incarnation = 7) {
    (void)health_.watch(kPs, now_);
    (void)health_.heard(kPs, incarnation, now_);
    ASSERT_EQ(health_.state(kPs), PeerState::kAlive);
  }

  TimePoint now_ = TimePoint() + 1h;
  PeerHealth health_{{.suspect = 500ms, .lease = 1s}};
};

TEST_F(PeerHealthTest, NobodyIsAskedWhomNobodyNeeds) {
  EXPECT_EQ(health_.state(kPs), PeerState::kUnknown);
  EXPECT_EQ(health_.incarnation(kPs), 0u);
  EXPECT_TRUE(pass(1min).empty());
  EXPECT_FALSE(health_.next_tick());
}

TEST_F(PeerHealthTest, OneThatSleptDoesNotBlameOthers) {
  make_alive();
  (void)pass(100ms);
  now_ += 10s;  // stopped, and continued
  const auto events = health_.tick(now_);
  EXPECT_TRUE(of_kind(events, Kind::kLost).empty());
  EXPECT_EQ(of_kind(events, Kind::kAsk).size(), 1u);
  EXPECT_TRUE(health_.heard(kPs, 7, now_ + 1ms).empty());
  EXPECT_TRUE(of_kind(pass(900ms), Kind::kLost).empty());
  EXPECT_EQ(of_kind(pass(200ms), Kind::kLost).size(), 1u) << "real silence counts again";
}

TEST_F(PeerHealthTest, ATimeThatItSleptIsForgivenOnce) {
  const std::string silent = "/job:ps/replica:0/task:1";
  make_alive();
  (void)health_.watch(silent, now_);
  (void)health_.heard(silent, 9, now_);
  (void)pass(100ms);
  now_ += 600ms;  // stopped, and continued: 450 ms too late for the next heartbeat
  for (int i = 0; i < 5; ++i) (void)health_.heard(kPs, 7, now_);  // each input sees the late tick
  (void)health_.tick(now_);
  EXPECT_TRUE(of_kind(pass(700ms), Kind::kLost).empty());
  const auto lost = of_kind(pass(100ms), Kind::kLost);
  ASSERT_EQ(lost.size(), 1u) << "1 s of its own silence, and the 450 ms";
  EXPECT_EQ(lost[0].task, silent);
}

TEST_F(PeerHealthTest, AWatchedPeerIsAskedAtOnceAndOnlyOnce) {
  const auto events = health_.watch(kPs, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAsk);
  EXPECT_EQ(health_.state(kPs), PeerState::kConnecting);
  EXPECT_TRUE(health_.watch(kPs, now_).empty());
}

TEST_F(PeerHealthTest, AnsweredCallsAreSignsOfLife) {
  make_alive();
  PeerHealth::Events events;
  for (int i = 0; i < 20; ++i) {
    for (auto& event : pass(200ms)) events.push_back(std::move(event));
    health_.answered(kPs, 7, now_);
  }
  EXPECT_TRUE(of_kind(events, Kind::kLost).empty());
  EXPECT_GT(of_kind(events, Kind::kAsk).size(), 10u) << "it still hears of us";
  (void)pass(900ms);
  health_.answered(kPs, 8, now_);  // of whom nobody knows
  EXPECT_EQ(of_kind(pass(200ms), Kind::kLost).size(), 1u);
  health_.answered(kPs, 7, now_);
  EXPECT_EQ(health_.state(kPs), PeerState::kLost) << "only what says who it is brings it back";
}

TEST_F(PeerHealthTest, AnswersAreHeartbeats) {
  (void)health_.watch(kPs, now_);
  const auto first = health_.heard(kPs, 7, now_);
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].kind, Kind::kAlive);
  EXPECT_EQ(first[0].incarnation, 7u);
  int asked = 0;
  for (int i = 0; i < 10'000; ++i) {
    for (const auto& event : pass(1ms)) {
      ASSERT_EQ(event.kind, Kind::kAsk);
      ++asked;
      EXPECT_TRUE(health_.heard(kPs, 7, now_).empty());
    }
  }
  EXPECT_EQ(asked, 40);  // 10 s
  EXPECT_EQ(health_.state(kPs), PeerState::kAlive);
}

TEST_F(PeerHealthTest, SilenceIsSuspectedThenLostOnce) {
  make_alive();
  EXPECT_TRUE(of_kind(pass(499ms), Kind::kLost).empty());
  EXPECT_EQ(health_.state(kPs), PeerState::kAlive);
  (void)pass(1ms);
  EXPECT_EQ(health_.state(kPs), PeerState::kSuspected);
  EXPECT_TRUE(of_kind(pass(499ms), Kind::kLost).empty());
  const auto lost = of_kind(pass(1ms), Kind::kLost);
  ASSERT_EQ(lost.size(), 1u);
  EXPECT_EQ(lost[0].task, kPs);
  EXPECT_EQ(lost[0].cause.code(), Code::kUnavailable);
  EXPECT_NE(lost[0].cause.message().find(kPs), std::string::npos);
  EXPECT_NE(lost[0].cause.message().find("1000 ms"), std::string::npos);
  EXPECT_EQ(health_.state(kPs), PeerState::kLost);
  const auto later = pass(1min);
  EXPECT_TRUE(of_kind(later, Kind::kLost).empty());
  EXPECT_FALSE(of_kind(later, Kind::kAsk).empty());
}

TEST_F(PeerHealthTest, ASuspectThatAnswersIsAlive) {
  make_alive();
  (void)pass(700ms);
  EXPECT_EQ(of_kind(health_.heard(kPs, 7, now_), Kind::kRecovered).size(), 1u);
  EXPECT_EQ(health_.state(kPs), PeerState::kAlive);
  EXPECT_TRUE(of_kind(pass(900ms), Kind::kLost).empty());
}

TEST_F(PeerHealthTest, ALostPeerComesBackAsItself) {
  make_alive();
  (void)pass(2s);
  const auto events = health_.heard(kPs, 7, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAlive);
}

TEST_F(PeerHealthTest, AnotherIncarnationIsARestart) {
  make_alive(7);
  const auto events = health_.heard(kPs, 8, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kRestarted);
  EXPECT_EQ(events[0].incarnation, 8u);
  EXPECT_EQ(events[0].cause.code(), Code::kAborted);
  EXPECT_NE(events[0].cause.message().find(kPs), std::string::npos);
  EXPECT_EQ(health_.incarnation(kPs), 8u);
}

TEST_F(PeerHealthTest, ALostPeerMayComeBackRestarted) {
  make_alive(7);
  (void)pass(2s);
  const auto events = health_.heard(kPs, 8, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kRestarted);
}

TEST_F(PeerHealthTest, LateMessagesOfADeadIncarnationAreNotBelieved) {
  make_alive(7);
  (void)health_.heard(kPs, 8, now_);
  EXPECT_TRUE(health_.heard(kPs, 7, now_).empty());
  EXPECT_EQ(health_.incarnation(kPs), 8u);
  // Nor do they keep it alive.
  for (int i = 0; i < 20; ++i) {
    (void)pass(100ms);
    (void)health_.heard(kPs, 7, now_);
  }
  EXPECT_EQ(health_.state(kPs), PeerState::kLost);
  EXPECT_TRUE(health_.heard(kPs, 0, now_).empty());
  EXPECT_EQ(health_.state(kPs), PeerState::kLost);
}

// The one of whom nothing was known when its successor answered.
TEST_F(PeerHealthTest, ALateCallOfAnUnknownIncarnationOnlyAsks) {
  make_alive(8);
  (void)pass(100ms);
  const auto events = health_.called(kPs, 7, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAsk);
  EXPECT_EQ(health_.incarnation(kPs), 8u);
  EXPECT_TRUE(health_.heard(kPs, 8, now_).empty()) << "it is not dead";
  EXPECT_EQ(health_.state(kPs), PeerState::kAlive);
  // Nor do such calls keep it alive.
  for (int i = 0; i < 20; ++i) {
    (void)pass(100ms);
    (void)health_.called(kPs, 7, now_);
  }
  EXPECT_EQ(health_.state(kPs), PeerState::kLost);
}

TEST_F(PeerHealthTest, ACallOfTheKnownIncarnationIsASignOfLife) {
  make_alive(7);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(of_kind(pass(100ms), Kind::kLost).empty());
    EXPECT_TRUE(health_.called(kPs, 7, now_).empty());
  }
  (void)health_.heard(kPs, 8, now_);
  EXPECT_TRUE(health_.called(kPs, 7, now_).empty()) << "known to be dead: there is nothing to ask";
}

TEST_F(PeerHealthTest, OneThatIsAskedIsNotBelievedForItsCalls) {
  (void)health_.watch(kPs, now_);
  const auto events = health_.called(kPs, 7, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAsk);
  EXPECT_EQ(health_.state(kPs), PeerState::kConnecting);
  const auto answer = health_.heard(kPs, 8, now_);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].kind, Kind::kAlive);
}

TEST_F(PeerHealthTest, OneThatOnlyCalledMayAnswerAsAnother) {
  (void)health_.called(kPs, 7, now_);
  EXPECT_EQ(health_.incarnation(kPs), 0u) << "it did not answer";
  const auto asked = health_.called(kPs, 8, now_);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].kind, Kind::kAsk) << "though nobody needs it";
  const auto answer = health_.heard(kPs, 8, now_);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].kind, Kind::kRestarted) << "what came from the other is gone";
  EXPECT_EQ(health_.incarnation(kPs), 8u);
}

TEST_F(PeerHealthTest, OneThatCalledAnswersForTheFirstTime) {
  (void)health_.called(kPs, 7, now_);
  (void)health_.watch(kPs, now_);
  const auto answer = health_.heard(kPs, 7, now_);
  ASSERT_EQ(answer.size(), 1u);
  EXPECT_EQ(answer[0].kind, Kind::kAlive);
  EXPECT_EQ(health_.incarnation(kPs), 7u);
  EXPECT_TRUE(health_.heard(kPs, 7, now_).empty());
}

TEST_F(PeerHealthTest, AClosedConnectionAsksAtOnce) {
  make_alive();
  (void)pass(100ms);
  const auto events = health_.connection_closed(kPs, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAsk);
  EXPECT_EQ(health_.state(kPs), PeerState::kSuspected);
}

TEST_F(PeerHealthTest, WhenNobodyListensAnyMoreItIsLostAtOnce) {
  make_alive();
  const auto events = health_.connection_failed(kPs, ConnectStage::kRefused, unavailable("refused"), now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kLost);
  EXPECT_NE(events[0].cause.message().find("refused"), std::string::npos);
}

// A stopped process accepts connections and answers nothing; a host that is cut off does not even do that.
TEST_F(PeerHealthTest, FailuresThatSayNothingOfTheProcessWaitForTheLease) {
  for (const ConnectStage stage : {ConnectStage::kNameLookup, ConnectStage::kConnect, ConnectStage::kHandshake}) {
    make_alive();
    const auto events = health_.connection_failed(kPs, stage, unavailable("no way"), now_);
    EXPECT_TRUE(of_kind(events, Kind::kLost).empty());
    EXPECT_TRUE(of_kind(pass(999ms), Kind::kLost).empty());
    const auto lost = of_kind(pass(1ms), Kind::kLost);
    ASSERT_EQ(lost.size(), 1u);
    EXPECT_NE(lost[0].cause.message().find("no way"), std::string::npos);
  }
}

TEST_F(PeerHealthTest, ASuspectIsLoggedOnceAndSoIsItsAnswer) {
  PeerHealth health{{.suspect = 1s, .lease = 30s}};
  (void)health.watch(kPs, now_);
  (void)health.heard(kPs, 7, now_);
  std::vector<PeerEvent> said;
  const auto pass_to = [&](Duration silence) {
    const TimePoint end = now_ + silence;
    while (now_ < end) {
      now_ += 1ms;
      for (auto& event : health.tick(now_)) {
        if (event.kind != Kind::kAsk) said.push_back(std::move(event));
      }
    }
  };
  pass_to(20s);
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].kind, Kind::kSuspected);
  EXPECT_EQ(said[0].cause.message(),
            kPs + " has not answered for 1000 ms: calls to it wait; it is given up after 30000 ms");
  EXPECT_EQ(health.state(kPs), PeerState::kSuspected);

  health.answered(kPs, 7, now_);  // a call; its next heartbeat says so
  const auto events = health.heard(kPs, 7, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kRecovered);
  EXPECT_EQ(events[0].silence, 20s);
  EXPECT_EQ(health.state(kPs), PeerState::kAlive);
  EXPECT_TRUE(health.heard(kPs, 7, now_ + 1ms).empty());

  said.clear();
  pass_to(30s + 1ms);
  ASSERT_EQ(said.size(), 2u) << "the next silence is reported again, and ends";
  EXPECT_EQ(said[0].kind, Kind::kSuspected);
  EXPECT_EQ(said[1].kind, Kind::kLost);
}

TEST_F(PeerHealthTest, AMissingPeerIsSaidOnceWithTheReason) {
  (void)health_.watch(kPs, now_);
  PeerHealth::Events all;
  for (int i = 0; i < 100; ++i) {
    for (auto& event : pass(100ms)) {
      if (event.kind == Kind::kAsk) {
        for (auto& more :
             health_.connection_failed(kPs, ConnectStage::kNameLookup, unavailable("no such host"), now_)) {
          all.push_back(more);
        }
      }
      all.push_back(event);
    }
  }
  const auto missing = of_kind(all, Kind::kMissing);
  ASSERT_EQ(missing.size(), 1u) << "after 3 s";
  EXPECT_FALSE(missing[0].is_reminder);
  EXPECT_EQ(missing[0].cause.code(), Code::kUnavailable);
  for (const char* part : {kPs.c_str(), "name lookup failed", "no such host"}) {
    EXPECT_NE(missing[0].cause.message().find(part), std::string::npos) << missing[0].cause.message();
  }
  EXPECT_TRUE(of_kind(all, Kind::kLost).empty());
  EXPECT_EQ(health_.state(kPs), PeerState::kConnecting);
  const auto reminders = of_kind(pass(30s), Kind::kMissing);
  EXPECT_EQ(reminders.size(), 3u) << "every 10 s";
  for (const auto& reminder : reminders) EXPECT_TRUE(reminder.is_reminder);
}

TEST_F(PeerHealthTest, AnotherReasonIsSaidOnceToo) {
  (void)health_.watch(kPs, now_);
  std::vector<std::string> said;
  const auto fail = [&](ConnectStage stage) {
    (void)pass(3s);
    for (const auto& event : health_.connection_failed(kPs, stage, unavailable("no"), now_)) {
      if (event.kind == Kind::kMissing) said.push_back(event.cause.message());
    }
  };
  for (int i = 0; i < 3; ++i) {
    fail(ConnectStage::kNameLookup);
    fail(ConnectStage::kConnect);
  }
  EXPECT_EQ(said, (std::vector<std::string>{kPs + ": name lookup failed: no", kPs + ": connection failed: no"}));
}

TEST_F(PeerHealthTest, ALostPeerIsSaidToBeMissingWhenItIsWaitedFor) {
  const auto refuse = [&] {
    return health_.connection_failed(kPs, ConnectStage::kRefused, unavailable("refused"), now_);
  };
  make_alive(7);
  (void)refuse();
  ASSERT_EQ(health_.state(kPs), PeerState::kLost);
  EXPECT_TRUE(of_kind(pass(1min), Kind::kMissing).empty()) << "nobody waits";
  const auto missing = of_kind(health_.await(kPs, now_), Kind::kMissing);
  ASSERT_EQ(missing.size(), 1u) << "lost long ago";
  EXPECT_EQ(missing[0].cause.message(), kPs + ": connection refused: refused");
  EXPECT_TRUE(of_kind(health_.await(kPs, now_), Kind::kMissing).empty());
  for (const auto& event : of_kind(pass(1min), Kind::kMissing)) EXPECT_TRUE(event.is_reminder);
  const auto other = health_.connection_failed(kPs, ConnectStage::kNameLookup, unavailable("no name"), now_);
  ASSERT_EQ(of_kind(other, Kind::kMissing).size(), 1u) << "another reason";

  (void)health_.heard(kPs, 8, now_);
  EXPECT_TRUE(health_.await(kPs, now_).empty()) << "it is there";
  (void)refuse();
  EXPECT_TRUE(of_kind(health_.await(kPs, now_), Kind::kMissing).empty()) << "lost just now";
  EXPECT_TRUE(of_kind(pass(2999ms), Kind::kMissing).empty());
  ASSERT_TRUE(health_.next_tick());
  EXPECT_EQ(*health_.next_tick(), now_ + 1ms);
  EXPECT_EQ(of_kind(pass(1ms), Kind::kMissing).size(), 1u) << "each loss is said";
}

TEST_F(PeerHealthTest, FailedConnectionsAreTriedLessAndLessOften) {
  (void)health_.watch(kPs, now_);
  std::vector<std::int64_t> gaps;
  TimePoint last = now_;
  (void)health_.connection_failed(kPs, ConnectStage::kRefused, unavailable("refused"), now_);
  while (gaps.size() < 8) {
    for (const auto& event : pass(1ms)) {
      if (event.kind != Kind::kAsk) continue;
      gaps.push_back((now_ - last) / 1ms);
      last = now_;
      (void)health_.connection_failed(kPs, ConnectStage::kRefused, unavailable("refused"), now_);
    }
  }
  EXPECT_EQ(gaps, (std::vector<std::int64_t>{20, 40, 80, 160, 320, 500, 500, 500}));
}

TEST_F(PeerHealthTest, OneThatOnlyCallsIsListenedToButNotAsked) {
  const auto events = health_.called(kPs, 7, now_);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, Kind::kAlive);
  const auto later = pass(5s);
  EXPECT_TRUE(of_kind(later, Kind::kAsk).empty());
  EXPECT_EQ(of_kind(later, Kind::kLost).size(), 1u);
  EXPECT_FALSE(health_.next_tick());
}

TEST_F(PeerHealthTest, TicksComeWhenTheyAreSaidToBeNeeded) {
  // The same history with a tick every millisecond and with ticks only when asked for.
  PeerHealth lazy{{.suspect = 500ms, .lease = 1s}};
  TimePoint now = now_;
  make_alive();
  (void)lazy.watch(kPs, now);
  (void)lazy.heard(kPs, 7, now);
  const auto eager_events = pass(5s);
  PeerHealth::Events lazy_events;
  while (lazy.next_tick() && *lazy.next_tick() <= now_) {
    for (auto& event : lazy.tick(*lazy.next_tick())) lazy_events.push_back(std::move(event));
  }
  ASSERT_EQ(eager_events.size(), lazy_events.size());
  for (std::size_t i = 0; i < eager_events.size(); ++i) EXPECT_EQ(eager_events[i].kind, lazy_events[i].kind) << i;
}

TEST(ConnectStageTest, IsReadFromTheStatus) {
  EXPECT_EQ(connect_stage(unavailable("DNS resolution failed for nowhere:1")), ConnectStage::kNameLookup);
  EXPECT_EQ(connect_stage(unavailable("failed to connect to all addresses")), ConnectStage::kConnect);
  EXPECT_EQ(connect_stage(unavailable("failed to connect to all addresses; last error: UNKNOWN: Connection refused")),
            ConnectStage::kRefused);
  EXPECT_EQ(connect_stage(unavailable("Ssl handshake failed: SSL_ERROR_SSL")), ConnectStage::kHandshake);
  EXPECT_EQ(connect_stage(Status(Code::kUnauthenticated, "wrong token")), ConnectStage::kHandshake);
}

}  // namespace tutti::peer_health_test
