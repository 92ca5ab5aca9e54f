#include "tutti/optim/clipping.h"

#include <cmath>
#include <limits>

#include "tutti/ops/array.h"
#include "tutti/ops/nn.h"
#include "tutti/optim/internal/map_gradients.h"

namespace tutti {
namespace {

ScopeGuard open_scope(Graph& graph, const std::string& name, const char* otherwise) {
  return graph.name_scope(name.empty() ? otherwise : name);
}

std::vector<Output> values_of(const std::vector<Gradient>& gradients) {
  std::vector<Output> values;
  for (const Gradient& gradient : gradients) {
    if (gradient) values.push_back(gradient_values(gradient));
  }
  if (values.empty()) throw_error(invalid_argument("global norm: there is no gradient"));
  return values;
}

}  // namespace

Output clip_by_norm(Output x, const Hyper& clip_norm, const std::optional<Ints>& axes, const std::string& name) {
  ScopeGuard scope = open_scope(x.graph(), name, "clip_by_norm");
  Output bound = clip_norm.in(x.graph(), x.dtype(), "clip_norm");
  Reduce over;
  over.axes = axes;
  over.keep_dims = axes.has_value();
  Output norm = sqrt(reduce_sum(square(x), over));
  return (x * bound) / maximum(norm, bound);
}

Output clip_by_average_norm(Output x, const Hyper& clip_norm, const std::string& name) {
  ScopeGuard scope = open_scope(x.graph(), name, "clip_by_average_norm");
  Output bound = clip_norm.in(x.graph(), x.dtype(), "clip_norm");
  Output inverse = rsqrt(reduce_sum(square(x))) * cast(size(x), x.dtype());
  return (x * bound) * minimum(inverse, 1.0 / bound);
}

// Each sum is taken beside its values: what travels is one number.
Output global_norm(const std::vector<Gradient>& gradients, const std::string& name) {
  const std::vector<Output> values = values_of(gradients);
  Graph& graph = values[0].graph();
  ScopeGuard scope = open_scope(graph, name, "global_norm");
  std::vector<Output> halves;
  for (Output value : values) {
    ScopeGuard beside = graph.colocate_with(*value.node);
    halves.push_back(cast(nn::l2_loss(value), values[0].dtype()));
  }
  return sqrt((halves.size() == 1 ? halves[0] : add_n(halves)) * 2.0);
}

ClippedGradients clip_by_global_norm(const std::vector<Gradient>& gradients, const Hyper& clip_norm, Output use_norm,
                                     const std::string& name) {
  Graph& graph = values_of(gradients)[0].graph();
  ScopeGuard scope = open_scope(graph, name, "clip_by_global_norm");
  Output norm = use_norm ? use_norm : global_norm(gradients);
  Output bound = clip_norm.in(graph, norm.dtype(), "clip_norm");
  Output scale = bound * minimum(1.0 / norm, 1.0 / bound);
  Output nan = constant(graph, std::numeric_limits<double>::quiet_NaN(), norm.dtype());
  scale = where(is_finite(norm), scale, nan);
  ClippedGradients clipped{{}, norm};
  for (const Gradient& gradient : gradients) {
    clipped.gradients.push_back(map_values(gradient, [&](Output values) {
      ScopeGuard beside = graph.colocate_with(*values.node);
      return values * cast(scale, values.dtype());
    }));
  }
  return clipped;
}

std::vector<GradientAndVariable> clip_by_value(const std::vector<GradientAndVariable>& pairs, double low, double high) {
  return map_gradients(pairs, "clip_by_value", [&](Output values) { return clip_by_value(values, low, high); });
}

std::vector<GradientAndVariable> clip_by_norm(const std::vector<GradientAndVariable>& pairs, const Hyper& clip_norm) {
  return map_gradients(pairs, "clip_gradients", [&](Output values) { return clip_by_norm(values, clip_norm); });
}

std::vector<GradientAndVariable> clip_by_average_norm(const std::vector<GradientAndVariable>& pairs,
                                                      const Hyper& clip_norm) {
  return map_gradients(pairs, "clip_gradients", [&](Output values) { return clip_by_average_norm(values, clip_norm); });
}

std::vector<GradientAndVariable> clip_by_global_norm(const std::vector<GradientAndVariable>& pairs,
                                                     const Hyper& clip_norm) {
  std::vector<Gradient> gradients;
  for (const GradientAndVariable& pair : pairs) gradients.push_back(pair.gradient);
  const ClippedGradients clipped = clip_by_global_norm(gradients, clip_norm);
  std::vector<GradientAndVariable> result;
  for (std::size_t i = 0; i < pairs.size(); ++i) result.push_back({clipped.gradients[i], pairs[i].variable});
  return result;
}

}  // namespace tutti
