// Kernels that gather items of tensor lists, scatter into them, put them together and cut tensors into them.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory tensor_list_gather_kernel();
// TensorListScatter, ScatterV2 (with a length) and ScatterIntoExistingList.
KernelFactory tensor_list_scatter_kernel();
KernelFactory tensor_list_scatter_into_kernel();
Status tensor_list_resize(KernelContext& ctx);
// TensorListConcat, its element_shape an attribute, and ConcatV2.
KernelFactory tensor_list_concat_kernel();
KernelFactory tensor_list_split_kernel();
KernelFactory tensor_list_concat_lists_kernel();
KernelFactory tensor_list_push_back_batch_kernel();

}  // namespace tutti::cpu
