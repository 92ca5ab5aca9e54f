#include "tutti/core/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tutti::dtype_test {

TEST(DType, NamesAndNumbersAgree) {
  for (int number = 1; number <= kMaxDType; ++number) {
    EXPECT_TRUE(is_valid_dtype(number));
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype) << number;
    EXPECT_EQ(dtype_size(dtype) == 0, is_object(dtype)) << number;
  }
  EXPECT_EQ(dtype_name(DType::kFloat), "float");
  EXPECT_EQ(dtype_name(DType::kHalf), "half");
  EXPECT_EQ(dtype_name(DType::kFloat8E4m3b11fnuz), "float8_e4m3b11fnuz");
  EXPECT_EQ(dtype_name(DType::kUint4), "uint4");
}

TEST(DType, WhatIsNoDType) {
  for (const int number : {-1, 0, 31, 100, 101, 1000}) EXPECT_FALSE(is_valid_dtype(number)) << number;
  EXPECT_EQ(dtype_from_name("invalid"), DType::kInvalid);
  EXPECT_EQ(dtype_from_name("float32"), DType::kInvalid);
  EXPECT_EQ(dtype_from_name(""), DType::kInvalid);
  EXPECT_EQ(dtype_name(static_cast<DType>(77)), "invalid");
  EXPECT_EQ(dtype_size(static_cast<DType>(77)), 0u);
}

template <typename T>
void expect_size() {
  EXPECT_EQ(dtype_size(dtype_of<T>()), sizeof(T)) << dtype_name(dtype_of<T>());
}

TEST(DType, SizesAreThoseOfTheCppTypes) {
  expect_size<float>();
  expect_size<double>();
  expect_size<std::int8_t>();
  expect_size<std::int16_t>();
  expect_size<std::int32_t>();
  expect_size<std::int64_t>();
  expect_size<std::uint8_t>();
  expect_size<std::uint16_t>();
  expect_size<std::uint32_t>();
  expect_size<std::uint64_t>();
  expect_size<bool>();
  expect_size<Half>();
  expect_size<Bfloat16>();
  expect_size<std::complex<float>>();
  expect_size<std::complex<double>>();
  EXPECT_EQ(dtype_size(DType::kQint32), 4u);
  EXPECT_EQ(dtype_size(DType::kQuint16), 2u);
  EXPECT_EQ(dtype_size(DType::kFloat8E5m2), 1u);
  EXPECT_EQ(dtype_size(DType::kInt4), 1u);
}

TEST(DType, Families) {
  EXPECT_TRUE(is_floating(DType::kBfloat16));
  EXPECT_FALSE(is_floating(DType::kComplex64));
  EXPECT_FALSE(is_floating(DType::kFloat8E5m2));
  EXPECT_TRUE(is_complex(DType::kComplex128));
  EXPECT_TRUE(is_integer(DType::kUint8));
  EXPECT_FALSE(is_integer(DType::kBool));
  EXPECT_FALSE(is_integer(DType::kQint8));
  EXPECT_TRUE(is_quantised(DType::kQuint16));
  EXPECT_TRUE(is_object(DType::kVariant));
  EXPECT_TRUE(is_differentiable(DType::kComplex64));
  EXPECT_FALSE(is_differentiable(DType::kInt32));
}

TEST(EdgeType, ReferencesAreMarked) {
  EXPECT_EQ((EdgeType{DType::kFloat, false}).to_string(), "float");
  EXPECT_EQ((EdgeType{DType::kFloat, true}).to_string(), "float_ref");
  EXPECT_EQ(EdgeType{}.to_string(), "invalid");
}

TEST(Half, EveryBitPatternSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half half = Half::from_bits(static_cast<std::uint16_t>(bits));
    const auto value = static_cast<float>(half);
    const bool is_nan = (bits & 0x7fff) > 0x7c00;
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0) << bits;
    const Half back(value);
    if (is_nan) {
      ASSERT_EQ(back.bits, bits | 0x200) << bits;  // made quiet
    } else {
      ASSERT_EQ(back.bits, bits) << bits;
    }
  }
}

