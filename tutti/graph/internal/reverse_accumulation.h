// Reverse accumulation over one region of a graph: what is outside of every v1 loop, or one loop's body.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/internal/graph_savepoint.h"
#include "tutti/graph/internal/output_hash.h"
#include "tutti/graph/internal/v1_control_flow.h"

namespace tutti::internal {

// What the regions of one call of gradients() have in common.
struct GradientCall {
  GradientCall(Graph& g, const GradientOptions& o, GraphSavepoint& s)
      : graph(g), options(o), savepoint(s), first_new_id(s.first_new_id()) {}

  // Whether the node belongs to what is differentiated, not to the gradients.
  bool is_forward(const Node& node) const { return node.id() < first_new_id || new_forward.contains(&node); }
  // A node that lives exactly when the value does. (Of a Switch, which lives on both sides, an Identity behind it.)
  Node& gate(Output value);

  Graph& graph;
  const GradientOptions& options;
  GraphSavepoint& savepoint;
  const int first_new_id;
  std::unordered_set<const Node*> new_forward;  // nodes that the gradients needed there
  std::unique_ptr<V1ControlFlow> control_flow;  // once some was met
  std::unordered_map<Output, Node*, OutputHash> gates;
};

// How it goes:
//  1. From ys backwards over the edges that can carry a gradient: the reachable nodes, sources first. A v1 loop counts
//     as one node, of which the LoopCond stands for the whole. (Where clients do not write such loops, each of its
//     Exits does, and gradients that arrive there are refused.)
//  2. Forwards over those: the active nodes, which depend on an x.
//  3. Backwards over the active nodes: sum what arrived at each output, call the node's gradient function, hand its
//     results to the producers of the inputs. A value is complete when its producer is reached, because every
//     consumer comes later in the order.
//
// The gradient of a value lives exactly when the value does: in branches of v1 conditionals both are dead when the
// branch is not taken. A gradient function knows nothing of that, nor of loops. So what it made is adopted: nodes
// without inputs are made to wait for the gradient that came in, and in a loop's body values of the forward loop are
// replaced by what the backward loop has in their place.
class ReverseAccumulation {
 public:
  // Gives, for a value of the forward loop, what the backward loop has for it.
  using Reader = std::function<Output(Output)>;

  // Outside of every loop.
  ReverseAccumulation(GradientCall& call, const std::vector<Output>& xs);
  // A loop's body, which begins at `inputs`; xs are among them.
  ReverseAccumulation(GradientCall& call, const std::vector<Output>& xs, const std::vector<Output>& inputs, int frame,
                      Reader reader);

  // Of a body's inputs, each of which the next iteration has the value of `nexts` for (null: the same), those that
  // gradients get to from `from` and from which they get on to `to`, over any number of iterations. REQUIRES: run() is
  // not called on this object.
  std::vector<bool> between(const std::vector<Output>& inputs, const std::vector<Output>& nexts,
                            const std::vector<bool>& from, const std::vector<bool>& to);
  void run(const std::vector<Output>& ys, const std::vector<Output>& grad_ys);
  // REQUIRES: run() is done.
  Gradient gradient_of(Output x) { return collect(x); }

  // --- For gradients of loops in this region. ---
  // The value as gradients in this region read it.
  Output here(Output value) { return reader_ && call_.is_forward(*value.node) ? reader_(value) : value; }
  // As one tensor; null when there is none.
  Output dense(const Gradient& gradient);
  // zero_gradient, living when `anchor`, a value of this region's gradients, does.
  Output zeros(Output value, DType dtype, Output anchor);

 private:
  static constexpr int kNotSeen = -1;
  static constexpr int kEntered = -2;

  struct Key {
    bool operator()(const Output& a, const Output& b) const {
      return std::pair(a.node->id(), a.index) < std::pair(b.node->id(), b.index);
    }
  };

  // --- Which nodes ---
  Node& unit_of(Node& node) const;
  std::span<const Output> inputs_of(const Node& unit) const;
  bool is_active(Node& node) const;
  // Whether gradients pass from this value on to the node that made it.
  bool passes(Output value) const { return !stopped_.contains(value); }
  bool wants(Output value) const;
  bool ends_here(const Node& node) const;
  // Whether gradients may go on to that input. Those within an iteration do not go on to the one before.
  static bool leads_on(Output input, const Node& unit) { return input && !is_back_edge(*input.node, unit); }
  // An x inside of that loop; null when there is none.
  Output x_in(const Node& unit) const;
  void find_reachable(const std::vector<Output>& ys);
  void find_active();
  void find_control_flow(const std::vector<Output>& ys);
  // Throws where gradients cannot go through v1 control flow.
  void check_control_flow(const Node& unit) const;

  // --- Gradient functions ---
  const GradFn* find_override(const std::string& key) const;
  const GradFn* custom_gradient(const Node& node) const;
  const GradFn* gradient_function(const Node& node) const;
  Gradient collect(Output value);
  void differentiate(Node& unit);
  std::vector<Gradient> call_gradient_function(Node& node, const std::vector<Gradient>& output_grads,
                                               const std::vector<bool>& needed);
  Gradient switch_gradient(Node& node, const std::vector<Gradient>& output_grads);
  std::vector<Gradient> merge_gradients(Node& node, Output gradient);
  void differentiate_loop(Node& condition);
  void hand_over(Node& node, int i, Gradient gradient, const Branch* branch);

  // --- Adoption ---
  void adopt(int first, Output anchor, const Branch* branch, Node* source = nullptr);
  void keep_forward(Node& source, int first);
  bool reads_shapes_only(const Node& node) const;
  void read_here(Node& node, int first);
  const Branch* branch_of(Output value) const;

  GradientCall& call_;
  Graph& graph_;
  const int frame_;
  const Reader reader_;  // empty outside of loops
  std::set<Output, Key> xs_;
  std::set<Output, Key> stopped_;
  Output inside_y_;  // a y inside of a loop
  std::vector<Output> inside_xs_;
  std::vector<int> local_;    // by node id: position in order_
  std::vector<Node*> order_;  // reachable, sources first
  std::vector<bool> active_;  // by position
  std::unordered_map<Output, std::vector<Gradient>, OutputHash> arrived_;
};

// Adds a node without regard to the open scopes of devices and control dependencies.
Node& add_plain(Graph& graph, const std::string& op, std::vector<Output> inputs, AttrMap attrs = {},
                std::vector<Node*> after = {}, std::string device = "");

}  // namespace tutti::internal
