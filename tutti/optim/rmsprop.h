// RMSProp: ms = decay * ms + (1 - decay) * g²; mom = momentum * mom + learning_rate * g / sqrt(ms + epsilon); w -= mom.
#pragma once

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct RMSPropOptions {
  double decay = 0.9;
  double momentum = 0;
  double epsilon = 1e-10;
  bool centered = false;  // divides by the deviation instead: ms - mg², mg being the mean of g
};

class RMSProp : public SlotOptimizer {
 public:
  explicit RMSProp(Hyper learning_rate, RMSPropOptions options = {}, std::string name = "RMSProp")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> inputs(const Var& variable, Output gradient);

  const Hyper learning_rate_;
  const RMSPropOptions options_;
};

}  // namespace tutti
