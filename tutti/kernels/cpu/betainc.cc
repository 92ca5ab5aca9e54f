#include "tutti/kernels/cpu/betainc.h"

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"
#include "tutti/kernels/cpu/special_functions.h"

namespace tutti::cpu {

Status betainc_of(KernelContext& ctx) {
  Shape shape;
  Tensor inputs[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor& input = ctx.input(i);
    if (input.rank() > 0 && shape.rank() > 0 && input.shape() != shape) {
      return invalid_argument("Shapes of a, b and x are inconsistent: ", ctx.input(0).shape(), ", ",
                              ctx.input(1).shape(), " and ", ctx.input(2).shape());
    }
    if (input.rank() > 0) shape = input.shape();
    TUTTI_ASSIGN_OR_RETURN(inputs[i], widened(ctx, input, DType::kDouble));
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  TUTTI_ASSIGN_OR_RETURN(Tensor wide, wide_output(ctx, *out, DType::kDouble));
  const auto at = [&](int i, std::int64_t k) { return inputs[i].data<double>()[inputs[i].rank() > 0 ? k : 0]; };
  // Each takes some hundred multiplications.
  parallel_for(ctx.team(), shape.num_elements(), kElementGrain / 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) wide.data<double>()[k] = betainc(at(0, k), at(1, k), at(2, k));
  });
  narrow_into(wide, *out);
  return {};
}

}  // namespace tutti::cpu
