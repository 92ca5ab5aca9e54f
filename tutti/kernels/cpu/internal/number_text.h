// Numbers from text, as TensorFlow reads them: with white space around them, "inf" and "nan".
#pragma once

#include <cstdint>
#include <string_view>

namespace tutti::cpu::internal {

// False when the text is no such number, or an integer that does not fit.
bool number_from_text(std::string_view text, float* value);
bool number_from_text(std::string_view text, double* value);
bool number_from_text(std::string_view text, std::int32_t* value);
bool number_from_text(std::string_view text, std::int64_t* value);

}  // namespace tutti::cpu::internal
