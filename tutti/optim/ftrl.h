// Follow the regularised leader (FTRL-proximal).
#pragma once

#include "tutti/optim/optimizer.h"

namespace tutti {

struct FtrlOptions {
  double learning_rate_power = -0.5;
  double initial_accumulator_value = 0.1;
  double l1_regularization_strength = 0;
  double l2_regularization_strength = 0;
};

class Ftrl : public Optimizer {
 public:
  explicit Ftrl(Hyper learning_rate, FtrlOptions options = {}, std::string name = "Ftrl")
      : Optimizer(std::move(name)), learning_rate_(learning_rate), options_(options) {}

 protected:
  Node* update_dense(const Var& variable, Output gradient) override;
  Node* update_rows(const Var& variable, const IndexedSlices& rows) override;

 private:
  std::vector<Output> slots_of(const Var& variable);
  std::vector<Output> hypers_of(const Var& variable);

  const Hyper learning_rate_;
  const FtrlOptions options_;
};

}  // namespace tutti
