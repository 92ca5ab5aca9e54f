#include "supervisor.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tutti::tools::supervisor_test {

using std::chrono::milliseconds;
using Kind = Supervisor::Action::Kind;

constexpr std::size_t kPs = 0, kFirst = 1, kSecond = 2;
const ExitCause kDone{};
const ExitCause kFailed{.number = 3};
const ExitCause kKilled{.by_signal = true, .number = SIGKILL};

std::vector<SupervisedTask> tasks() {
  return {{.name = "ps 0", .serves = true, .needed = true}, {.name = "worker 0"}, {.name = "worker 1"}};
}

SupervisorOptions with_restarts(int restarts) {
  SupervisorOptions options;
  options.restarts = restarts;
  return options;
}

// "start 0", "terminate 1", "kill 2", "say ..."
std::vector<std::string> texts(const Supervisor::Actions& actions) {
  std::vector<std::string> list;
  for (const auto& action : actions) {
    const std::string task = std::to_string(action.task);
    switch (action.kind) {
      case Kind::kStart:
        list.push_back("start " + task);
        break;
      case Kind::kTerminate:
        list.push_back("terminate " + task);
        break;
      case Kind::kKill:
        list.push_back("kill " + task);
        break;
      case Kind::kSay:
        list.push_back("say " + action.line);
        break;
    }
  }
  return list;
}

using Texts = std::vector<std::string>;

class SupervisorTest : public ::testing::Test {
 protected:
  TimePoint now_{};
};

TEST_F(SupervisorTest, ServersEndWhenTheWorkIsDone) {
  Supervisor job(tasks(), {});
  EXPECT_EQ(texts(job.begin(now_)), (Texts{"start 0", "start 1", "start 2"}));
  EXPECT_EQ(texts(job.on_exit(kFirst, kDone, now_)), Texts{});
  EXPECT_EQ(texts(job.on_exit(kSecond, kDone, now_)), Texts{"terminate 0"});
  EXPECT_FALSE(job.finished());
  // How it ends does not matter any more.
  EXPECT_EQ(texts(job.on_exit(kPs, {.by_signal = true, .number = SIGTERM}, now_)), Texts{});
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
}

TEST_F(SupervisorTest, TheFirstFailureIsTheJobs) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(kSecond, kFailed, now_)),
            (Texts{"say worker 1 ended with exit code 3; ending the job", "terminate 0", "terminate 1"}));
  EXPECT_EQ(texts(job.on_exit(kFirst, {.number = 9}, now_)), Texts{});
  job.on_exit(kPs, kDone, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 3);
}

TEST_F(SupervisorTest, WhatDoesNotEndIsKilled) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  EXPECT_EQ(job.next_time(), std::nullopt);
  job.on_exit(kSecond, kKilled, now_);
  ASSERT_EQ(job.next_time(), now_ + milliseconds(10'000));
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(9'999))), Texts{});
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(10'000))),
            (Texts{"say 2 tasks still run 10.0 s later: killing them", "kill 0", "kill 1"}));
  EXPECT_EQ(job.next_time(), std::nullopt);
  job.on_exit(kPs, kKilled, now_);
  EXPECT_FALSE(job.finished());
  job.on_exit(kFirst, kKilled, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 137);
}

TEST_F(SupervisorTest, RestartsWithGrowingPauses) {
  Supervisor job(tasks(), with_restarts(3));
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(kFirst, kKilled, now_)),
            Texts{"say worker 0 ended with signal 9 (Killed); starting it again in 0.1 s (restart 1 of 3)"});
  ASSERT_EQ(job.next_time(), now_ + milliseconds(100));
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(99))), Texts{});
  now_ += milliseconds(100);
  EXPECT_EQ(texts(job.on_time(now_)), Texts{"start 1"});
  job.on_exit(kFirst, kFailed, now_);
  ASSERT_EQ(job.next_time(), now_ + milliseconds(200));
  now_ += milliseconds(200);
  job.on_time(now_);
  // It ran well for a while: begins anew, but has no more restarts than before.
  now_ += milliseconds(10'000);
  job.on_exit(kFirst, kFailed, now_);
  ASSERT_EQ(job.next_time(), now_ + milliseconds(100));
  now_ += milliseconds(100);
  job.on_time(now_);
  EXPECT_EQ(texts(job.on_exit(kFirst, kFailed, now_))[0],
            "say worker 0 ended with exit code 3 and has used up its 3 restarts; ending the job");
  EXPECT_EQ(job.exit_code(), 3);
}

