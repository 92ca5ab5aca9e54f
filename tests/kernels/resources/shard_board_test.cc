#include "tutti/kernels/resources/shard_board.h"

#include <gtest/gtest.h>

#include <list>
#include <optional>
#include <string>

namespace tutti::shard_board_test {

using namespace std::chrono_literals;

struct GivenShard {
  std::optional<Status> status;
  ShardClaim claim;
};

class ShardBoardTest : public ::testing::Test {
 protected:
  std::shared_ptr<ShardBoard> board(std::int64_t shards) {
    return ShardBoard::create({.name = "b", .num_shards = shards, .lease = 10s, .clock = &clock_}).value_or_throw();
  }
  GivenShard& ask(ShardBoard& board, const std::string& worker, ShardClaim finished = {}, std::int64_t threads = 1) {
    GivenShard& answer = answers_.emplace_back();
    board.next({worker, threads}, finished, cancellation_, [&answer](Status status, ShardClaim claim) {
      EXPECT_FALSE(answer.status) << "done ran twice";
      answer.status = std::move(status);
      answer.claim = claim;
    });
    return answer;
  }
  // The shard that the worker gets at once; -1 when it waits, -2 for an error.
  std::int64_t shard(ShardBoard& board, const std::string& worker, ShardClaim finished = {}) {
    const GivenShard& answer = ask(board, worker, finished);
    if (!answer.status) return -1;
    return answer.status->ok() ? answer.claim.shard : -2;
  }

