// Adagrad: a += g²; w -= learning_rate * g / sqrt(a).
#pragma once

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct AdagradOptions {
  double initial_accumulator_value = 0.1;
};

class Adagrad : public SlotOptimizer {
 public:
  explicit Adagrad(Hyper learning_rate, AdagradOptions options = {}, std::string name = "Adagrad")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  Output accumulator(const Var& variable) {
    return slot(variable, "accumulator", options_.initial_accumulator_value).handle();
  }

  const Hyper learning_rate_;
  const AdagradOptions options_;
};

}  // namespace tutti
