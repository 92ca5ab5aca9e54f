// Noise on gradients that fades as training goes on: g + N(0, eta / (1 + step)^gamma).
#pragma once

#include <vector>

#include "tutti/ops/random.h"
#include "tutti/optim/optimizer.h"

namespace tutti {

struct GradientNoiseOptions {
  double eta = 0.3;  // the variance at step 0
  double gamma = 0.55;
  // Replicas that are to draw different noise need different seeds; those of the variables follow from these.
  Seeds seeds = {};
};

// Between compute_gradients and apply_gradients. `step` is a real scalar, such as global_step.read(). Of a sparse
// gradient the rows that it has get noise. Throws Error on a negative eta.
std::vector<GradientAndVariable> add_gradient_noise(const std::vector<GradientAndVariable>& pairs, Output step,
                                                    const GradientNoiseOptions& options = {});

}  // namespace tutti
