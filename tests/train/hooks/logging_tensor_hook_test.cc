#include "tutti/train/hooks/logging_tensor_hook.h"

#include "tests/train/hooks/hook_fixture.h"

namespace tutti::logging_tensor_hook_test {

using namespace std::chrono_literals;
using test::thrown_by;
using Lines = std::vector<std::string>;

struct LoggingTensorHookTest : test::HookTest {
  // Of w after its update, so that its value is known.
  LoggingTensorHookTest() {
    const auto after = job.graph.control_dependencies({job.train});
    value = job.w->read_again("after");
  }
  Output value;
};

TEST_F(LoggingTensorHookTest, EveryFewSteps) {
  MonitoredSession monitored = session({LoggingTensorHook({.tensors = {{"w", value}}, .every_n_iter = 2})});
  run_steps(monitored, 5, 500ms);
  EXPECT_EQ(surroundings.lines.all(), (Lines{"w = 10.5", "w = 11.5 (1.000 sec)", "w = 12.5 (1.000 sec)"}));
}

TEST_F(LoggingTensorHookTest, EveryFewSecondsInTheOrderGiven) {
  MonitoredSession monitored =
      session({LoggingTensorHook({.tensors = {{"z", value}, {"a", value}}, .every_n_secs = 1})});
  run_steps(monitored, 4, 500ms);
  EXPECT_EQ(surroundings.lines.all(), (Lines{"z = 10.5, a = 10.5", "z = 11.5, a = 11.5 (1.000 sec)"}));
}

TEST_F(LoggingTensorHookTest, AtTheEnd) {
  MonitoredSession monitored = session({LoggingTensorHook({.tensors = {{"w", *job.w}}, .at_end = true})});
  run_steps(monitored, 4);
  EXPECT_TRUE(surroundings.lines.all().empty());
  monitored.close();
  EXPECT_EQ(surroundings.lines.all(), Lines{"w = 12.0"});
}

TEST_F(LoggingTensorHookTest, AsTheUserFormatsIt) {
  MonitoredSession monitored = session({LoggingTensorHook(
      {.tensors = {{"w", value}}, .every_n_iter = 1, .formatter = [](const std::map<std::string, Tensor>& values) {
         return "w is " + values.at("w").to_string();
       }})});
  run_steps(monitored, 1);
  EXPECT_EQ(surroundings.lines.all(), Lines{"w is float [] {10.5}"});
}

TEST_F(LoggingTensorHookTest, RefusesBadOptions) {
  for (const LoggingTensorOptions& bad :
       {LoggingTensorOptions{.tensors = {{"w", value}}}, LoggingTensorOptions{.every_n_iter = 1},
        LoggingTensorOptions{.tensors = {{"w", value}}, .every_n_iter = 0},
        LoggingTensorOptions{.tensors = {{"w", value}}, .every_n_secs = -1},
        LoggingTensorOptions{.tensors = {{"w", value}}, .every_n_iter = 1, .every_n_secs = 1},
        LoggingTensorOptions{.tensors = {{"w", value}, {"w", value}}, .every_n_iter = 1}}) {
    EXPECT_EQ(thrown_by([&] { LoggingTensorHook{bad}; }).code(), Code::kInvalidArgument);
  }
}

}  // namespace tutti::logging_tensor_hook_test
