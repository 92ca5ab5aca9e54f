#include "tutti/runtime/step_stats.h"

#include <pthread.h>

#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "tutti/core/strings.h"
#include "tutti/graph/graph.h"

namespace tutti {
namespace {

std::int64_t steady_nanos() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string json_quoted(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (unsigned char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c < 0x20 || c >= 0x7f) {
      out += "\\u00";
      out += kHex[c >> 4];
      out += kHex[c & 15];
    } else {
      out += static_cast<char>(c);
    }
  }
  return out + "\"";
}

}  // namespace

StepTrace::StepTrace()
    : start_(steady_nanos()),
      wall_micros_(
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
              .count()) {}

std::int64_t StepTrace::now() const { return steady_nanos() - start_; }

void StepTrace::record(const Node& node, std::int64_t start, std::int64_t end) {
  NodeStats stats{.name = node.name(),
                  .op = node.op_name(),
                  .device = node.assigned_device(),
                  .start_nanos = start,
                  .end_nanos = end,
                  .thread = std::hash<std::thread::id>{}(std::this_thread::get_id())};
  MutexLock lock(mu_);
  nodes_.push_back(std::move(stats));
}

StepStats StepTrace::take(std::int64_t step_id) {
  MutexLock lock(mu_);
  return {.step_id = step_id, .start_micros = wall_micros_, .nodes = std::move(nodes_)};
}

std::string chrome_trace(const StepStats& stats) {
  // Devices are processes and threads are numbered in order of appearance: the viewer sorts by both.
  std::map<std::string, int> devices;
  std::map<std::uint64_t, int> threads;
  std::string events;
  for (const NodeStats& node : stats.nodes) {
    const int device = devices.emplace(node.device, static_cast<int>(devices.size())).first->second;
    const int thread = threads.emplace(node.thread, static_cast<int>(threads.size())).first->second;
    if (!events.empty()) events += ",\n";
    events += str_cat("{\"ph\":\"X\",\"cat\":\"op\",\"name\":", json_quoted(node.op), ",\"pid\":", device,
                      ",\"tid\":", thread, ",\"ts\":", static_cast<double>(node.start_nanos) / 1000.0,
                      ",\"dur\":", static_cast<double>(node.end_nanos - node.start_nanos) / 1000.0,
                      ",\"args\":{\"name\":", json_quoted(node.name), "}}");
  }
  for (const auto& [name, id] : devices) {
    events += str_cat(",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":", id,
                      ",\"args\":{\"name\":", json_quoted(name), "}}");
  }
  return str_cat("{\"traceEvents\":[\n", events, "\n]}\n");
}

}  // namespace tutti
