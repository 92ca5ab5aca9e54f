// Adam with Nesterov momentum, as in Keras, with its schedule of momenta:
//   u_t = beta1 (1 - 0.96^(schedule_decay t) / 2);  m, v as in Adam
//   w -= learning_rate ((1 - u_t) g / (1 - u_1...u_t) + u_t+1 m / (1 - u_1...u_t+1)) / (sqrt(v / (1 - beta2^t)) +
//   epsilon)
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/optim/slot_optimizer.h"

namespace tutti {

struct NadamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-7;
  double schedule_decay = 0.004;
};

class Nadam : public SlotOptimizer {
 public:
  explicit Nadam(Hyper learning_rate = 0.001, NadamOptions options = {}, std::string name = "Nadam")
      : SlotOptimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  void prepare(const std::vector<Var>& variables) override;
  Node* update_dense(const Var& variable, Output gradient) override;
  // The slots of all rows decay; rows without a gradient stay as they are.
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;
  std::vector<Node*> finish() override;

 private:
  // The slots after this step, and their assignments.
  struct Moments {
    Output m, v;
    std::vector<Node*> assigns;
  };
  Moments moments(const Var& variable, Output gradient);
  // How far elements move that have this gradient and these moments.
  Output step(const Var& variable, Output gradient, Output m, Output v);
  double first_power() const;

  const Hyper learning_rate_;
  const NadamOptions options_;
  std::optional<Var> beta2_power_;
  std::optional<Var> schedule_power_;  // 0.96^(schedule_decay t)
  std::optional<Var> momentum_cache_;  // u_1...u_t-1
};

}  // namespace tutti
