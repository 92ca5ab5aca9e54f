#include "tutti/optim/adamw.h"

#include "tutti/ops/math.h"

namespace tutti {

Node* AdamW::update_dense(const Var& variable, Output gradient) {
  Node* step = Adam::update_dense(variable, gradient);
  if (options_.decays && !options_.decays(variable)) return step;
  Output rate = hyper(variable, "weight_decay", weight_decay_);
  if (options_.scaled_by_learning_rate) rate = mul(rate, hyper(variable, "learning_rate", learning_rate()));
  Node* decay = variable.assign_sub(mul(variable.read_again(), rate));
  gradient.graph().add_control_input(*step, *decay);
  return step;
}

}  // namespace tutti
