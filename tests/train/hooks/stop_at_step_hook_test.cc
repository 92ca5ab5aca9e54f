#include "tutti/train/hooks/stop_at_step_hook.h"

#include "tests/train/hooks/hook_fixture.h"

namespace tutti::stop_at_step_hook_test {

using test::thrown_by;
using StopAtStepHookTest = test::HookTest;

TEST_F(StopAtStepHookTest, WantsExactlyOneLimit) {
  EXPECT_EQ(thrown_by([] { StopAtStepHook({}); }).message(), "One of num_steps or last_step must be specified.");
  EXPECT_EQ(thrown_by([] { StopAtStepHook({.num_steps = 1, .last_step = 1}); }).code(), Code::kInvalidArgument);
}

TEST_F(StopAtStepHookTest, NeedsAGlobalStep) {
  Graph graph(builtin_ops());
  const Status status =
      thrown_by([&] { SingularMonitoredSession monitored(graph, {}, {.hooks = {StopAtStepHook({.last_step = 1})}}); });
  EXPECT_EQ(status, failed_precondition("Global step should be created to use StopAtStepHook."));
}

int steps_until_stop(test::HookTest& test, StopAtStepOptions options, std::int64_t start) {
  test.creator.scaffold = std::make_shared<Scaffold>();
  test.creator.scaffold->init_fn = [&test, start](const Scaffold&, Session& session) {
    for (std::int64_t i = 0; i < start; ++i) session.run({test.job.train});
  };
  MonitoredSession monitored = test.session({StopAtStepHook(options)});
  int steps = 0;
  while (!monitored.should_stop()) {
    monitored.run({test.job.train});
    ++steps;
  }
  return steps;
}

TEST_F(StopAtStepHookTest, EndsAtTheLastStep) {
  EXPECT_EQ(steps_until_stop(*this, {.last_step = 7}, 4), 3);
  EXPECT_EQ(steps_until_stop(*this, {.last_step = 7}, 40), 1);  // a step shows it
}

TEST_F(StopAtStepHookTest, EndsAfterSoManySteps) { EXPECT_EQ(steps_until_stop(*this, {.num_steps = 7}, 4), 7); }

TEST_F(StopAtStepHookTest, CountsFromTheFirstSessionAlsoAfterARecovery) {
  MonitoredSession monitored = session({StopAtStepHook({.num_steps = 3})});
  run_steps(monitored, 2);
  faults.fail_next_run(aborted("gone"));
  int more = 0;  // the new session begins at 0: there is no checkpoint
  while (!monitored.should_stop()) {
    monitored.run({job.train});
    ++more;
  }
  EXPECT_EQ(more, 3);
}

}  // namespace tutti::stop_at_step_hook_test
