// Kernels of reference and resource variables.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

enum class RowUpdate { kUpdate, kAdd, kSub, kMul, kDiv, kMin, kMax };

// --- Reference variables: input 0 is the reference. ---
KernelFactory variable_kernel();
KernelFactory temporary_variable_kernel();
KernelFactory destroy_temporary_variable_kernel();
Status is_variable_initialized(KernelContext& ctx);
KernelFactory assign_kernel();
Status assign_add(KernelContext& ctx);
Status assign_sub(KernelContext& ctx);
KernelFactory scatter_kernel(RowUpdate update);
KernelFactory scatter_nd_kernel(RowUpdate update);
KernelFactory count_up_to_kernel();

// --- Resource variables: input 0 is the handle. ---
KernelFactory var_handle_kernel();
KernelFactory read_variable_kernel();
KernelFactory assign_variable_kernel();
Status assign_add_variable(KernelContext& ctx);
Status assign_sub_variable(KernelContext& ctx);
Status var_is_initialized(KernelContext& ctx);
Status variable_shape(KernelContext& ctx);
KernelFactory destroy_resource_kernel();
KernelFactory resource_gather_kernel();
KernelFactory resource_scatter_kernel(RowUpdate update);
KernelFactory resource_scatter_nd_kernel(RowUpdate update);

}  // namespace tutti::cpu
