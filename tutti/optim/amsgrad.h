// Adam that never forgets how large gradients were: it divides by the root of the largest v so far.
//   m, v as in Adam;  v_hat = max(v_hat, v)
//   w -= learning_rate sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v_hat) + epsilon)
#pragma once

#include "tutti/optim/adam.h"

namespace tutti {

class AMSGrad : public Adam {
 public:
  explicit AMSGrad(Hyper learning_rate = 0.001, AdamOptions options = {}, std::string name = "AMSGrad")
      : Adam(learning_rate, options, std::move(name)) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
};

}  // namespace tutti
