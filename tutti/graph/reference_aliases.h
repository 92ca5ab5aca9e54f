// Which values of a graph are another name for a reference variable.
//
// TensorFlow's Identity of a reference shares the variable's memory, and so do the nodes that hand its value on: a
// kernel that takes it sees what the variable holds when the kernel runs, also through Switch, Merge and Enter.
#pragma once

#include <vector>

#include "tutti/graph/graph.h"

namespace tutti {

// Whether the value of input `i` becomes an output of `node` unchanged: Identity and its kin, and the data inputs of
// Switch, Merge, Enter, Exit and NextIteration.
bool hands_on(const Node& node, int i);

class ReferenceAliases {
 public:
  // Holds for `graph` as it is now; nodes that are added later are not known.
  explicit ReferenceAliases(const Graph& graph);

  // Whether `value` is a reference, or may be one that came through nodes that hand it on. A Merge may hand on a plain
  // value in one execution and a reference in the next.
  bool contains(const Output& value) const;

 private:
  std::vector<bool> hands_on_reference_;  // by node id
};

}  // namespace tutti
