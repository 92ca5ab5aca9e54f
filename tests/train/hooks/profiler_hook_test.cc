#include "tutti/train/hooks/profiler_hook.h"

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/train/internal/dataflow.h"

namespace tutti::profiler_hook_test {

using namespace std::chrono_literals;
using ProfilerHookTest = test::HookTest;

// Of the traces.
std::vector<std::string> names(const std::string& directory) {
  std::vector<std::string> all = local_file_system().list(directory).value_or_throw();
  std::erase_if(all, [](const std::string& name) { return name.find("tfevents") != name.npos; });
  return all;
}

TEST_F(ProfilerHookTest, WritesTracesOfSteps) {
  MonitoredSession monitored = session({ProfilerHook({.save_steps = 4, .output_dir = directory.file("traces")})});
  run_steps(monitored, 9);
  EXPECT_EQ(names(directory.file("traces")), (std::vector<std::string>{"timeline-4.json", "timeline-8.json"}));
  const std::string trace = *read_file(local_file_system(), directory.file("traces/timeline-4.json"));
  EXPECT_NE(trace.find("\"traceEvents\""), std::string::npos);
  EXPECT_NE(trace.find("AssignAddVariableOp"), std::string::npos) << trace;
}

TEST_F(ProfilerHookTest, TensorBoardGetsTheStepToo) {
  MonitoredSession monitored = session({ProfilerHook({.save_steps = 4, .output_dir = directory.path()})});
  run_steps(monitored, 9);
  monitored.close();
  std::vector<std::string> tags;
  for (const std::string& path : list_event_files(local_file_system(), directory.path()).value_or_throw()) {
    const auto reader = EventReader::open(local_file_system(), path).value_or_throw();
    Event event;
    while (reader->next(&event).value_or_throw()) {
      const auto* about = std::get_if<RunMetadataEvent>(&event.what);
      if (about == nullptr) continue;
      tags.push_back(about->tag);
      EXPECT_NE(about->run_metadata.find("global_step"), std::string::npos);
      EXPECT_NE(about->run_metadata.find("/device:CPU:0"), std::string::npos);
    }
  }
  EXPECT_EQ(tags, (std::vector<std::string>{"step_4", "step_8"}));
}

TEST(Dataflow, ArrowsGoBetweenThreadsAndDevices) {
  Graph graph(builtin_ops());
  const Output a = constant(graph, Tensor::scalar(1.0f), "a");
  const Output b = identity(a, "b");
  identity(b, "c");
  StepStats stats;
  stats.nodes = {{.name = "a", .op = "Const", .device = "cpu", .start_nanos = 0, .end_nanos = 1000, .thread = 7},
                 {.name = "b", .op = "Identity", .device = "cpu", .start_nanos = 2000, .end_nanos = 3000, .thread = 8},
                 {.name = "c", .op = "Identity", .device = "cpu", .start_nanos = 4000, .end_nanos = 5000, .thread = 8}};
  const std::string trace = internal::chrome_trace_with_dataflow(stats, graph);
  EXPECT_NE(trace.find(R"({"ph":"s","cat":"DataFlow","name":"value","id":0,"pid":0,"tid":0,"ts":1})"), trace.npos)
      << trace;
  EXPECT_NE(trace.find(R"({"ph":"t","cat":"DataFlow","name":"value","id":0,"pid":0,"tid":1,"ts":2})"), trace.npos)
      << trace;
  EXPECT_EQ(trace.find("\"id\":1"), trace.npos) << trace;
  EXPECT_TRUE(trace.ends_with("]}\n"));
}

TEST_F(ProfilerHookTest, ByTime) {
  MonitoredSession monitored = session({ProfilerHook({.save_secs = 10, .output_dir = directory.path()})});
  run_steps(monitored, 7, 5s);
  EXPECT_EQ(names(directory.path()),
            (std::vector<std::string>{"timeline-3.json", "timeline-5.json", "timeline-7.json"}));
}

}  // namespace tutti::profiler_hook_test
