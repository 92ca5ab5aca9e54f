// Spreading variables over parameter servers by their size.
#pragma once

#include <cstdint>
#include <functional>

#include "tutti/strategies/replica_device_setter.h"

namespace tutti {

// How heavy a node is. May throw Error.
using LoadFunction = std::function<double(const NodeSpec&)>;

// Bytes of a variable: its elements times their size, by the attributes `shape` and `dtype`. Throws Error for a node
// without them or with an open shape.
double byte_size_load(const NodeSpec& node);

// Each node goes to the task with the least load so far, the first of several, and adds its own. REQUIRES: num_tasks >
// 0.
PsStrategy greedy_load_balancing(int num_tasks, LoadFunction load = byte_size_load);

}  // namespace tutti
