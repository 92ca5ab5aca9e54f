#include "tutti/optim/gradient_noise.h"

#include <cmath>

#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/optim/internal/map_gradients.h"

namespace tutti {

std::vector<GradientAndVariable> add_gradient_noise(const std::vector<GradientAndVariable>& pairs, Output step,
                                                    const GradientNoiseOptions& options) {
  if (!(options.eta >= 0)) throw_error(invalid_argument("gradient noise: eta must not be negative: ", options.eta));
  if (!step) throw_error(invalid_argument("gradient noise: the step is empty"));
  Graph& graph = step.graph();
  ScopeGuard scope = graph.name_scope("gradient_noise");
  // In double: a float does not tell steps over 2^24 apart.
  Output age = 1.0 + cast(step, DType::kDouble);
  Output deviation = pow(age, constant(graph, -options.gamma / 2, DType::kDouble)) * std::sqrt(options.eta);
  Seeds seeds = options.seeds;
  const bool seeded = seeds.seed != 0 || seeds.seed2 != 0;
  return map_gradients(pairs, "noise", [&](Output values) {
    if (seeded) ++seeds.seed2;
    Output noise = random_normal(graph, shape_of(values), values.dtype(), 0, 1, seeds);
    return values + noise * cast(deviation, values.dtype());
  });
}

}  // namespace tutti
