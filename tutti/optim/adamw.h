// Adam with decoupled weight decay: w -= learning_rate * weight_decay * w, then Adam's step.
#pragma once

#include <functional>

#include "tutti/optim/adam.h"

namespace tutti {

struct AdamWOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  // False: w -= weight_decay * w, whatever the learning rate, as in TensorFlow's contrib and in the paper.
  bool scaled_by_learning_rate = true;
  // Which variables decay; all where it is empty. Biases and the scales of normalisations are often left out.
  std::function<bool(const Var&)> decays = {};
};

class AdamW : public Adam {
 public:
  explicit AdamW(Hyper learning_rate = 0.001, Hyper weight_decay = 0.004, AdamWOptions options = {},
                 std::string name = "AdamW")
      : Adam(learning_rate, {options.beta1, options.beta2, options.epsilon}, std::move(name)),
        weight_decay_(weight_decay),
        options_(std::move(options)) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;

 private:
  const Hyper weight_decay_;
  const AdamWOptions options_;
};

}  // namespace tutti
