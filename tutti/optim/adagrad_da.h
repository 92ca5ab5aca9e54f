// Adagrad with dual averaging: a weight follows from the sum of all its gradients, so that l1 makes many exactly zero.
//   s += g;  a += g²;  w = -learning_rate sign(s) max(|s| - l1 t, 0) / (learning_rate l2 t + sqrt(a))
// where t is the global step, counted from one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct AdagradDAOptions {
  double initial_gradient_squared_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
};

class AdagradDA : public SlotOptimizer {
 public:
  // Throws Error unless the initial value of the accumulator is positive.
  AdagradDA(Hyper learning_rate, const Var& global_step, AdagradDAOptions options = {}, std::string name = "AdagradDA");

 protected:
  void prepare(const std::vector<Var>& variables) override;
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> slots_of(const Var& variable);
  std::vector<Output> hypers_of(const Var& variable);

  const Hyper learning_rate_;
  const Var global_step_;
  const AdagradDAOptions options_;
  Output step_;  // of this update, from one
};

}  // namespace tutti
