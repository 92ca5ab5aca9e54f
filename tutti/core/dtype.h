// Element types: TensorFlow's DataType numbers, their C++ types and their properties.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tutti {

// Values are TensorFlow's wire numbers. A reference type is its base plus 100.
enum class DType : std::uint8_t {
  kInvalid = 0,
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt16 = 5,
  kInt8 = 6,
  kString = 7,
  kComplex64 = 8,
  kInt64 = 9,
  kBool = 10,
  kQint8 = 11,
  kQuint8 = 12,
  kQint32 = 13,
  kBfloat16 = 14,
  kQint16 = 15,
  kQuint16 = 16,
  kUint16 = 17,
  kComplex128 = 18,
  kHalf = 19,
  kResource = 20,
  kVariant = 21,
  kUint32 = 22,
  kUint64 = 23,
  kFloat8E5m2 = 24,
  kFloat8E4m3fn = 25,
  kFloat8E4m3fnuz = 26,
  kFloat8E4m3b11fnuz = 27,
  kFloat8E5m2fnuz = 28,
  kInt4 = 29,
  kUint4 = 30,
};

inline constexpr int kRefOffset = 100;
inline constexpr int kMaxDType = 30;

// A type of a node's input or output: an element type, and whether it is a reference to a variable.
// (Tensors themselves never have a reference type.)
struct EdgeType {
  DType dtype = DType::kInvalid;
  bool is_ref = false;

  friend bool operator==(const EdgeType&, const EdgeType&) = default;
  std::string to_string() const;
};

// True for the numbers of the enum above (kInvalid excluded).
bool is_valid_dtype(int wire_number);

// "float", "int64", "resource"... : TensorFlow's short names, also used in op signatures.
std::string_view dtype_name(DType dtype);
// kInvalid when the name is unknown.
DType dtype_from_name(std::string_view name);

// Bytes an element takes in a tensor's buffer; 0 for string, resource and variant, whose elements are objects.
std::size_t dtype_size(DType dtype);

bool is_floating(DType dtype);  // half, bfloat16, float, double
bool is_complex(DType dtype);
bool is_integer(DType dtype);  // signed and unsigned, not bool, not quantised
bool is_quantised(DType dtype);
bool is_object(DType dtype);  // string, resource, variant
// Whether gradients flow through values of this type.
inline bool is_differentiable(DType dtype) { return is_floating(dtype) || is_complex(dtype); }

// IEEE binary16, stored only; arithmetic goes through float.
struct Half {
  std::uint16_t bits = 0;
  Half() = default;
  explicit Half(float value);
  explicit operator float() const;
  static Half from_bits(std::uint16_t bits) {
    Half h;
    h.bits = bits;
    return h;
  }
  friend bool operator==(Half a, Half b) { return float(a) == float(b); }
  friend bool operator<(Half a, Half b) { return float(a) < float(b); }
};

// The upper half of a float, rounded to nearest even.
struct Bfloat16 {
  std::uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value);
  explicit operator float() const {
    std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof value);
    return value;
  }
  static Bfloat16 from_bits(std::uint16_t bits) {
    Bfloat16 b;
    b.bits = bits;
    return b;
  }
  friend bool operator==(Bfloat16 a, Bfloat16 b) { return float(a) == float(b); }
  friend bool operator<(Bfloat16 a, Bfloat16 b) { return float(a) < float(b); }
};

// A set of element types, as one word.
struct DTypeSet {
  std::uint64_t bits = 0;
  constexpr DTypeSet() = default;
  template <typename... D>
  constexpr explicit DTypeSet(DType first, D... rest) : bits(bit(first) | (0 | ... | bit(rest))) {}
  static constexpr DTypeSet all() {
    DTypeSet s;
    s.bits = ~std::uint64_t{1};
    return s;
  }
  constexpr bool contains(DType dtype) const { return (bits & bit(dtype)) != 0; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    DTypeSet s;
    s.bits = a.bits | b.bits;
    return s;
  }
  friend constexpr bool operator==(DTypeSet, DTypeSet) = default;

 private:
  static constexpr std::uint64_t bit(DType dtype) { return std::uint64_t{1} << static_cast<int>(dtype); }
};

// The sets that op rows name.
inline constexpr DTypeSet kFloats{DType::kHalf, DType::kBfloat16, DType::kFloat, DType::kDouble};
inline constexpr DTypeSet kIndexTypes{DType::kInt32, DType::kInt64};
inline constexpr DTypeSet kIntegers{DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                                    DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64};
inline constexpr DTypeSet kComplexes{DType::kComplex64, DType::kComplex128};
inline constexpr DTypeSet kReals = kFloats | kIntegers;
inline constexpr DTypeSet kNumbers = kReals | kComplexes;
inline constexpr DTypeSet kPlain = kNumbers | DTypeSet{DType::kBool};  // fixed-size elements with C++ types

class ResourceHandle;
class Variant;

// dtype_of<float>() == DType::kFloat. Quantised, float8 and int4 types have no C++ arithmetic type.
template <typename T>
struct DTypeOf;
#define TUTTI_DTYPE_OF_(type, enumerator)             \
  template <>                                         \
  struct DTypeOf<type> {                              \
    static constexpr DType value = DType::enumerator; \
  };
TUTTI_DTYPE_OF_(float, kFloat)
TUTTI_DTYPE_OF_(double, kDouble)
TUTTI_DTYPE_OF_(std::int32_t, kInt32)
TUTTI_DTYPE_OF_(std::uint8_t, kUint8)
TUTTI_DTYPE_OF_(std::int16_t, kInt16)
TUTTI_DTYPE_OF_(std::int8_t, kInt8)
TUTTI_DTYPE_OF_(std::string, kString)
TUTTI_DTYPE_OF_(std::complex<float>, kComplex64)
TUTTI_DTYPE_OF_(std::int64_t, kInt64)
TUTTI_DTYPE_OF_(bool, kBool)
TUTTI_DTYPE_OF_(Bfloat16, kBfloat16)
TUTTI_DTYPE_OF_(std::uint16_t, kUint16)
TUTTI_DTYPE_OF_(std::complex<double>, kComplex128)
TUTTI_DTYPE_OF_(Half, kHalf)
TUTTI_DTYPE_OF_(ResourceHandle, kResource)
TUTTI_DTYPE_OF_(Variant, kVariant)
TUTTI_DTYPE_OF_(std::uint32_t, kUint32)
TUTTI_DTYPE_OF_(std::uint64_t, kUint64)
#undef TUTTI_DTYPE_OF_

template <typename T>
constexpr DType dtype_of() {
  return DTypeOf<T>::value;
}

}  // namespace tutti
