// Adadelta: step sizes from running means of squares of gradients and of the steps themselves.
//   a = rho a + (1 - rho) g²;  s = g sqrt(u + epsilon) / sqrt(a + epsilon);  u = rho u + (1 - rho) s²
//   w -= learning_rate s
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct AdadeltaOptions {
  double rho = 0.95;
  double epsilon = 1e-8;
};

class Adadelta : public SlotOptimizer {
 public:
  explicit Adadelta(Hyper learning_rate = 0.001, AdadeltaOptions options = {}, std::string name = "Adadelta")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> inputs(const Var& variable, Output gradient);

  const Hyper learning_rate_;
  const AdadeltaOptions options_;
};

}  // namespace tutti