TEST_F(SupervisorTest, PausesHaveALimit) {
  Supervisor job(tasks(), with_restarts(1000));
  job.begin(now_);
  milliseconds longest{0};
  for (int i = 0; i < 100; ++i) {
    job.on_exit(kPs, kFailed, now_);
    longest = std::max(longest, std::chrono::duration_cast<milliseconds>(*job.next_time() - now_));
    now_ = *job.next_time();
    job.on_time(now_);
  }
  EXPECT_EQ(longest, milliseconds(10'000));
}

TEST_F(SupervisorTest, AJobIsNotDoneWhileATaskWaitsToStartAgain) {
  Supervisor job(tasks(), with_restarts(1));
  job.begin(now_);
  job.on_exit(kFirst, kFailed, now_);
  EXPECT_EQ(texts(job.on_exit(kSecond, kDone, now_)), Texts{});
  EXPECT_FALSE(job.finished());
  job.on_time(now_ + milliseconds(100));
  EXPECT_EQ(texts(job.on_exit(kFirst, kDone, now_)), Texts{"terminate 0"});
}

TEST_F(SupervisorTest, StopEndsAndASecondStopKills) {
  Supervisor job(tasks(), with_restarts(5));
  job.begin(now_);
  job.on_exit(kFirst, kFailed, now_);  // waits to start again: will not
  EXPECT_EQ(texts(job.on_stop("SIGINT", 130, now_)),
            (Texts{"say SIGINT: ending 2 tasks; once more kills them", "terminate 0", "terminate 2"}));
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(100))), Texts{});
  EXPECT_EQ(texts(job.on_stop("SIGINT", 130, now_ + milliseconds(299))), Texts{});  // an echo
  now_ += milliseconds(300);
  EXPECT_EQ(texts(job.on_stop("SIGTERM", 143, now_)), (Texts{"say SIGTERM: killing 2 tasks", "kill 0", "kill 2"}));
  EXPECT_EQ(texts(job.on_stop("SIGTERM", 143, now_)), Texts{});
  job.on_exit(kPs, kKilled, now_);
  job.on_exit(kSecond, kKilled, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 130);
}

TEST_F(SupervisorTest, AProgramThatIsNoneIsNotTriedAgain) {
  Supervisor job(tasks(), with_restarts(5));
  job.begin(now_);
  EXPECT_EQ(texts(job.on_start_failed(kPs, "x: not there", 127, now_)),
            (Texts{"say ps 0 cannot be started: x: not there", "terminate 1", "terminate 2"}));
  job.on_exit(kFirst, kDone, now_);
  job.on_exit(kSecond, kDone, now_);
  EXPECT_EQ(job.exit_code(), 127);
}

// No room for a process now may mean room in a moment.
TEST_F(SupervisorTest, AStartThatIsDelayedIsTriedAgain) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  EXPECT_EQ(texts(job.on_start_delayed(kFirst, "fork: no room", now_)),
            Texts{"say worker 0 cannot be started yet: fork: no room; trying again in 0.1 s"});
  ASSERT_EQ(job.next_time(), now_ + milliseconds(100));
  now_ += milliseconds(100);
  EXPECT_EQ(texts(job.on_time(now_)), Texts{"start 1"});
  for (int i = 1; i < 6; ++i) {
    job.on_start_delayed(kFirst, "fork: no room", now_);
    now_ = *job.next_time();
    EXPECT_EQ(texts(job.on_time(now_)), Texts{"start 1"});
  }
  EXPECT_TRUE(job.starts());
  EXPECT_EQ(texts(job.on_start_delayed(kFirst, "fork: no room", now_)),
            (Texts{"say worker 0 cannot be started: fork: no room", "terminate 0", "terminate 2"}));
  job.on_exit(kPs, kDone, now_);
  job.on_exit(kSecond, kDone, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 126);
}

