// What optimisers share that keep slots (momenta and the like) beside variables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tutti/optim/optimizer.h"

namespace tutti {

// A subclass gives the update of one variable. An optimiser serves one graph at a time; used twice on a graph, it
// shares its slots between the uses.
//
// Slots have TensorFlow's names ("w/Adam", "w/Adam_1": a checkpoint fits both), lie beside their variable (`_class`
// says loc:@w, so they follow it to whatever task it is placed on), and of a part of a partitioned variable know which
// part they are (ops/slice_info.h).
class SlotOptimizer : public Optimizer {
 public:
  const std::vector<Var>& slots() const override { return made_; }
  std::optional<Var> get_slot(const Var& variable, const std::string& which) const override;

 protected:
  explicit SlotOptimizer(std::string name) : Optimizer(std::move(name)) {}

  // Called for every apply_gradients, before the updates; `variables` get one each.
  virtual void prepare(const std::vector<Var>& /*variables*/) {}
  // One node for each pair, which all have a gradient. The default calls `update` for each.
  virtual std::vector<Node*> update_all(const std::vector<GradientAndVariable>& pairs);
  virtual Node* update_dense(const Var& variable, Output gradient) = 0;
  // `rows` are distinct. The default makes the gradient dense.
  virtual Node* update_rows(const Var& variable, const IndexedSlices& rows);
  // Rows may repeat: the default sums those and calls update_rows.
  virtual Node* update_sparse(const Var& variable, const IndexedSlices& slices);
  // Called after the updates, in a scope that waits for them.
  virtual std::vector<Node*> finish() { return {}; }

  // The slot `which` of a variable: same shape and type, beside it, called "w/Name", "w/Name_1"...; made on first use,
  // filled with `initial`. `slot_name`, where given, takes the place of the optimiser's name.
  Var slot(const Var& variable, const std::string& which, double initial, const std::string& slot_name = "");
  // A scalar of the optimiser's own beside `variable`, under the name scope that apply_gradients was called in: a
  // double where the variable is one, else a float.
  Var scalar_beside(const Var& variable, const std::string& name, double initial);
  // Of these, the one whose name sorts first: where the scalars go, so that every replica agrees on the place.
  static const Var& first_by_name(const std::vector<Var>& variables);
  // A hyper-parameter as a value beside `variable`, made once for each apply_gradients, type and device.
  Output hyper(const Var& variable, const std::string& name, const Hyper& value);
  // Under the name scope and beside the variable, as updates are.
  Node* update(const Var& variable, const Gradient& gradient);

 private:
  Node* apply(const std::vector<GradientAndVariable>& gradients, const std::optional<Var>& global_step,
              const std::string& name) override;
  Var keep(std::pair<std::string, std::string> key, const Var& made);
  void enter(Graph& graph);

  Graph* graph_ = nullptr;                                    // the one the members below belong to
  std::string outer_scope_;                                   // open when apply_gradients was called
  std::map<std::pair<std::string, std::string>, Var> slots_;  // by variable and slot
  std::vector<Var> made_;
  std::map<std::tuple<std::string, DType, std::string>, Output> hypers_;  // of the apply_gradients under way
};

}  // namespace tutti
