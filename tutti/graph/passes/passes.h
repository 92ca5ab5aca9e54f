// Rewrites of a body before it is compiled. Each keeps results the same to rounding, never touches stateful
// nodes or reads of variables, and may be run alone.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/graph/function.h"

namespace tutti {

// Computes a node whose inputs are all known. Implemented above, where the kernels are.
class ConstantEvaluator {
 public:
  virtual ~ConstantEvaluator() = default;
  // The node's outputs; an error leaves the node as it is.
  virtual Result<std::vector<Tensor>> evaluate(const Node& node, const std::vector<Tensor>& inputs) = 0;
};

struct PassOptions {
  bool fold_constants = true;
  bool merge_common_subexpressions = true;
  bool drop_unread = true;
  bool hoist = true;
  bool open_gates = true;
  bool fuse = true;
  bool inline_functions = true;
  // A folded value larger than this stays unfolded.
  std::int64_t max_folded_bytes = 10 << 20;
};

// Replaces nodes that depend on constants only, or on shapes that are known, by Const nodes. Effects and reads of
// variables that came before such a node still do.
Status fold_constants(FunctionBody& body, ConstantEvaluator& evaluator, std::int64_t max_bytes);
// Keeps one of several stateless nodes with the same op, inputs and attributes.
Status merge_common_subexpressions(FunctionBody& body);
// Drops pure nodes of which no value is read: others only wait for them, and from now on for what they waited for. So
// TensorFlow's programs ask for the gradients of a layer: that of the first layer's input is computed for nobody.
Status drop_unread(FunctionBody& body);
// Takes out of v1 loops what each iteration would do anew with a value that stays the same: transposing the second
// operand of a MatMul, if it is of a moderate size.
Status hoist(FunctionBody& body);
// Values of v1 loops that are handed on only when others are there too, as TensorFlow's programs gate the gradients of
// a node, wait for what those others are made of instead: so that each can be fused with what reads it, and an
// iteration has fewer nodes. Gates outside of loops stay: they also order the gradients of layers, and so how long
// activations are kept.
Status open_gates(FunctionBody& body);
// MatMul + BiasAdd (or Add of a vector) + activation becomes _FusedMatMul; MatMul + Add to what a v1 loop hands on
// _MatMulAdd; Conv2D + BiasAdd _FusedConv2D; another BiasAdd + activation _FusedBiasAdd; the gradients of a MaxPool,
// the Relu before it and a bias before that _MaxPoolReluGrad; Relu + MaxPool the same the other way round; chains of
// element-wise ops _FusedElementwise.
Status fuse(FunctionBody& body);
// The attribute by which inline_functions notes, on stateful nodes, the calls that a node came out of: two nodes of
// one name that came different ways are two nodes.
inline constexpr std::string_view kInlinedFrom = "_inlined_from";

// Puts the bodies of PartitionedCall and StatefulPartitionedCall, and of nodes that call a function by
// name, in their place.
Status inline_functions(FunctionBody& body);

// Which nodes lower_control_flow rewrites.
enum class Lowering {
  kAcrossTasks,  // those whose functions ask for devices of other tasks than the node's, or use handles of others
  // An If or Case of TensorFlow's graph mode whose branches have effects that no result that is read needs. They do not
  // happen: TensorFlow puts the branches into the graph and prunes it.
  kUnneededEffects,
  kAll,
};
// Puts the functions of If, Case and While nodes (and their stateless forms) in their place, between Switch and Merge
// nodes and in v1 loops, so that a cut may go through them. Functions that call themselves stay whole. Their effects
// are kept, but for kUnneededEffects.
Status lower_control_flow(FunctionBody& body, Lowering which);

// The part of a cut that a device belongs to.
using PartOf = std::function<std::string(const std::string& device)>;
// Before a body is cut: makes control edges between parts few and direct. Who waits for a NoOp of another part that
// itself waits for several parts waits for those, without the detour; who waits for several nodes of one part waits for
// one NoOp after them, of which the news comes once. NoOps that nothing waits for any more go. Bodies with branches or
// loops stay as they are. REQUIRES: all nodes have an assigned device.
Status join_controls(FunctionBody& body, const PartOf& part_of);

// Those that `options` has on, in the order that suits them.
Status run_passes(FunctionBody& body, const PassOptions& options, ConstantEvaluator& evaluator);

}  // namespace tutti
