#include "tutti/train/hooks/summary_saver_hook.h"

#include <atomic>

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/ops/builders.h"

namespace tutti::summary_saver_hook_test {

using namespace std::chrono_literals;
using test::thrown_by;
using Events = std::vector<std::string>;

struct SummarySaverHookTest : test::HookTest {
  SummarySaverHookTest() {
    const Output tag = constant(job.graph, Tensor::scalar<std::string>("loss"));
    Node* node = add_op(job.graph, "ScalarSummary", {tag, *job.w});
    job.graph.add_to_collection("summaries", *node);
    summary = node->output();
  }
  Output summary;
};

TEST_F(SummarySaverHookTest, WantsExactlyOneThingToWrite) {
  EXPECT_EQ(thrown_by([] { SummarySaverHook({.save_steps = 1}); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([&] {
              SummarySaverHook({.save_steps = 1, .scaffold = creator.scaffold, .summary_op = {summary}});
            }).code(),
            Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([&] { SummarySaverHook({.summary_op = {summary}}); }).code(), Code::kInvalidArgument);
}

TEST_F(SummarySaverHookTest, WritesTheFirstStepAndThenAtIntervals) {
  MonitoredSession monitored =
      session({SummarySaverHook({.save_steps = 3, .output_dir = directory.path(), .scaffold = creator.scaffold})});
  run_steps(monitored, 8);
  monitored.close();
  EXPECT_EQ(test::events_in(directory.path()), (Events{"start@1", "loss@1", "loss@4", "loss@7"}));
}

TEST_F(SummarySaverHookTest, WritesByTime) {
  MonitoredSession monitored =
      session({SummarySaverHook({.save_secs = 10, .output_dir = directory.path(), .summary_op = {summary}})});
  run_steps(monitored, 6, 5s);
  monitored.close();
  EXPECT_EQ(test::events_in(directory.path()), (Events{"start@1", "loss@1", "loss@3", "loss@5"}));
}

TEST_F(SummarySaverHookTest, WithoutSummariesOnlyTheStartIsWritten) {
  test::CountingJob plain;
  SingularMonitoredSession monitored(
      plain.graph, creator,
      {.hooks = {SummarySaverHook({.save_steps = 1, .output_dir = directory.path(), .scaffold = creator.scaffold})}});
  monitored.run({plain.train});
  monitored.close();
  EXPECT_EQ(test::events_in(directory.path()), Events{"start@1"});
}

TEST_F(SummarySaverHookTest, WhatIsNoSummaryIsRefused) {
  MonitoredSession monitored =
      session({SummarySaverHook({.save_steps = 1, .output_dir = directory.path(), .summary_op = {*job.w}})});
  EXPECT_EQ(thrown_by([&] { run_steps(monitored, 1); }).code(), Code::kInvalidArgument);
}

TEST_F(SummarySaverHookTest, ADiskThatIsFullDoesNotEndTheJob) {
  std::atomic<bool> full = false;  // the writer has a thread of its own
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    return full && op == FileOp::kAppend ? resource_exhausted(path, ": disk full") : Status();
  });
  creator.environment.files = &files;
  MonitoredSession monitored =
      session({SummarySaverHook({.save_steps = 1, .output_dir = directory.path(), .summary_op = {summary}})});
  run_steps(monitored, 1);
  full = true;
  run_steps(monitored, 50);
  monitored.close();
  EXPECT_EQ(surroundings.lines.count("are not written"), 1);
  EXPECT_EQ(surroundings.lines.count("disk full"), 1);
}

TEST_F(SummarySaverHookTest, ADiskThatHasRoomAgainIsWrittenToAgain) {
  std::atomic<bool> full = false;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    return full && op == FileOp::kAppend ? resource_exhausted(path, ": disk full") : Status();
  });
  creator.environment.files = &files;
  MonitoredSession monitored =
      session({SummarySaverHook({.save_steps = 1, .output_dir = directory.path(), .summary_op = {summary}})});
  full = true;
  while (surroundings.lines.count("are not written") == 0) run_steps(monitored, 1);
  surroundings.clock->advance(61s);
  run_steps(monitored, 1);  // tries again, in vain
  EXPECT_EQ(surroundings.lines.count("are written again"), 0);
  full = false;
  run_steps(monitored, 1);  // too soon after that
  EXPECT_EQ(surroundings.lines.count("are written again"), 0);
  surroundings.clock->advance(61s);
  run_steps(monitored, 3);
  const std::int64_t last = step_value(monitored.run({}, {*job.step})[0]);
  monitored.close();
  EXPECT_EQ(surroundings.lines.count("are written again"), 1);
  EXPECT_EQ(surroundings.lines.count("are not written"), 1);
  const std::vector<std::string> events = test::events_in(directory.path());
  ASSERT_FALSE(events.empty());
  EXPECT_TRUE(events.back().ends_with(str_cat("@", last))) << events.back();
}

}  // namespace tutti::summary_saver_hook_test
