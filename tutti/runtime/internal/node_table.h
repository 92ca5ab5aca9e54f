// The part of a compiled body that both executors share: nodes in topological order, their kernels and edges.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tutti/graph/function.h"
#include "tutti/kernels/kernel.h"
#include "tutti/runtime/executor.h"

namespace tutti::internal {

enum class NodeKind : std::uint8_t {
  kKernel,
  kAsyncKernel,
  kArg,      // gives an argument of the run
  kRetval,   // takes a result of the run
  kNothing,  // only orders others
};

struct NodeItem {
  NodeKind kind = NodeKind::kNothing;
  Kernel* kernel = nullptr;             // owned by NodeTable::kernels
  AsyncKernel* async_kernel = nullptr;  // the same object, when kind is kAsyncKernel
  const Node* node = nullptr;           // in NodeTable::graph
  int num_inputs = 0;
  int num_outputs = 0;
  std::uint32_t output_types_begin = 0;  // into NodeTable::output_types
  int index = 0;                         // of an argument or result
  bool sent = false;                     // an output goes straight to another task
};

struct InputEdge {
  int from = 0;          // item
  int output = 0;        // of it
  bool is_read = false;  // it may carry a reference, which is read when the node runs
};

// Everything about the nodes that does not depend on how they are run.
struct NodeTable {
  std::unique_ptr<Graph> graph;
  std::vector<NodeItem> items;                   // sources first; back edges of v1 loops aside
  std::vector<std::vector<InputEdge>> inputs;    // per item
  std::vector<std::vector<int>> control_inputs;  // per item
  std::vector<DType> output_types;
  std::vector<std::shared_ptr<Kernel>> kernels;
  int num_args = 0;
  int num_results = 0;
  bool has_control_flow = false;
  bool may_block = false;
  bool mark_nodes = false;  // see CompileOptions

  static Result<NodeTable> create(FunctionBody body, const CompileOptions& options);
  // Puts `MatMul "dense/product": ` before a kernel's message, and the mark behind it.
  Status annotate(const Node& node, const Status& status) const;
  // With the mark alone.
  Status marked(const Node& node, const Status& status) const;
};

// The current value of the variable behind a reference, or kFailedPrecondition.
Status read_reference(const Value& value, Tensor* out);

// What a run says whose result lies on an untaken branch.
Status dead_result(const NodeItem& retval);

Result<std::unique_ptr<Executable>> compile_segments(NodeTable table, const CompileOptions& options);
Result<std::unique_ptr<Executable>> compile_frames(NodeTable table, const CompileOptions& options);

}  // namespace tutti::internal
