// The plan of a body with v1 control flow, which frame_executor.cc runs: for every node the frame that it runs in, what
// it does with tokens, and who gets its outputs. Never changes once created, so that runs share it without locks.
//
//   * An item is a node; its number is the same here and in the table. A FrameDef is a loop, of which a run may have
//     many executions, the frames; frames[0] is the root, what lies outside of every loop, and a parent comes before
//     its children.
//   * An item runs in the frame that its inputs arrive in: an Enter in the parent, an Exit in the loop that it leaves.
//     Exits and NextIterations are never in the root, and a NextIteration and the Merge that it continues are in one
//     frame.
//   * The Enters with one frame_name in one parent share a frame.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tutti/runtime/internal/node_table.h"

namespace tutti::internal {

enum class FrameRole : std::uint8_t { kPlain, kSwitch, kMerge, kEnter, kExit, kNextIteration };

inline constexpr int kControlEdge = -1;

struct FrameEdge {
  int to = 0;
  int output = kControlEdge;  // of this item, or kControlEdge
  int input = kControlEdge;   // of `to`, or kControlEdge
  bool last = false;          // nobody later in the list takes the output
};

struct FrameItem {
  FrameRole role = FrameRole::kPlain;
  bool hands_on = false;  // one input becomes an output as it is: no kernel has to run for that
  bool ignores_dead_control = false;
  bool is_transfer = false;
  bool constant_enter = false;
  int frame = 0;            // definition, of where it runs
  int child_frame = 0;      // of an Enter
  int local = 0;            // index among the frame's items
  int first_value = 0;      // index of its first input among the frame's values
  int initial_pending = 0;  // inputs to wait for; of a Merge control inputs alone
  int merge_entries = 0;    // data inputs that can arrive in iteration 0
  int merge_backs = 0;      // data inputs that can arrive later
  std::vector<FrameEdge> outs;
  std::vector<std::uint32_t> input_index;  // of each input, among the frame's values
  std::vector<bool> reads;                 // of each input: read when the item runs, if it is a reference
};

struct FrameDef {
  int parent = -1;
  int depth = 0;
  std::string name;
  std::vector<int> items;
  std::vector<int> pending;  // of each item, when an iteration opens
  std::vector<int> exits;
  int num_values = 0;
  int num_enters = 0;
  int parallel_iterations = 1;
};

struct FramePlan {
  NodeTable table;
  std::vector<FrameItem> items;
  std::vector<FrameDef> frames;
  std::vector<int> sources;                // items without inputs, in the root frame
  std::vector<std::uint8_t> all_last_use;  // for the node with most inputs: a token is read once

  // kInvalidArgument for a node whose inputs come from different loops, an Exit or NextIteration outside of every loop,
  // a NextIteration whose Merge is in another one, and loops nested too deep.
  static Result<FramePlan> create(NodeTable table);
};

}  // namespace tutti::internal
