// Tensors as text, the way TensorFlow prints them: Assert, Print and StringFormat put it into messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tutti/core/tensor.h"

namespace tutti::cpu {

// "[1 2][3...]": the first `limit` elements (all when negative), rows in brackets, the outermost pair left out.
std::string summary_of(const Tensor& tensor, std::int64_t limit);
// "[[1 2 ... 9]\n [1 2 ... 9]]": up to `at_ends` elements from both ends of every dimension (all when negative),
// strings quoted.
std::string nested_text_of(const Tensor& tensor, std::int64_t at_ends);

// As C source has them: quotes, backslashes and control characters escaped, other bytes as they are.
std::string escaped(std::string_view text);

// As many digits as it takes to read the same value back.
std::string number_text(float value);
std::string number_text(double value);

}  // namespace tutti::cpu
