#include "tutti/kernels/cpu/tensor_scatter.h"

#include <memory>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/gather.h"

namespace tutti::cpu {
namespace {

class TensorScatter : public Kernel {
 public:
  explicit TensorScatter(BinaryFunction combine) : combine_(combine) {}

  Status compute(KernelContext& ctx) override {
    const Tensor& tensor = ctx.input(0);
    const Tensor& indices = ctx.input(1);
    const Tensor& updates = ctx.input(2);
    const bool nothing = indices.num_elements() == 0 && updates.num_elements() == 0;
    if (!nothing && (tensor.num_elements() == 0 || indices.num_elements() == 0 || updates.num_elements() == 0)) {
      return invalid_argument("Indices and updates specified for empty output shape: ", tensor.shape(), ", ",
                              indices.shape(), " and ", updates.shape());
    }
    if (tensor.num_elements() > 0 && indices.rank() > 0 && indices.dim(indices.rank() - 1) == 0) {
      return invalid_argument("indices must name at least one dimension in their last, got shape ", indices.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.forward_or_allocate(0, 0, tensor.shape()));
    if (out->raw() != tensor.raw()) copy_elements(tensor.dtype(), out->raw(), tensor.raw(), tensor.num_elements());
    return scatter_slices(indices, updates, combine_ ? &combine_ : nullptr, *out);
  }

 private:
  const BinaryFunction combine_;  // empty: assignment
};

}  // namespace

KernelFactory tensor_scatter_kernel(std::optional<BinaryOp> combine) {
  return [combine](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    BinaryFunction function;
    if (combine) {
      const DType dtype = init.input_types[0].dtype;
      function = BinaryFunction::find(*combine, dtype);
      if (!function) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    }
    return std::unique_ptr<Kernel>(std::make_unique<TensorScatter>(function));
  };
}

}  // namespace tutti::cpu
