// Arrays as numpy.save writes them (format versions 1 to 3, little-endian, C order).
#pragma once

#include <string_view>

#include "tutti/core/status.h"
#include "tutti/core/tensor.h"

namespace tutti::interop {

// Errors say what in the header or the size is not understood.
Result<Tensor> parse_npy(std::string_view bytes);

}  // namespace tutti::interop
