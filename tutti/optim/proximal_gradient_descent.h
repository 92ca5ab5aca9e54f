// Proximal gradient descent: a plain step, then a pull towards zero by l1 and l2.
//   x = w - learning_rate g;  w = sign(x) max(|x| - learning_rate l1, 0) / (1 + learning_rate l2)
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct ProximalOptions {
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
};

class ProximalGradientDescent : public SlotOptimizer {
 public:
  explicit ProximalGradientDescent(Hyper learning_rate, ProximalOptions options = {},
                                   std::string name = "ProximalGradientDescent")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> inputs(const Var& variable, Output gradient);

  const Hyper learning_rate_;
  const ProximalOptions options_;
};

}  // namespace tutti
