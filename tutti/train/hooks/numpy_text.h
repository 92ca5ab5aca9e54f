// Tensors as numpy prints them.
#pragma once

#include <string>

#include "tutti/core/tensor.h"

namespace tutti {

// What Python's str() gives for the value that TensorFlow's session.run returns, with numpy's print option `suppress`:
// "0.25", "[1.  2.5]", "[[1 2]\n [3 4]]", "b'text'"; of more than a thousand elements the first and the last few.
std::string numpy_text(const Tensor& tensor);

}  // namespace tutti
