// Kernels of stacks (per-step state) and of tensor lists (values).
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory stack_kernel();
Status stack_push(KernelContext& ctx);
KernelFactory stack_pop_kernel();
Status stack_close(KernelContext& ctx);

KernelFactory empty_tensor_list_kernel();
KernelFactory tensor_list_reserve_kernel();
KernelFactory tensor_list_push_back_kernel();
KernelFactory tensor_list_pop_back_kernel();
KernelFactory tensor_list_get_item_kernel();
KernelFactory tensor_list_set_item_kernel();
Status tensor_list_length(KernelContext& ctx);
KernelFactory tensor_list_stack_kernel();
KernelFactory tensor_list_from_tensor_kernel();
Status tensor_list_element_shape(KernelContext& ctx);

// A shape given by value in which dimensions may be -1; a scalar -1 means that nothing is known.
Result<PartialShape> read_partial_shape(const Tensor& tensor, std::string_view what);
// Rows [i, i + 1) of the first dimension as a tensor without that dimension, sharing memory.
Tensor row_of(const Tensor& tensor, std::int64_t i);
// Output `out`: `count` tensors of one shape, stacked. An item without a value is zeros.
Status stack_items(KernelContext& ctx, int out, const std::vector<Tensor>& items, const Shape& each);

}  // namespace tutti::cpu
