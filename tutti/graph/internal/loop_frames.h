// Which nodes of a graph run in which v1 loops.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// What a node does to values that go round a loop. The reference forms have the same roles.
enum class LoopRole : std::uint8_t { kNone, kSwitch, kMerge, kEnter, kExit, kNextIteration, kCondition };
LoopRole loop_role(const Node& node);

struct LoopFrames {
  struct Frame {
    int parent = -1;  // -1 of the first, which is no loop
    int depth = 0;
    std::string name;
    Node* condition = nullptr;  // its LoopCond; null when it has none
    std::int64_t parallel_iterations = 1;
  };
  std::vector<Frame> frames;    // the first is outside of every loop
  std::vector<int> of;          // by node id: where it runs
  std::vector<int> of_outputs;  // by node id: where its outputs are; differs for Enter and Exit

  // `order`: all nodes, sources first. Errors name the node: inputs from different loops, an Exit outside of every
  // loop, loops nested too deep.
  static Result<LoopFrames> find(const Graph& graph, const std::vector<Node*>& order);
};

}  // namespace tutti
