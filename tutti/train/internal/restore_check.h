// Whether a checkpoint fits the variables, before any of them changes.
#pragma once

#include <vector>

#include "tutti/core/status.h"

namespace tutti {

class CheckpointReader;

namespace internal {

struct SavedVariable;

// kNotFound or kInvalidArgument, naming the variable, the checkpoint, and what each of them has. `reshape`: only the
// numbers of elements must agree.
Status check_restorable(const CheckpointReader& reader, const std::vector<SavedVariable>& variables, bool reshape);

}  // namespace internal
}  // namespace tutti
