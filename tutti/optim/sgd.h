// Stochastic gradient descent: w -= learning_rate * g.
#pragma once

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

class SGD : public SlotOptimizer {
 public:
  explicit SGD(Hyper learning_rate, std::string name = "GradientDescent")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_sparse(const Var& variable, const IndexedSlices& slices) override;

 private:
  const Hyper learning_rate_;
};

}  // namespace tutti
