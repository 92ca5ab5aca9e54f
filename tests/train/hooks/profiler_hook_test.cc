#include "tutti/train/hooks/profiler_hook.h"

#include "tests/train/hooks/hook_fixture.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using ProfilerHookTest = test::HookTest;

std::vector<std::string> names(const std::string& directory) {
  return local_file_system().list(directory).value_or_throw();
}

TEST_F(ProfilerHookTest, WritesTracesOfSteps) {
  MonitoredSession monitored = session({ProfilerHook({.save_steps = 4, .output_dir = directory.file("traces")})});
  run_steps(monitored, 9);
  EXPECT_EQ(names(directory.file("traces")), (std::vector<std::string>{"timeline-4.json", "timeline-8.json"}));
  const std::string trace = *read_file(local_file_system(), directory.file("traces/timeline-4.json"));
  EXPECT_NE(trace.find("\"traceEvents\""), std::string::npos);
  EXPECT_NE(trace.find("AssignAddVariableOp"), std::string::npos) << trace;
}

TEST_F(ProfilerHookTest, ByTime) {
  MonitoredSession monitored = session({ProfilerHook({.save_secs = 10, .output_dir = directory.path()})});
  run_steps(monitored, 7, 5s);
  EXPECT_EQ(names(directory.path()),
            (std::vector<std::string>{"timeline-3.json", "timeline-5.json", "timeline-7.json"}));
}

}  // namespace
}  // namespace tutti
