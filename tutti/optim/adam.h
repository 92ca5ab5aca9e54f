// Adam, as in TensorFlow: epsilon stands outside the root, after the bias correction ("epsilon hat").
#pragma once

#include "tutti/optim/optimizer.h"

namespace tutti {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

class Adam : public Optimizer {
 public:
  explicit Adam(Hyper learning_rate = 0.001, AdamOptions options = {}, std::string name = "Adam")
      : Optimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  void prepare(const std::vector<Var>& variables) override;
  // Rows without a gradient move too, as their momenta decay: sparse gradients are made dense.
  Node* update_dense(const Var& variable, Output gradient) override;
  std::vector<Node*> finish() override;

 private:
  const Hyper learning_rate_;
  const AdamOptions options_;
  std::optional<Var> beta1_power_;  // beta1 to the power of the steps so far
  std::optional<Var> beta2_power_;
};

}  // namespace tutti
