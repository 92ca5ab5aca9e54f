// What became of the gradients that workers sent: applied, dropped because they were stale, or sent once more.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/runtime/session.h"

namespace tutti {

struct GradientCounts {
  std::int64_t applied = 0;  // taken for an update; strict replicas' that still wait for theirs are in no count
  std::int64_t stale = 0;    // dropped: computed for a step that was over, or that was begun anew
  std::int64_t retried = 0;  // of a shard that was there already: strict replicas only

  GradientCounts& operator+=(const GradientCounts& other);
  bool operator==(const GradientCounts&) const = default;
};

// Of one worker in one accumulator.
struct GradientRow {
  std::string device;       // the task that keeps the accumulator, as the ledger was asked for it
  std::string worker;       // "unknown": one that does not name itself, such as TensorFlow's
  std::string accumulator;  // "w:0/grad_accum"
  GradientCounts counts;
};

// Reads the ledgers that tasks keep, at any time, from any session of the cluster: nobody else has to help. A gradient
// is that of one variable: a worker's step sends as many as there are variables. A ledger begins with the first
// accumulator of a task and ends with it, or with the reset of its container.
class GradientLedgerReader {
 public:
  // Adds one node for each of `devices`, such as "/job:ps/task:0" (empty: the session's own), to `graph`. Throws Error.
  GradientLedgerReader(Graph& graph, const std::vector<std::string>& devices, const std::string& container = "");

  // In order of device, worker and accumulator. `session` is one of the graph. Throws Error: among others kNotFound
  // where a device is another system's server.
  std::vector<GradientRow> read(Session& session) const;

 private:
  std::vector<std::string> devices_;
  std::vector<TensorName> fetches_;  // three for each device
};

// The sums over all accumulators.
std::map<std::string, GradientCounts> counts_by_worker(const std::vector<GradientRow>& rows);

}  // namespace tutti
