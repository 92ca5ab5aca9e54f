// Optimisers: from a loss to the nodes that update variables. They build graphs and run nothing.
#pragma once

#include <optional>
#include <string>
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
  // The value of the graph; empty where it is a number.
  Output value() const { return value_; }

 private:
  double number_ = 0;
  Output value_;
};

struct GradientAndVariable {
  Gradient gradient;  // empty: the loss does not depend on the variable
  Var variable;
};

// What every optimiser can do, those that wrap another included. A subclass says how gradients are applied, and may
// change how they are computed; optim/slot_optimizer.h has what plain ones share. Not thread-safe, as graphs are not.
//
// All throw Error.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  // One training step: gradients of `loss`, updates of `variables` (none given: all trainable ones of the graph).
  // `global_step`, where given, grows by one after all updates. Returns the node to run, called `name` (none given:
  // as the optimiser), which is also noted in the graph's collection "train_op".
  // Errors: no variable at all, no variable that the loss depends on.
  Node* minimize(Output loss, const std::vector<Var>& variables = {}, const std::optional<Var>& global_step = {},
                 const std::string& name = "");

  // The two halves of minimize, for those who change gradients in between.
  std::vector<GradientAndVariable> compute_gradients(Output loss, const std::vector<Var>& variables = {},
                                                     const GradientOptions& options = {});
  Node* apply_gradients(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step = {},
                        const std::string& name = "");

  // The variables the optimiser keeps for itself, in order of their making.
  virtual const std::vector<Var>& slots() const = 0;
  // The slot of a variable by its role ("m", "momentum"); none when there is none.
  virtual std::optional<Var> get_slot(const Var& variable, const std::string& which) const = 0;
  const std::string& name() const { return name_; }

 protected:
  explicit Optimizer(std::string name) : name_(std::move(name)) {}

  // What compute_gradients does for `variables`: at least one, all of a type that has gradients.
  virtual std::vector<GradientAndVariable> compute(Output loss, const std::vector<Var>& variables,
                                                   const GradientOptions& options);
  // What apply_gradients does. At least one gradient is there.
  virtual Node* apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
                      const std::string& name) = 0;

 private:
  const std::string name_;
};

// The pairs that have a gradient.
std::vector<GradientAndVariable> with_gradient(const std::vector<GradientAndVariable>& pairs);

// The same gradients, none of which is there before all are (TensorFlow's GATE_GRAPH).
std::vector<GradientAndVariable> gate_gradients(const std::vector<GradientAndVariable>& pairs);

// Sums the rows of each index, so that every index comes once.
IndexedSlices without_repeats(const IndexedSlices& slices);

}  // namespace tutti
