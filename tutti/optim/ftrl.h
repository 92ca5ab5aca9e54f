// Follow the regularised leader (FTRL-proximal).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct FtrlOptions {
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
  // A penalty on the size of weights that, unlike l2, does not stabilise: it is added to the gradient.
  double l2_shrinkage_regularization_strength = 0;
  double beta = 0;  // adds beta / (2 learning_rate) to l2, as the paper has it
  // Of the slots, in place of the optimiser's name.
  std::string accum_name = "";
  std::string linear_name = "";
};

class Ftrl : public SlotOptimizer {
 public:
  explicit Ftrl(Hyper learning_rate, FtrlOptions options = {}, std::string name = "Ftrl")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(std::move(options)) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> slots_of(const Var& variable);
  std::vector<Output> hypers_of(const Var& variable);
  bool shrinks() const { return options_.l2_shrinkage_regularization_strength > 0; }

  const Hyper learning_rate_;
  const FtrlOptions options_;
};

}  // namespace tutti
