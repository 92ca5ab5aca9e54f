// Gradients held within bounds, with TensorFlow's formulas. They throw Error.
//
// Of a sparse gradient the values are clipped as they are, rows that repeat included, as in TensorFlow.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tutti/ops/math.h"
#include "tutti/optim/optimizer.h"

namespace tutti {

// --- Values. clip_by_value of a value is in ops/math.h. ---
// x scaled so that its L2 norm, over `axes` or of all of it, is at most `clip_norm`.
Output clip_by_norm(Output x, const Hyper& clip_norm, const std::optional<Ints>& axes = {},
                    const std::string& name = "");
// x scaled so that its norm divided by its number of elements is at most `clip_norm`.
Output clip_by_average_norm(Output x, const Hyper& clip_norm, const std::string& name = "");

// --- Gradients together. Empty ones do not count. ---
// The norm of all of them as one vector. REQUIRES: at least one (kInvalidArgument).
Output global_norm(const std::vector<Gradient>& gradients, const std::string& name = "");

struct ClippedGradients {
  std::vector<Gradient> gradients;
  Output global_norm;  // before clipping
};
// All scaled by clip_norm / max(norm, clip_norm), where norm is the global one, or `use_norm` where that is given. When
// it is not finite, all become NaN.
ClippedGradients clip_by_global_norm(const std::vector<Gradient>& gradients, const Hyper& clip_norm,
                                     Output use_norm = {}, const std::string& name = "");

// --- Between compute_gradients and apply_gradients. ---
std::vector<GradientAndVariable> clip_by_value(const std::vector<GradientAndVariable>& pairs, double low, double high);
std::vector<GradientAndVariable> clip_by_norm(const std::vector<GradientAndVariable>& pairs, const Hyper& clip_norm);
std::vector<GradientAndVariable> clip_by_average_norm(const std::vector<GradientAndVariable>& pairs,
                                                      const Hyper& clip_norm);
std::vector<GradientAndVariable> clip_by_global_norm(const std::vector<GradientAndVariable>& pairs,
                                                     const Hyper& clip_norm);

}  // namespace tutti
