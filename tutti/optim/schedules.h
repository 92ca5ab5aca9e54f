// Learning rates as functions of the global step, under TensorFlow's names and with its formulas. They build graph, and
// so every replica that reads the same step has the same rate. They throw Error.
//
// `step` is any real scalar, such as global_step.read(). A rate is of the type of `learning_rate` where that is a value
// of the graph, else float.
#pragma once

#include <string>
#include <vector>

#include "tutti/optim/optimizer.h"

namespace tutti {

struct DecayOptions {
  bool staircase = false;  // in whole periods: floor(step / decay_steps)
  std::string name = "";
};

// learning_rate decay_rate^(step / decay_steps)
Output exponential_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                         const DecayOptions& options = {});
// learning_rate exp(-decay_rate step / decay_steps)
Output natural_exp_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                         const DecayOptions& options = {});
// learning_rate / (1 + decay_rate step / decay_steps)
Output inverse_time_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, const Hyper& decay_rate,
                          const DecayOptions& options = {});

// values[0] up to and with step boundaries[0], values[1] up to and with boundaries[1]..., the last one after all.
// REQUIRES: one value more than boundaries, and boundaries in rising order (kInvalidArgument).
Output piecewise_constant(Output step, const std::vector<double>& boundaries, const std::vector<double>& values,
                          DType dtype = DType::kFloat, const std::string& name = "");

struct PolynomialDecayOptions {
  double end_learning_rate = 0.0001;
  double power = 1;
  bool cycle = false;  // after the end starts again, over the next whole multiple of decay_steps
  std::string name = "";
};
// (learning_rate - end) (1 - step / decay_steps)^power + end
Output polynomial_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps,
                        const PolynomialDecayOptions& options = {});

// learning_rate ((1 - alpha) (1 + cos(pi step / decay_steps)) / 2 + alpha); alpha is where it ends, as a fraction.
Output cosine_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps, double alpha = 0,
                    const std::string& name = "");

struct CosineRestartsOptions {
  double t_mul = 2;  // how much longer each period is than the one before; at least 1
  double m_mul = 1;  // how its start compares with the start of the one before
  double alpha = 0;
  std::string name = "";
};
Output cosine_decay_restarts(const Hyper& learning_rate, Output step, const Hyper& first_decay_steps,
                             const CosineRestartsOptions& options = {});

struct LinearCosineOptions {
  double num_periods = 0.5;
  double alpha = 0;
  double beta = 0.001;
  std::string name = "";
};
// learning_rate ((alpha + 1 - step / decay_steps) (1 + cos(2 pi num_periods step / decay_steps)) / 2 + beta)
Output linear_cosine_decay(const Hyper& learning_rate, Output step, const Hyper& decay_steps,
                           const LinearCosineOptions& options = {});

// A rate that rises in a line from `start` at step 0 to `learning_rate` at step `warmup_steps`, and is
// `learning_rate`, a number or another schedule, from there on. The target of the line is what the schedule says at the
// current step.
Output warm_up(const Hyper& learning_rate, Output step, const Hyper& warmup_steps, const Hyper& start = 0.0,
               const std::string& name = "");

// k times the batch, k times the rate: base_rate * (workers * batch_per_worker) / base_batch.
double linear_scaling_rule(std::int64_t workers, std::int64_t batch_per_worker, double base_rate = 0.1,
                           std::int64_t base_batch = 256);

}  // namespace tutti
