// Cutting a placed graph into the parts that tasks run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/graph/graph.h"

namespace tutti {

struct PartitionOptions {
  // The part that a device belongs to: the task's name when cutting by task, the device itself when by device.
  std::function<std::string(const std::string& device)> part_of;
  // Of a full device name; goes into the keys, so that a restarted task is noticed.
  std::function<std::uint64_t(const std::string& device)> incarnation_of;
  // Where feeds enter and fetches leave; a full device name.
  std::string client_device;
  // What follows the source's name in the names of new nodes: "_S" between tasks, "_G" within one.
  std::string suffix = "_S";
  // The first number after the suffix. Workers keep kernels by name for as long as a session lives, so a session goes
  // on where its last cut ended.
  std::int64_t first_number = 0;
};

// What one task runs.
struct Part {
  std::string name;  // as part_of gave it
  std::unique_ptr<Graph> graph;
  // Keys (core/rendezvous_key.h) at which the client's values are sent into this part and taken from it, with the
  // index of the feed or fetch that each is.
  struct Terminal {
    int index;
    std::string key;
  };
  std::vector<Terminal> feeds;
  std::vector<Terminal> fetches;
};

// A value that crosses between parts.
struct Crossing {
  std::string from;  // names of parts
  std::string to;
  std::string tensor;  // "dense/kernel/read:0", or "^node" for a control edge
  DType dtype;
  PartialShape shape;
};

struct Partitioning {
  std::vector<Part> parts;  // in order of their names
  std::vector<Crossing> crossings;
  std::int64_t next_number = 0;  // the first one not used
};

// Splits a body whose nodes all have an assigned device. Each edge between two parts becomes a `_Send` and a `_Recv`
// with TensorFlow's attributes; one pair serves all readers of an output in a part. Control edges travel as an empty
// tensor.
// `_Arg`s become `_Recv`s and `_Retval`s `_Send`s on the client's device (client_terminated); a feed that nothing reads
// has no terminal. v1 loops whose body spans parts are given a loop of control nodes in each part that lacks one, so
// that every part knows when an iteration begins. What enters a loop enters it in each part that reads it. Nodes'
// `device` in the result is the assigned one, except that Switch and Exit go with their input and Enter and
// NextIteration with their first reader, as in TensorFlow. Each part has the functions that it can reach. Errors name
// the node: a reference edge between parts, a resource handle used in another part than its own, a loop across parts
// without a LoopCond.
Result<Partitioning> partition(const FunctionBody& body, const PartitionOptions& options);

}  // namespace tutti
