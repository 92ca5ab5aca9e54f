// Gradient descent with momentum: a = momentum * a + g; w -= learning_rate * a.
#pragma once

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct MomentumOptions {
  bool use_nesterov = false;  // w -= learning_rate * (g + momentum * a)
};

class Momentum : public SlotOptimizer {
 public:
  Momentum(Hyper learning_rate, Hyper momentum, MomentumOptions options = {}, std::string name = "Momentum")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), momentum_(momentum), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  const Hyper learning_rate_;
  const Hyper momentum_;
  const MomentumOptions options_;
};

}  // namespace tutti
