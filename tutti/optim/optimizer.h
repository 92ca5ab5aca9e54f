// Optimisers: from a loss to the nodes that update variables. They build graphs and run nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/graph.h"
#include "tutti/ops/state.h"

namespace tutti {

// A hyper-parameter: a number, or a value of the graph (a schedule, a placeholder).
class Hyper {
 public:
  Hyper(double number) : number_(number) {}  // NOLINT: implicit
  Hyper(Output value) : value_(value) {}     // NOLINT: implicit

  // As a scalar of `graph`.
  Output in(Graph& graph, DType dtype, const std::string& name) const;

 private:
  double number_ = 0;
  Output value_;
};

struct GradientAndVariable {
  Gradient gradient;  // empty: the loss does not depend on the variable
  Var variable;
};

// What optimisers share. Not thread-safe, as graphs are not. An optimiser serves one graph at a time; used twice
// on a graph, it shares its slots (momenta and the like) between the uses.
//
// All throw Error.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // One training step: gradients of `loss`, updates of `variables` (none given: all trainable ones of the graph).
  // `global_step`, where given, grows by one after all updates. Returns the node to run.
  // Errors: no variable at all, no variable that the loss depends on.
  Node* minimize(Output loss, const std::vector<Var>& variables = {}, const std::optional<Var>& global_step = {});

  // The two halves of minimize, for those who change gradients in between.
  std::vector<GradientAndVariable> compute_gradients(Output loss, const std::vector<Var>& variables = {},
                                                     const GradientOptions& options = {});
  Node* apply_gradients(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step = {});

  // The variables the optimiser keeps for itself, in order of their making.
  const std::vector<Var>& slots() const { return made_; }
  const std::string& name() const { return name_; }

 protected:
  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  // Called for every apply_gradients, before the updates; `variables` get one each.
  virtual void prepare(const std::vector<Var>& /*variables*/) {}
  virtual Node* update_dense(const Var& variable, Output gradient) = 0;
  // `rows` are distinct. The default makes the gradient dense.
  virtual Node* update_rows(const Var& variable, const IndexedSlices& rows);
  // Rows may repeat: the default sums those and calls update_rows.
  virtual Node* update_sparse(const Var& variable, const IndexedSlices& slices);
  // Called after the updates, in a scope that waits for them.
  virtual std::vector<Node*> finish() { return {}; }

  // The slot `which` of a variable: same shape and type, on its device, called "w/Name", "w/Name_1"...; made on
  // first use, filled with `initial`.
  Var slot(const Var& variable, const std::string& which, double initial);
  // A scalar of the optimiser's own beside `variable`.
  Var scalar_beside(const Var& variable, const std::string& name, double initial);
  // Whether the graph's ops include this one (sparse updates are optional).
  static bool has_op(const Graph& graph, std::string_view op) { return graph.ops().find(op) != nullptr; }
  // A hyper-parameter as a value beside `variable`, made once for each apply_gradients, type and device.
  Output hyper(const Var& variable, const std::string& name, const Hyper& value);

 private:
  Node* update(const Var& variable, const Gradient& gradient);
  Var make_variable(const Var& beside, const std::string& name, const Shape& shape, double initial);
  void enter(Graph& graph);

  const std::string name_;
  Graph* graph_ = nullptr;                                    // the one the members below belong to
  std::map<std::pair<std::string, std::string>, Var> slots_;  // by variable and slot
  std::vector<Var> made_;
  std::map<std::tuple<std::string, DType, std::string>, Output> hypers_;  // of the apply_gradients under way
};

}  // namespace tutti
