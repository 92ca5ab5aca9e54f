// Loops of the comparisons: any type in, bool out.
#include <complex>
#include <cstdint>
#include <string>

#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/internal/plain_loop.h"

namespace tutti::cpu::internal {
namespace {

template <typename T>
BinaryLoop equality(BinaryOp op) {
  switch (op) {
    case BinaryOp::kEqual:
      return plain_binary<T, bool>([](const T& a, const T& b) { return a == b; });
    case BinaryOp::kNotEqual:
      return plain_binary<T, bool>([](const T& a, const T& b) { return a != b; });
    default:
      return nullptr;
  }
}

template <typename T>
BinaryLoop ordering(BinaryOp op) {
  switch (op) {
    case BinaryOp::kLess:
      return plain_binary<T, bool>([](T a, T b) { return a < b; });
    case BinaryOp::kLessEqual:
      return plain_binary<T, bool>([](T a, T b) { return a <= b; });
    case BinaryOp::kGreater:
      return plain_binary<T, bool>([](T a, T b) { return a > b; });
    case BinaryOp::kGreaterEqual:
      return plain_binary<T, bool>([](T a, T b) { return a >= b; });
    default:
      return equality<T>(op);
  }
}

}  // namespace

BinaryLoop find_comparison(BinaryOp op, DType dtype) {
  switch (dtype) {
    case DType::kFloat:
      return ordering<float>(op);
    case DType::kDouble:
      return ordering<double>(op);
    case DType::kInt32:
      return ordering<std::int32_t>(op);
    case DType::kInt64:
      return ordering<std::int64_t>(op);
    case DType::kUint64:
      return ordering<std::uint64_t>(op);
    case DType::kComplex128:
      return equality<std::complex<double>>(op);
    case DType::kBool:
      return equality<bool>(op);
    case DType::kString:
      return equality<std::string>(op);
    default:
      return nullptr;
  }
}

}  // namespace tutti::cpu::internal
