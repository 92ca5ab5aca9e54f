#include "tutti/kernels/resources/internal/gradient_math.h"

#include <algorithm>

#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"

namespace tutti {

using cpu::BinaryFunction;
using cpu::BinaryOp;

namespace {

// Stays in the first cache between the addition and the division.
constexpr std::int64_t kMeanBlock = 2048;

Tensor scalar_of(DType dtype, std::int64_t count) {
  const Tensor number = Tensor::scalar(static_cast<double>(count));
  Tensor converted(dtype, {});
  cpu::find_convert(DType::kDouble, dtype)(number.raw(), converted.raw(), 1);
  return converted;
}

}  // namespace

void divide_by_count(DType dtype, void* values, std::int64_t n, std::int64_t count) {
  const Tensor divisor = scalar_of(dtype, count);
  BinaryFunction::find(BinaryOp::kDiv, dtype)(values, divisor.raw(), values, n, 1, 0);
}

void mean_of_sum(DType dtype, const void* a, const void* b, void* out, std::int64_t n, std::int64_t count) {
  const BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, dtype);
  if (count == 1) return add(a, b, out, n, 1, 1);
  const BinaryFunction divide = BinaryFunction::find(BinaryOp::kDiv, dtype);
  const Tensor divisor = scalar_of(dtype, count);
  for (std::int64_t begin = 0; begin < n; begin += kMeanBlock) {
    const std::int64_t size = std::min(kMeanBlock, n - begin);
    void* to = cpu::at_element(dtype, out, begin);
    add(cpu::at_element(dtype, a, begin), cpu::at_element(dtype, b, begin), to, size, 1, 1);
    divide(to, divisor.raw(), to, size, 1, 0);
  }
}

void add_to_sum(DType dtype, void* sum, const void* values, std::int64_t n) {
  BinaryFunction::find(BinaryOp::kAdd, dtype)(sum, values, sum, n, 1, 1);
}

}  // namespace tutti
