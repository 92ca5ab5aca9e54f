// Proximal Adagrad: Adagrad's step, then a pull towards zero by l1 and l2 at Adagrad's rate of each element.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct ProximalAdagradOptions {
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
};

class ProximalAdagrad : public SlotOptimizer {
 public:
  explicit ProximalAdagrad(Hyper learning_rate, ProximalAdagradOptions options = {},
                           std::string name = "ProximalAdagrad")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> inputs(const Var& variable, Output gradient);

  const Hyper learning_rate_;
  const ProximalAdagradOptions options_;
};

}  // namespace tutti
