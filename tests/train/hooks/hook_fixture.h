// A counting job under one hook.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/faulty_session.h"
#include "tests/train/train_fixture.h"
#include "tutti/io/event_reader.h"
#include "tutti/io/summary_values.h"
#include "tutti/train/monitored_session.h"

namespace tutti::test {

// The events of a directory's files: "graph@0", "start@1", "checkpoint@10", "loss@1" for the values of summaries.
inline std::vector<std::string> events_in(const std::string& directory) {
  std::vector<std::string> found;
  for (const std::string& path : list_event_files(local_file_system(), directory).value_or_throw()) {
    const auto reader = EventReader::open(local_file_system(), path).value_or_throw();
    Event event;
    while (reader->next(&event).value_or_throw()) {
      const std::string at = str_cat("@", event.step);
      if (std::holds_alternative<GraphEvent>(event.what)) found.push_back("graph" + at);
      if (std::holds_alternative<MetaGraphEvent>(event.what)) found.push_back("meta_graph" + at);
      if (const auto* log = std::get_if<SessionLog>(&event.what)) {
        found.push_back((log->status == SessionLog::Status::kStart ? "start" : "checkpoint") + at);
      }
      if (const auto* summary = std::get_if<SummaryEvent>(&event.what)) {
        for (const SummaryValue& value : parse_summary(summary->summary).value_or_throw())
          found.push_back(value.tag + at);
      }
    }
  }
  return found;
}

// The steps of the checkpoints.
inline std::vector<std::int64_t> checkpoints_in(const std::string& directory) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : local_file_system().list(directory).value_or_throw()) {
    if (!name.ends_with(".index")) continue;
    steps.push_back(std::stoll(name.substr(name.find('-') + 1)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

struct HookTest : ::testing::Test {
  HookTest() { creator.environment = surroundings.environment(); }

  // A session whose hooks are these.
  MonitoredSession session(std::vector<Hook> hooks) {
    creator.config.connect = faults.connect();
    return MonitoredSession(std::make_unique<ChiefSessionCreator>(job.graph, creator), {.hooks = std::move(hooks)});
  }
  // Runs `steps` steps, each of which takes `duration`.
  void run_steps(MonitoredSession& session, int steps, Duration duration = Duration::zero()) {
    for (int i = 0; i < steps; ++i) {
      session.run({job.train});
      surroundings.clock->advance(duration);
    }
  }

  CountingJob job;
  TestEnvironment surroundings;
  SessionFaults faults;
  SessionCreatorOptions creator;
  TempDirectory directory;
};

}  // namespace tutti::test
