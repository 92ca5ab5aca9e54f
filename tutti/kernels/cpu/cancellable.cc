#include "tutti/kernels/cpu/cancellable.h"

namespace tutti::cpu {

Status fill_cancellable(KernelContext& ctx, Tensor& out, const void* value) {
  const DType dtype = out.dtype();
  auto bytes = static_cast<std::int64_t>(element_stride(dtype));
  if (dtype == DType::kString) bytes += static_cast<std::int64_t>(static_cast<const std::string*>(value)->size());
  return in_cancellable_blocks(ctx, out.num_elements(), bytes, [&](std::int64_t begin, std::int64_t end) {
    fill_elements(dtype, at_element(dtype, out.raw(), begin), value, end - begin);
  });
}

Status zero_cancellable(KernelContext& ctx, Tensor& out) {
  const DType dtype = out.dtype();
  const auto bytes = static_cast<std::int64_t>(element_stride(dtype));
  return in_cancellable_blocks(ctx, out.num_elements(), bytes, [&](std::int64_t begin, std::int64_t end) {
    zero_elements(dtype, at_element(dtype, out.raw(), begin), end - begin);
  });
}

}  // namespace tutti::cpu
