// What a traced step tells about itself, in TensorFlow's form.
#pragma once

#include <string>

#include "tutti/runtime/step_stats.h"

namespace tutti {

// The bytes of a RunMetadata with these times.
std::string run_metadata_bytes(const StepStats& stats);

}  // namespace tutti
