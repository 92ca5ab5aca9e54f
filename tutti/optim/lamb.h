// LAMB: Adam's direction for large batches, each layer's step in proportion to the norm of its weights.
//   m, v as in Adam;  r = (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon) + weight_decay w
//   w -= learning_rate |w| / |r| r
// Norms are of whole variables, however they are partitioned.
#pragma once

#include <functional>

#include "tutti/optim/adam.h"

namespace tutti {

struct LAMBOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-6;
  // Which variables decay and whose steps are scaled; all where it is empty.
  std::function<bool(const Var&)> decays = {};
  std::function<bool(const Var&)> adapts = {};
};

class LAMB : public Adam {
 public:
  explicit LAMB(Hyper learning_rate = 0.001, Hyper weight_decay = 0.0, LAMBOptions options = {},
                std::string name = "LAMB")
      : Adam(learning_rate, {options.beta1, options.beta2, options.epsilon}, std::move(name)),
        weight_decay_(weight_decay),
        options_(std::move(options)) {}

 protected:
  std::vector<Node*> update_all(const std::vector<GradientAndVariable>& pairs) override;
  Node* update_dense(const Var& variable, Output gradient) override;

 private:
  struct Step {
    Var variable;
    Output direction;
    std::vector<Node*> assigns;
  };
  Step step_of(const Var& variable, Output gradient);

  const Hyper weight_decay_;
  const LAMBOptions options_;
};

}  // namespace tutti
