// What the tests of files share.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tutti/core/file_system.h"
#include "tutti/core/tensor.h"

namespace tutti::testing {

inline std::string slurp(const std::string& path) { return read_file(local_file_system(), path).value_or_throw(); }
inline void spill(const std::string& path, std::string_view bytes) {
  throw_if_error(write_file(local_file_system(), path, bytes));
}

inline std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// Every type that checkpoints hold.
inline std::vector<DType> storable_dtypes() {
  std::vector<DType> dtypes;
  for (int number = 1; number <= kMaxDType; ++number) {
    const auto dtype = static_cast<DType>(number);
    if (dtype == DType::kString || dtype_size(dtype) > 0) dtypes.push_back(dtype);
  }
  return dtypes;
}

// Bits that differ from element to element, and are valid for the type.
inline Tensor patterned(DType dtype, const Shape& shape, int seed = 1) {
  Tensor tensor(dtype, shape);
  if (dtype == DType::kString) {
    for (std::int64_t i = 0; i < tensor.num_elements(); ++i) {
      tensor.data<std::string>()[i] = std::string(static_cast<std::size_t>((i * 37 + seed) % 300), char(i + seed));
    }
    return tensor;
  }
  auto* bytes = static_cast<unsigned char*>(tensor.raw());
  for (std::size_t i = 0; i < tensor.bytes(); ++i) {
    const auto byte = static_cast<unsigned char>(i * 31 + static_cast<std::size_t>(seed) * 7);
    bytes[i] = dtype == DType::kBool ? byte & 1 : byte;
  }
  return tensor;
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)
#define ASSERT_OK(expression)                               \
  do {                                                      \
    const ::tutti::Status ok_status_ = (expression);        \
    ASSERT_TRUE(ok_status_.ok()) << ok_status_.to_string(); \
  } while (false)

}  // namespace tutti::testing
