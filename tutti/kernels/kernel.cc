#include "tutti/kernels/kernel.h"

#include <utility>

namespace tutti {
namespace {

class FunctionKernel : public Kernel {
 public:
  explicit FunctionKernel(KernelFn function) : function_(function) {}
  Status compute(KernelContext& context) override { return function_(context); }

 private:
  const KernelFn function_;
};

}  // namespace

Result<Tensor*> KernelContext::allocate_output(int i, const Shape& shape) {
  const DType dtype = frame_.output_types[i];
  Tensor& out = frame_.outputs[i].tensor;
  Allocator& allocator = goes_elsewhere() ? *step_.sent_values : *step_.allocator;
  // The common case in few moves: this is most of what a small kernel costs. Tensor::create does the rest and the
  // errors.
  std::size_t bytes = 0;
  const std::size_t size = dtype_size(dtype);
  if (size != 0 && !__builtin_mul_overflow(static_cast<std::size_t>(shape.num_elements()), size, &bytes)) {
    if (BufferPtr buffer = allocator.allocate(bytes)) {
      out = Tensor(dtype, shape, std::move(buffer));
      return &out;
    }
  }
  TUTTI_ASSIGN_OR_RETURN(out, Tensor::create(dtype, shape, allocator));
  return &out;
}

Tensor* KernelContext::forward(int in, int out, const Shape& shape) {
  const Value& value = frame_.slots[frame_.input_index[in]];
  const Tensor& from = value.tensor;
  const bool free_after_this = frame_.last_use != nullptr && frame_.last_use[in] != 0 && value.ref == nullptr;
  // What the transport would have to copy is better computed where it wants it.
  if (goes_elsewhere() || !free_after_this || !from.unique() || from.dtype() != frame_.output_types[out] ||
      from.num_elements() != shape.num_elements()) {
    return nullptr;
  }
  // Sharing the buffer is also an acquire on its count: what former holders read happened before we write.
  frame_.outputs[out].tensor = from.shape() == shape ? from : from.reshaped(shape);
  return &frame_.outputs[out].tensor;
}

Result<Tensor*> KernelContext::forward_or_allocate(int in, int out, const Shape& shape) {
  if (Tensor* forwarded = forward(in, out, shape)) return forwarded;
  return allocate_output(out, shape);
}

KernelFactory kernel_from(KernelFn function) {
  return [function](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<FunctionKernel>(function));
  };
}

}  // namespace tutti