  ManualClock clock_;
  Cancellation cancellation_;
  std::list<GivenShard> answers_;
};

TEST_F(ShardBoardTest, WhoHasAnotherNumberOfThreadsIsRefused) {
  auto b = board(2);
  b->open(0);
  EXPECT_TRUE(ask(*b, "w0", {}, 4).status->ok());
  const GivenShard& other = ask(*b, "w1", {}, 3);
  ASSERT_TRUE(other.status);
  EXPECT_EQ(other.status->code(), Code::kFailedPrecondition);
  for (const char* said : {"w1 has 3 threads", "w0 has 4"}) {
    EXPECT_NE(other.status->message().find(said), std::string::npos) << other.status->message();
  }
  EXPECT_EQ(b->num_done(), 0);
  // What was computed with other threads does not count as finished.
  ask(*b, "w1", {0, 1}, 3);
  EXPECT_EQ(b->num_done(), 0);
  EXPECT_TRUE(ask(*b, "w0", {0, 0}, 4).status->ok());
  // Who waits counts as well, but may be a process that died.
  EXPECT_FALSE(ask(*b, "w0", {0, 1}, 4).status);
  const GivenShard& third = ask(*b, "w1", {}, 5);
  EXPECT_EQ(third.status->code(), Code::kAborted);
  EXPECT_NE(third.status->message().find("w0 has 4"), std::string::npos) << third.status->message();
  // Nobody is left, but w0 had a shard of this step, and may have sent some of its gradients.
  b->open(1);
  b->give_back("w0");
  const GivenShard& late = ask(*b, "w1", {}, 3);
  EXPECT_EQ(late.status->code(), Code::kAborted);  // to be tried again when the step was opened anew
  for (const char* said : {"w1 has 3 threads", "step 1 was begun with 4"}) {
    EXPECT_NE(late.status->message().find(said), std::string::npos) << late.status->message();
  }
  EXPECT_EQ(ask(*b, "w0", {}, 3).status->code(), Code::kAborted) << "nor w0 itself, as another process";
  ask(*b, "w0", {1, 0}, 3);
  EXPECT_EQ(b->num_done(), 0);
  // A job that is started again, with nobody of the old one left, has a number of its own.
  b->open(1);
  EXPECT_TRUE(ask(*b, "w1", {}, 3).status->ok());
}

// Between two steps, or two tries of one, nobody holds a shard; who is there counts all the same.
TEST_F(ShardBoardTest, ThreadsAreThoseOfWhoAttends) {
  for (const bool attends_first : {false, true}) {
    auto b = board(2);
    b->open(0);
    Cancellation step;
    const auto attend = [&] { b->attend("w0", step, [](const Status&) {}); };
    if (attends_first) attend();
    EXPECT_TRUE(ask(*b, "w0", {}, 4).status->ok());
    if (!attends_first) attend();
    b->attend("w1", cancellation_, [](const Status&) {});
    b->open(1);  // nobody waits
    const GivenShard& other = ask(*b, "w1", {}, 3);
    ASSERT_TRUE(other.status);
    EXPECT_EQ(other.status->code(), Code::kAborted) << "w0 may be a process that died: to be tried again";
    EXPECT_NE(other.status->message().find("w0 has 4"), std::string::npos) << other.status->message();
    // Who was refused keeps nobody out.
    EXPECT_TRUE(ask(*b, "w0", {}, 4).status->ok());
    b->open(2);
    step.cancel(cancelled("w0 goes"));
    EXPECT_TRUE(ask(*b, "w1", {}, 3).status->ok());
  }
}

// A process that died is present for a while. Its successor, which has another number, is not taken for it.
TEST_F(ShardBoardTest, WhoIsRefusedNoLongerCountsAsOneThatComputes) {
  auto b = board(2);
  b->open(0);
  b->attend("w0", cancellation_, [](const Status&) {});
  b->attend("w1", cancellation_, [](const Status&) {});
  EXPECT_TRUE(ask(*b, "w0", {}, 4).status->ok());
  EXPECT_TRUE(ask(*b, "w1", {}, 4).status->ok());
  b->open(1);
  EXPECT_EQ(ask(*b, "w1", {}, 3).status->code(), Code::kAborted);
  EXPECT_TRUE(ask(*b, "w0", {}, 3).status->ok()) << "w1 has been heard of with 3 since";
}

TEST_F(ShardBoardTest, WhoIsRefusedGivesBackWhatItsPredecessorHeld) {
  auto b = board(2);
  b->open(0);
  EXPECT_TRUE(ask(*b, "w0", {}, 4).status->ok());
  EXPECT_TRUE(ask(*b, "w1", {}, 4).status->ok());
  const GivenShard& waiting = ask(*b, "w2", {}, 4);
  EXPECT_FALSE(waiting.status);
  EXPECT_EQ(ask(*b, "w1", {}, 3).status->code(), Code::kFailedPrecondition);
  ASSERT_TRUE(waiting.status) << "nobody computes the shard that w1 had";
  EXPECT_EQ(waiting.claim.shard, 1);
}

TEST_F(ShardBoardTest, HandsOutEveryShardOfAStep) {
  auto b = board(3);
  GivenShard& early = ask(*b, "w0");
  EXPECT_FALSE(early.status) << "no step is open";
  EXPECT_EQ(b->step(), -1);
  b->open(4);
  ASSERT_TRUE(early.status);
  EXPECT_EQ(early.claim.step, 4);
  EXPECT_EQ(early.claim.shard, 0);
  EXPECT_EQ(shard(*b, "w1"), 1);
  EXPECT_EQ(shard(*b, "w0", {4, 0}), 2);
  EXPECT_EQ(b->num_done(), 1);
  GivenShard& w1 = ask(*b, "w1", {4, 1});
  GivenShard& w0 = ask(*b, "w0", {4, 2});
  EXPECT_EQ(b->num_done(), 3);
  EXPECT_FALSE(w1.status);
  EXPECT_FALSE(w0.status);
  b->open(5);
  EXPECT_EQ(w1.claim.step, 5);
  EXPECT_EQ(w1.claim.shard, 0) << "in the order of arrival";
  EXPECT_EQ(w0.claim.shard, 1);
}

TEST_F(ShardBoardTest, AWorkerGetsAgainWhatItHolds) {
  auto b = board(2);
  b->open(0);
  EXPECT_EQ(shard(*b, "w0"), 0);
  EXPECT_EQ(shard(*b, "w1"), 1);
  GivenShard& third = ask(*b, "w2");
  EXPECT_FALSE(third.status);
  EXPECT_EQ(shard(*b, "w1"), 1) << "it failed, or is another process now; it does not queue behind w2";
  EXPECT_FALSE(third.status);
  EXPECT_EQ(shard(*b, "w0", {7, 1}), 0) << "what is said of another step is not looked at";
}

TEST_F(ShardBoardTest, AShardThatIsOutForLongIsHandedOutOnceMore) {
  auto b = board(2);
  b->open(0);
  EXPECT_EQ(shard(*b, "dead"), 0);
  clock_.advance(4s);
  EXPECT_EQ(shard(*b, "alive"), 1);
  GivenShard& waiting = ask(*b, "alive", {0, 1});
  clock_.advance(5s);
  EXPECT_FALSE(waiting.status);
  clock_.advance(1s);
  ASSERT_TRUE(waiting.status) << "the lease ended while somebody waited";
  EXPECT_EQ(waiting.claim.shard, 0);
  // The one who was slow comes back, and it is the same to everyone.
  GivenShard& slow = ask(*b, "dead", {0, 0});
  EXPECT_EQ(b->num_done(), 2);
  EXPECT_FALSE(slow.status);
}

TEST_F(ShardBoardTest, AnEndedLeaseIsFoundWithoutATimerToo) {
  auto b = board(1);
  b->open(0);
  EXPECT_EQ(shard(*b, "dead"), 0);
  clock_.advance(11s);
  EXPECT_EQ(shard(*b, "alive"), 0);
  GivenShard& other = ask(*b, "other");
  clock_.advance(9s);
  EXPECT_FALSE(other.status);
  clock_.advance(2s);
  EXPECT_TRUE(other.status);
}

TEST_F(ShardBoardTest, PresenceEndsWithItsStep) {
  auto b = board(1);
  b->open(0);
  Cancellation step;
  std::optional<Status> left;
  b->attend("w0", step, [&left](Status status) { left = std::move(status); });
  EXPECT_EQ(shard(*b, "w0"), 0);
  GivenShard& waiting = ask(*b, "w1");
  EXPECT_FALSE(waiting.status);
  EXPECT_FALSE(left);
  step.cancel(cancelled("the session was closed"));
  ASSERT_TRUE(left);
  EXPECT_EQ(left->code(), Code::kCancelled);
  ASSERT_TRUE(waiting.status) << "at once, whatever the lease";
  EXPECT_EQ(waiting.claim.shard, 0);
  GivenShard& next = ask(*b, "w2");
  b->give_back("w1");
  ASSERT_TRUE(next.status);
  EXPECT_EQ(next.claim.shard, 0);
}

TEST_F(ShardBoardTest, Closing) {
  auto b = board(1);
  std::optional<Status> left;
  b->attend("w0", cancellation_, [&left](Status status) { left = std::move(status); });
  GivenShard& waiting = ask(*b, "w0");
  b->close();
  EXPECT_EQ(waiting.status->code(), Code::kOutOfRange);
  ASSERT_TRUE(left);
  EXPECT_TRUE(left->ok());
  EXPECT_EQ(ask(*b, "w0").status->code(), Code::kOutOfRange);
  b->open(3);
  EXPECT_EQ(shard(*b, "w0"), 0) << "a new chief";
  GivenShard& second = ask(*b, "w1");
  b->abandon();
  EXPECT_EQ(second.status->code(), Code::kAborted);
  EXPECT_EQ(ask(*b, "w1").status->code(), Code::kAborted);
}

TEST_F(ShardBoardTest, CancelledWhileWaiting) {
  auto b = board(1);
  GivenShard& waiting = ask(*b, "w0");
  cancellation_.cancel(cancelled("enough"));
  EXPECT_EQ(waiting.status->code(), Code::kCancelled);
  EXPECT_EQ(ask(*b, "w0").status->code(), Code::kCancelled);
  b->open(0);
  EXPECT_EQ(b->num_done(), 0);
}

TEST_F(ShardBoardTest, Errors) {
  EXPECT_EQ(ShardBoard::create({.num_shards = 0}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(ShardBoard::create({.lease = 0s}).status().code(), Code::kInvalidArgument);
  auto b = board(2);
  b->open(0);
  EXPECT_EQ(ask(*b, "").status->code(), Code::kInvalidArgument);
  EXPECT_EQ(ask(*b, "w", {0, 2}).status->code(), Code::kInvalidArgument);
  EXPECT_EQ(ask(*b, "w", {0, -1}).status->code(), Code::kInvalidArgument);
  std::optional<Status> refused;
  b->attend("", cancellation_, [&refused](Status status) { refused = std::move(status); });
  EXPECT_EQ(refused->code(), Code::kInvalidArgument);
}

TEST_F(ShardBoardTest, WithoutAClockLeasesDoNotEnd) {
  auto b = ShardBoard::create({.name = "b", .num_shards = 1}).value_or_throw();
  b->open(0);
  EXPECT_EQ(shard(*b, "w0"), 0);
  EXPECT_EQ(shard(*b, "w1"), -1);
}

}  // namespace tutti::shard_board_test
