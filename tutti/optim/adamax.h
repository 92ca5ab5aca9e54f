// AdaMax: Adam with the largest gradient, which fades, in place of the root mean square.
//   m = beta1 m + (1 - beta1) g;  v = max(beta2 v, |g|);  w -= learning_rate / (1 - beta1^t) * m / (v + epsilon)
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct AdamaxOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
};

class Adamax : public SlotOptimizer {
 public:
  explicit Adamax(Hyper learning_rate = 0.001, AdamaxOptions options = {}, std::string name = "Adamax")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  void prepare(const std::vector<Var>& variables) override;
  Node* update_dense(const Var& variable, Output gradient) override;
  // Rows without a gradient stay as they are, their slots too.
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;
  std::vector<Node*> finish() override;

 private:
  const Hyper learning_rate_;
  const AdamaxOptions options_;
  std::optional<Var> beta1_power_;
};

}  // namespace tutti
