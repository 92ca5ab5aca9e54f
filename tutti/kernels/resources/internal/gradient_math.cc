#include "tutti/kernels/resources/internal/gradient_math.h"

#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/elementwise.h"

namespace tutti {

using cpu::BinaryFunction;
using cpu::BinaryOp;

void divide_by_count(DType dtype, void* values, std::int64_t n, std::int64_t count) {
  const Tensor divisor = Tensor::scalar(static_cast<double>(count));
  Tensor converted(dtype, {});
  cpu::find_convert(DType::kDouble, dtype)(divisor.raw(), converted.raw(), 1);
  BinaryFunction::find(BinaryOp::kDiv, dtype)(values, converted.raw(), values, n, 1, 0);
}

void add_to_sum(DType dtype, void* sum, const void* values, std::int64_t n) {
  BinaryFunction::find(BinaryOp::kAdd, dtype)(sum, values, sum, n, 1, 1);
}

}  // namespace tutti
