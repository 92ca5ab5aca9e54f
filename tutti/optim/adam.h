// Adam, as in TensorFlow: epsilon stands outside the root, after the bias correction ("epsilon hat").
//   m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²
//   w -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

class Adam : public SlotOptimizer {
 public:
  explicit Adam(Hyper learning_rate = 0.001, AdamOptions options = {}, std::string name = "Adam")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  void prepare(const std::vector<Var>& variables) override;
  // Rows without a gradient move too, as their momenta decay: sparse gradients are made dense.
  Node* update_dense(const Var& variable, Output gradient) override;
  std::vector<Node*> finish() override;

  // beta1_power, beta2_power, learning_rate, beta1, beta2, epsilon: as the ops take them.
  std::vector<Output> hypers_of(const Var& variable);
  const Hyper& learning_rate() const { return learning_rate_; }

 private:
  const Hyper learning_rate_;
  const AdamOptions options_;
  std::optional<Var> beta1_power_;  // beta1 to the power of the steps so far, and of this one
  std::optional<Var> beta2_power_;
};

}  // namespace tutti
