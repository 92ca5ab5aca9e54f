// Gradients of v1 loops.
#pragma once

#include <vector>

#include "tutti/graph/internal/reverse_accumulation.h"

namespace tutti::internal {

// The gradients of the loop's inputs, by position in `loop.inputs`; empty where nothing flows or none is needed.
// `region` is what the loop is in, `exit_grads` (one at least) are those of the variables' last values, `needed` says
// of which inputs. Throws Error.
std::vector<Gradient> loop_gradients(GradientCall& call, ReverseAccumulation& region, const Loop& loop,
                                     const std::vector<Gradient>& exit_grads, const std::vector<bool>& needed);

}  // namespace tutti::internal