// The definition: sign * 2^(exponent - 25) * mantissa, with the hidden bit.
TEST(Half, ValuesMatchTheDefinition) {
  for (int bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = bits >> 10;
    const int mantissa = bits & 0x3ff;
    const double value = exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(0x400 + mantissa, exponent - 25);
    ASSERT_EQ(static_cast<float>(Half::from_bits(static_cast<std::uint16_t>(bits))), value) << bits;
  }
  EXPECT_EQ(static_cast<float>(Half::from_bits(0x7c00)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(Half::from_bits(0xfc00)), -std::numeric_limits<float>::infinity());
}

TEST(Half, RoundsToNearestEvenBetweenAllNeighbours) {
  for (int bits = 0; bits < 0x7bff; ++bits) {
    const auto low = static_cast<float>(Half::from_bits(static_cast<std::uint16_t>(bits)));
    const auto high = static_cast<float>(Half::from_bits(static_cast<std::uint16_t>(bits + 1)));
    const float midway = (low + high) / 2;  // exact: a float has 13 bits more
    const int even = bits % 2 == 0 ? bits : bits + 1;
    ASSERT_EQ(Half(midway).bits, even) << bits;
    ASSERT_EQ(Half(std::nextafter(midway, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(Half(std::nextafter(midway, 1e6f)).bits, bits + 1) << bits;
    ASSERT_EQ(Half(-midway).bits, even | 0x8000) << bits;
  }
}

TEST(Half, AtTheEndsOfTheRange) {
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(std::nextafter(65520.0f, 0.0f)).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(1e30f).bits, 0x7c00);
  EXPECT_EQ(Half(-std::numeric_limits<float>::infinity()).bits, 0xfc00);
  EXPECT_EQ(Half(0x1p-25f).bits, 0);  // midway between 0 and the least subnormal
  EXPECT_EQ(Half(std::nextafter(0x1p-25f, 1.0f)).bits, 1);
  EXPECT_EQ(Half(std::numeric_limits<float>::denorm_min()).bits, 0);
  EXPECT_EQ(Half(-0.0f).bits, 0x8000);
  // A NaN whose payload lies in the bits that are cut.
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(static_cast<float>(Half(std::bit_cast<float>(0xffffffffu)))));
}

TEST(Half, ComparesAsNumbers) {
  EXPECT_TRUE(Half(0.0f) == Half(-0.0f));
  EXPECT_TRUE(Half(-1.0f) < Half(1.0f));
  const Half nan(std::numeric_limits<float>::quiet_NaN());
  EXPECT_FALSE(nan == nan);
}

TEST(Bfloat16, EveryBitPatternSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bfloat16 brain = Bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const auto value = static_cast<float>(brain);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(std::isnan(value), is_nan) << bits;
    ASSERT_EQ(Bfloat16(value).bits, is_nan ? bits | 0x40 : bits) << bits;
  }
}

TEST(Bfloat16, RoundsToNearestEven) {
  const auto bits_of = [](std::uint32_t wide) { return Bfloat16(std::bit_cast<float>(wide)).bits; };
  EXPECT_EQ(bits_of(0x3f808000), 0x3f80);  // midway, even below
  EXPECT_EQ(bits_of(0x3f818000), 0x3f82);  // midway, even above
  EXPECT_EQ(bits_of(0x3f807fff), 0x3f80);
  EXPECT_EQ(bits_of(0x3f808001), 0x3f81);
  EXPECT_EQ(bits_of(0x3fff8000), 0x4000);  // the carry runs into the exponent
  EXPECT_EQ(bits_of(0x7f7fffff), 0x7f80);  // the greatest float becomes infinity
  EXPECT_EQ(bits_of(0x80000001), 0x8000);
  EXPECT_EQ(bits_of(0x7f800001), 0x7fc0);  // a NaN whose payload is cut stays one
  EXPECT_EQ(bits_of(0xffffffff), 0xffff);
}

}  // namespace tutti::dtype_test
