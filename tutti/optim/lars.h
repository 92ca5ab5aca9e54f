// LARS: momentum for large batches, each layer's rate in proportion to the norm of its weights.
//   rate = learning_rate eeta |w| / (|g| + weight_decay |w| + epsilon)
//   a = momentum a + g + weight_decay w;  w -= rate a
// Norms are of whole variables, however they are partitioned.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct LARSOptions {
  double momentum = 0.9;
  double weight_decay = 1e-4;
  double eeta = 0.001;
  double epsilon = 0;
  bool use_nesterov = false;
  // Whose rate is scaled and who decays; all where it is empty. The others get plain momentum.
  std::function<bool(const Var&)> adapts = {};
};

class LARS : public SlotOptimizer {
 public:
  explicit LARS(Hyper learning_rate, LARSOptions options = {}, std::string name = "LARSOptimizer")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(std::move(options)) {}

 protected:
  std::vector<Node*> update_all(const std::vector<GradientAndVariable>& pairs) override;
  Node* update_dense(const Var& variable, Output gradient) override;

 private:
  Node* apply_momentum(const Var& variable, Output gradient, Output rate);

  const Hyper learning_rate_;
  const LARSOptions options_;
};

}  // namespace tutti
