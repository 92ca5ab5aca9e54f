#include "tutti/train/internal/dataflow.h"

#include <map>
#include <string_view>
#include <utility>

#include "tutti/core/strings.h"

namespace tutti::internal {
namespace {

// Devices and threads have the numbers that chrome_trace gives them: in order of appearance.
struct Place {
  int device = 0;
  int thread = 0;
  bool operator==(const Place&) const = default;
};

struct Ran {
  const NodeStats* stats;
  Place place;
};

std::string flow_event(char phase, int id, const Place& place, std::int64_t nanos) {
  return str_cat(",\n{\"ph\":\"", std::string(1, phase), "\",\"cat\":\"DataFlow\",\"name\":\"value\",\"id\":", id,
                 ",\"pid\":", place.device, ",\"tid\":", place.thread, ",\"ts\":", static_cast<double>(nanos) / 1000.0,
                 "}");
}

std::map<std::string_view, Ran> places_of(const StepStats& stats) {
  std::map<std::string, int> devices;
  std::map<std::uint64_t, int> threads;
  std::map<std::string_view, Ran> ran;
  for (const NodeStats& node : stats.nodes) {
    const int device = devices.emplace(node.device, static_cast<int>(devices.size())).first->second;
    const int thread = threads.emplace(node.thread, static_cast<int>(threads.size())).first->second;
    ran[node.name] = {&node, {device, thread}};
  }
  return ran;
}

}  // namespace

std::string chrome_trace_with_dataflow(const StepStats& stats, const Graph& graph) {
  constexpr std::string_view kEnd = "\n]}";
  std::string trace = chrome_trace(stats);
  std::string flows;
  int id = 0;
  const std::map<std::string_view, Ran> ran = places_of(stats);
  for (const auto& [name, consumer] : ran) {
    const Node* node = graph.find(name);
    if (node == nullptr) continue;
    for (const Output& input : node->inputs()) {
      const auto producer = ran.find(input.node->name());
      if (producer == ran.end() || producer->second.place == consumer.place) continue;
      flows += flow_event('s', id, producer->second.place, producer->second.stats->end_nanos);
      flows += flow_event('t', id, consumer.place, consumer.stats->start_nanos);
      ++id;
    }
  }
  return trace.insert(trace.rfind(kEnd), flows);
}

}  // namespace tutti::internal
