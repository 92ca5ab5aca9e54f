// Reading back what a writer of events made.
#pragma once

#include <string>
#include <vector>

#include "tests/io/io_support.h"
#include "tutti/io/event_reader.h"
#include "tutti/io/summary.h"

namespace tutti::testing {

// All events of a file, up to its end or a torn one.
inline std::vector<Event> events_of(const std::string& path) {
  const auto reader = EventReader::open(local_file_system(), path).value_or_throw();
  std::vector<Event> events;
  Event event;
  while (reader->next(&event).value_or_throw()) events.push_back(event);
  return events;
}

inline std::string scalar_summary(const std::string& tag, float value) {
  SummaryBuilder summary;
  summary.add_scalar(tag, value);
  return summary.bytes();
}

// Of summaries only, in the order of the file.
inline std::vector<std::int64_t> summary_steps(const std::vector<Event>& events) {
  std::vector<std::int64_t> steps;
  for (const Event& event : events) {
    if (std::holds_alternative<SummaryEvent>(event.what)) steps.push_back(event.step);
  }
  return steps;
}

}  // namespace tutti::testing
