// What a traced step records: which node ran when, on which thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/core/mutex.h"

namespace tutti {

class Node;

struct NodeStats {
  std::string name;
  std::string op;
  std::string device;
  std::int64_t start_nanos = 0;  // since the step began
  std::int64_t end_nanos = 0;
  std::uint64_t thread = 0;
};

struct StepStats {
  std::int64_t step_id = 0;
  std::int64_t start_micros = 0;  // wall clock
  std::vector<NodeStats> nodes;
};

// The trace in the JSON that chrome://tracing and Perfetto read.
std::string chrome_trace(const StepStats& stats);

// Collects while a step runs. Thread-safe.
class StepTrace {
 public:
  StepTrace();
  // Nanoseconds since the step began.
  std::int64_t now() const;
  void record(const Node& node, std::int64_t start, std::int64_t end);
  StepStats take(std::int64_t step_id);

 private:
  const std::int64_t start_;
  const std::int64_t wall_micros_;
  Mutex mu_;
  std::vector<NodeStats> nodes_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti
