// The same change made to each gradient of a list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tutti/optim/optimizer.h"

namespace tutti {

// The values of a gradient: all of a dense one, the rows of a sparse one.
inline Output gradient_values(const Gradient& gradient) {
  return gradient.is_sparse() ? gradient.slices().values : gradient.dense();
}

// With other values; empty where it is empty.
inline Gradient map_values(const Gradient& gradient, const std::function<Output(Output)>& change) {
  if (!gradient) return gradient;
  if (!gradient.is_sparse()) return change(gradient.dense());
  const IndexedSlices& slices = gradient.slices();
  return IndexedSlices{change(slices.values), slices.indices, slices.dense_shape};
}

// Under the name scope `name`.
inline std::vector<GradientAndVariable> map_gradients(const std::vector<GradientAndVariable>& pairs,
                                                      const std::string& name,
                                                      const std::function<Output(Output)>& change) {
  std::vector<GradientAndVariable> result;
  for (const GradientAndVariable& pair : pairs) {
    ScopeGuard scope = pair.variable.handle().graph().name_scope(name);
    result.push_back({map_values(pair.gradient, change), pair.variable});
  }
  return result;
}

}  // namespace tutti
