#include "tutti/optim/nadam.h"

#include <cmath>

#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/graph_helpers.h"

namespace tutti {
namespace {

// u of a step, given 0.96^(schedule_decay t).
Output momentum_at(Output beta1, Output power) { return beta1 * (1.0 - power * 0.5); }

}  // namespace

double Nadam::first_power() const { return std::pow(0.96, options_.schedule_decay); }

void Nadam::prepare(const std::vector<Var>& variables) {
  const Var& first = first_by_name(variables);
  beta2_power_ = scalar_beside(first, "beta2_power", options_.beta2);
  schedule_power_ = scalar_beside(first, "schedule_power", first_power());
  momentum_cache_ = scalar_beside(first, "momentum_cache", 1);
}

Nadam::Moments Nadam::moments(const Var& variable, Output gradient) {
  const Var m = slot(variable, "m", 0);
  const Var v = slot(variable, "v", 0);
  Output beta1 = hyper(variable, "beta1", options_.beta1);
  Output beta2 = hyper(variable, "beta2", options_.beta2);
  Output new_m = m.read_again() * beta1 + gradient * (1.0 - beta1);
  Output new_v = v.read_again() * beta2 + square(gradient) * (1.0 - beta2);
  return {new_m, new_v, {m.assign(new_m), v.assign(new_v)}};
}

Output Nadam::step(const Var& variable, Output gradient, Output m, Output v) {
  const DType dtype = variable.dtype();
  Output beta1 = hyper(variable, "beta1", options_.beta1);
  Output power = cast(schedule_power_->read(), dtype);
  Output now = momentum_at(beta1, power);
  Output next = momentum_at(beta1, power * first_power());
  Output product = cast(momentum_cache_->read(), dtype) * now;
  Output direction = (1.0 - now) * (gradient / (1.0 - product)) + next * (m / (1.0 - product * next));
  Output size = sqrt(v / (1.0 - cast(beta2_power_->read(), dtype)));
  return hyper(variable, "learning_rate", learning_rate_) * direction /
         (size + hyper(variable, "epsilon", options_.epsilon));
}

Node* Nadam::update_dense(const Var& variable, Output gradient) {
  Moments after = moments(variable, gradient);
  after.assigns.push_back(variable.assign_sub(step(variable, gradient, after.m, after.v)));
  return group(gradient.graph(), after.assigns);
}

Node* Nadam::update_rows(const Var& variable, const IndexedSlices& rows) {
  Moments after = moments(variable, Gradient(rows).dense());
  Output moved = step(variable, rows.values, gather(after.m, rows.indices), gather(after.v, rows.indices));
  after.assigns.push_back(subtract_rows(variable, rows.indices, moved));
  return group(rows.values.graph(), after.assigns);
}

std::vector<Node*> Nadam::finish() {
  const Var& cache = *momentum_cache_;
  Output used = momentum_at(hyper(cache, "beta1", options_.beta1), schedule_power_->read());
  return {multiply_in_place(*beta2_power_, hyper(*beta2_power_, "beta2", options_.beta2)),
          multiply_in_place(*schedule_power_, hyper(*schedule_power_, "schedule_decay", first_power())),
          multiply_in_place(cache, used)};
}

}  // namespace tutti
