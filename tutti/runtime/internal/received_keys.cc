#include "tutti/runtime/internal/received_keys.h"

#include <algorithm>
#include <map>

#include "tutti/core/rendezvous_key.h"

namespace tutti::internal {
namespace {

// Visits of nodes that finding out may take; larger graphs are in a hurry for everything.
constexpr std::size_t kMostVisits = 10'000'000;

bool is_receive(const Node& node) { return node.op().has(kTransfer) && node.num_outputs() > 0; }
// What others see of a step: its sends, a client's fetches among them.
bool is_exit(const Node& node) { return node.op().has(kTransfer) && node.num_outputs() == 0; }

std::string key_of(const Node& receive) {
  return RendezvousKey{
      .send_device = receive.attr<std::string>("send_device"),
      .send_incarnation = static_cast<std::uint64_t>(receive.attr<std::int64_t>("send_device_incarnation")),
      .recv_device = receive.attr<std::string>("recv_device"),
      .name = receive.attr<std::string>("tensor_name")}
      .to_string();
}

struct Reached {
  bool something_long = false;
  std::vector<const Node*> exits;
};

Reached reached_from(const Node& receive, const std::vector<std::vector<Node*>>& consumers) {
  Reached reached;
  std::vector<bool> seen(consumers.size(), false);
  std::vector<const Node*> left{&receive};
  while (!left.empty()) {
    const Node* node = left.back();
    left.pop_back();
    if (is_exit(*node)) reached.exits.push_back(node);
    reached.something_long = reached.something_long || node->op().has(kExpensive);
    for (const Node* next : consumers[static_cast<std::size_t>(node->id())]) {
      const auto id = static_cast<std::size_t>(next->id());
      if (seen[id]) continue;
      seen[id] = true;
      left.push_back(next);
    }
  }
  return reached;
}

// Which of these nothing is gained by having early: every exit that needs one of them needs all of its sender's.
std::vector<bool> find_unhurried(const Graph& graph, const std::vector<const Node*>& receives) {
  std::vector<bool> unhurried(receives.size(), false);
  if (receives.size() > kMostVisits / std::max<std::size_t>(graph.nodes().size(), 1)) return unhurried;
  const std::vector<std::vector<Node*>> consumers = graph.consumers();
  std::map<std::string, std::size_t> of_sender;
  std::map<std::pair<std::string, const Node*>, std::size_t> needed_by;
  std::vector<Reached> reached;
  for (const Node* receive : receives) {
    const auto& sender = receive->attr<std::string>("send_device");
    ++of_sender[sender];
    reached.push_back(reached_from(*receive, consumers));
    for (const Node* exit : reached.back().exits) ++needed_by[{sender, exit}];
  }
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const auto& sender = receives[i]->attr<std::string>("send_device");
    const auto needs_all = [&](const Node* exit) { return needed_by[{sender, exit}] == of_sender[sender]; };
    unhurried[i] =
        !reached[i].something_long && std::all_of(reached[i].exits.begin(), reached[i].exits.end(), needs_all);
  }
  return unhurried;
}

}  // namespace

ReceivedKeys received_by(const Graph& graph) {
  std::vector<const Node*> receives;
  for (const Node* node : graph.nodes()) {
    if (node->op().has(kControlFlow)) return {};
    if (is_receive(*node) && !node->attr<bool>("client_terminated")) receives.push_back(node);
  }
  ReceivedKeys received;
  for (const Node* receive : receives) received.keys.push_back(key_of(*receive));
  received.unhurried = find_unhurried(graph, receives);
  return received;
}

}  // namespace tutti::internal