// What was to be started after one that could not be is not, and is not waited for.
TEST_F(SupervisorTest, AFailedStartEndsTheStartsAfterIt) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  job.on_start_failed(kFirst, "x: not there", 127, now_);
  EXPECT_FALSE(job.starts());
  EXPECT_EQ(texts(job.on_start_failed(kSecond, "the job ends", 126, now_)), Texts{});
  job.on_exit(kPs, kDone, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 127);
}

// As programs do whose ps count the workers out.
TEST_F(SupervisorTest, AServerMayEndALittleBeforeTheWorkers) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(kPs, kDone, now_)),
            Texts{"say ps 0 has ended before the workers; the job fails if they still run in 60.0 s (--patience)"});
  job.on_exit(kFirst, kDone, now_);
  EXPECT_EQ(texts(job.on_exit(kSecond, kDone, now_)), Texts{});
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
}

TEST_F(SupervisorTest, WorkersAreNotLeftWithoutTheirServerForEver) {
  Supervisor job(tasks(), {});
  job.begin(now_);
  job.on_exit(kPs, kDone, now_);
  job.on_exit(kFirst, kDone, now_);
  ASSERT_EQ(job.next_time(), now_ + milliseconds(60'000));
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(59'999))), Texts{});
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(60'000))),
            (Texts{"say the workers still run 60.0 s after ps 0 has ended, without it (--patience); ending the job",
                   "terminate 2"}));
  job.on_exit(kSecond, kKilled, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 1);
}

TEST_F(SupervisorTest, WorkersMayGetAllTheTimeTheyWant) {
  Supervisor job(tasks(), {.patience = milliseconds(0)});
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(kPs, kDone, now_)),
            Texts{"say ps 0 has ended before the workers, which go on without it"});
  job.on_exit(kFirst, kDone, now_);
  EXPECT_EQ(job.next_time(), std::nullopt);
  EXPECT_EQ(texts(job.on_time(now_ + milliseconds(1'000'000'000))), Texts{});
  job.on_exit(kSecond, kDone, now_);
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
}

TEST_F(SupervisorTest, AServerThatEndsByItselfIsStartedAgain) {
  Supervisor job(tasks(), with_restarts(1));
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(kPs, kDone, now_)),
            Texts{"say ps 0 has ended before the workers; starting it again in 0.1 s (restart 1 of 1)"});
  now_ += milliseconds(100);
  EXPECT_EQ(texts(job.on_time(now_)), Texts{"start 0"});
  EXPECT_EQ(texts(job.on_exit(kPs, kDone, now_)),
            Texts{"say ps 0 has ended before the workers; the job fails if they still run in 60.0 s (--patience)"});
  job.on_exit(kFirst, kDone, now_);
  EXPECT_EQ(texts(job.on_exit(kSecond, kDone, now_)), Texts{});
  EXPECT_EQ(job.next_time(), now_ + milliseconds(10'000));  // the grace, of nobody
  EXPECT_TRUE(job.finished());
  EXPECT_EQ(job.exit_code(), 0);
}

TEST_F(SupervisorTest, NobodyWaitsForAnEvaluator) {
  Supervisor job({{.name = "evaluator 0", .serves = true}, {.name = "worker 0"}}, with_restarts(1));
  job.begin(now_);
  EXPECT_EQ(texts(job.on_exit(0, kDone, now_)), Texts{"say evaluator 0 has ended before the workers"});
  EXPECT_EQ(job.next_time(), std::nullopt);
}

TEST(ExitCause, AsShellsSayIt) {
  EXPECT_EQ(kFailed.to_string(), "exit code 3");
  EXPECT_EQ(kFailed.code(), 3);
  EXPECT_EQ(kKilled.to_string(), "signal 9 (Killed)");
  EXPECT_EQ(kKilled.code(), 137);
  EXPECT_FALSE(kKilled.ok());
  EXPECT_TRUE(kDone.ok());
}

}  // namespace tutti::tools::supervisor_test
