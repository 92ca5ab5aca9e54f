#include "tutti/train/hooks/step_counter_hook.h"

#include "tests/train/hooks/hook_fixture.h"

namespace tutti::step_counter_hook_test {

using namespace std::chrono_literals;
using test::thrown_by;
using StepCounterHookTest = test::HookTest;
using Events = std::vector<std::string>;

TEST_F(StepCounterHookTest, SaysAndWritesTheRate) {
  MonitoredSession monitored = session({StepCounterHook({.every_n_steps = 5, .output_dir = directory.path()})});
  run_steps(monitored, 11, 250ms);
  monitored.close();
  EXPECT_EQ(surroundings.lines.count("global_step/sec: 4"), 2);
  EXPECT_EQ(test::events_in(directory.path()), (Events{"global_step/sec@6", "global_step/sec@11"}));
}

TEST_F(StepCounterHookTest, AtIntervalsOfTime) {
  MonitoredSession monitored = session({StepCounterHook({.every_n_secs = 2})});
  run_steps(monitored, 10, 500ms);
  EXPECT_EQ(surroundings.lines.count("global_step/sec: 2"), 2);
  EXPECT_EQ(thrown_by([] { StepCounterHook({.every_n_steps = 1, .every_n_secs = 1}); }).code(), Code::kInvalidArgument);
}

TEST_F(StepCounterHookTest, WarnsAboutAStepThatStandsStill) {
  MonitoredSession monitored = session({StepCounterHook()});
  for (int i = 0; i < 20; ++i) monitored.run({}, {*job.w});
  EXPECT_EQ(surroundings.lines.count("stays at 0"), 0);
  monitored.run({}, {*job.w});
  EXPECT_EQ(surroundings.lines.count("Warning: the global step \"global_step\" stays at 0"), 1);
  for (int i = 0; i < 1000; ++i) monitored.run({}, {*job.w});
  EXPECT_EQ(surroundings.lines.count("stays at 0"), 5);
}

}  // namespace tutti::step_counter_hook_test
