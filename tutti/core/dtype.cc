#include "tutti/core/dtype.h"

#include <array>
#include <bit>

namespace tutti {

namespace {

enum class Family : std::uint8_t { kNone, kFloating, kComplex, kInteger, kQuantised, kObject };

struct Row {
  std::string_view name;
  std::uint8_t size;
  Family family;
};

// Indexed by wire number. The float8 types are storage only and belong to no family.
constexpr std::array<Row, kMaxDType + 1> kRows = {{
    {"invalid", 0, Family::kNone},
    {"float", 4, Family::kFloating},
    {"double", 8, Family::kFloating},
    {"int32", 4, Family::kInteger},
    {"uint8", 1, Family::kInteger},
    {"int16", 2, Family::kInteger},
    {"int8", 1, Family::kInteger},
    {"string", 0, Family::kObject},
    {"complex64", 8, Family::kComplex},
    {"int64", 8, Family::kInteger},
    {"bool", 1, Family::kNone},
    {"qint8", 1, Family::kQuantised},
    {"quint8", 1, Family::kQuantised},
    {"qint32", 4, Family::kQuantised},
    {"bfloat16", 2, Family::kFloating},
    {"qint16", 2, Family::kQuantised},
    {"quint16", 2, Family::kQuantised},
    {"uint16", 2, Family::kInteger},
    {"complex128", 16, Family::kComplex},
    {"half", 2, Family::kFloating},
    {"resource", 0, Family::kObject},
    {"variant", 0, Family::kObject},
    {"uint32", 4, Family::kInteger},
    {"uint64", 8, Family::kInteger},
    {"float8_e5m2", 1, Family::kNone},
    {"float8_e4m3fn", 1, Family::kNone},
    {"float8_e4m3fnuz", 1, Family::kNone},
    {"float8_e4m3b11fnuz", 1, Family::kNone},
    {"float8_e5m2fnuz", 1, Family::kNone},
    {"int4", 1, Family::kInteger},
    {"uint4", 1, Family::kInteger},
}};

// Numbers outside the table read as kInvalid.
const Row& row(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return kRows[number < kRows.size() ? number : 0];
}

}  // namespace

std::string EdgeType::to_string() const {
  std::string text(dtype_name(dtype));
  if (is_ref) text += "_ref";
  return text;
}

bool is_valid_dtype(int wire_number) { return wire_number >= 1 && wire_number <= kMaxDType; }

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

DType dtype_from_name(std::string_view name) {
  for (std::size_t i = 1; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<DType>(i);
  }
  return DType::kInvalid;
}

std::size_t dtype_size(DType dtype) { return row(dtype).size; }

bool is_floating(DType dtype) { return row(dtype).family == Family::kFloating; }
bool is_complex(DType dtype) { return row(dtype).family == Family::kComplex; }
bool is_integer(DType dtype) { return row(dtype).family == Family::kInteger; }
bool is_quantised(DType dtype) { return row(dtype).family == Family::kQuantised; }
bool is_object(DType dtype) { return row(dtype).family == Family::kObject; }

Half::Half(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (wide >> 16) & 0x8000;
  const std::uint32_t magnitude = wide & 0x7fffffff;
  std::uint32_t result;
  if (magnitude > 0x7f800000) {  // NaN: made quiet, the upper bits of its payload kept, as the F16C instruction does
    result = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x477ff000) {  // 65520, midway between the greatest half and 2^16, and all above
    result = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the least normal half
    // Adding just under half a unit, plus one when the kept part is odd, rounds to nearest even; a carry
    // runs into the exponent, which is right.
    const std::uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    result = (rounded >> 13) - (112u << 10);
  } else if (magnitude > 0x33000000) {  // over 2^-25, half the least subnormal: a multiple of 2^-24
    const std::uint32_t shift = 126 - (magnitude >> 23);
    const std::uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const std::uint32_t rest = mantissa & ((1u << shift) - 1);
    const std::uint32_t midway = 1u << (shift - 1);
    result = mantissa >> shift;
    if (rest > midway || (rest == midway && (result & 1))) ++result;
  } else {
    result = 0;
  }
  bits = static_cast<std::uint16_t>(sign | result);
}

Half::operator float() const {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: exact as a float
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
  }
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

Bfloat16::Bfloat16(float value) {
  const auto wide = std::bit_cast<std::uint32_t>(value);
  const bool is_nan = (wide & 0x7fffffff) > 0x7f800000;
  // Cutting a NaN could leave an empty mantissa, which is infinity: the quiet bit keeps it a NaN.
  const std::uint32_t result = is_nan ? (wide >> 16) | 0x40 : (wide + 0x7fff + ((wide >> 16) & 1)) >> 16;
  bits = static_cast<std::uint16_t>(result);
}

}  // namespace tutti
