// Kernels of lookup tables.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The ops that make one. Attributes key_dtype, value_dtype, container, shared_name; of the last two value_shape, of the
// last initial_num_buckets and max_load_factor, with the empty and the deleted key as inputs.
KernelFactory hash_table_kernel();
KernelFactory mutable_hash_table_kernel();
KernelFactory mutable_hash_table_of_tensors_kernel();
KernelFactory mutable_dense_hash_table_kernel();

KernelFactory table_find_kernel();
KernelFactory table_insert_kernel();
KernelFactory table_remove_kernel();
KernelFactory table_import_kernel();
KernelFactory table_export_kernel();
KernelFactory table_initialize_kernel();
Status table_size(KernelContext& ctx);

// Reads a text file through the task's FileSystem.
KernelFactory table_initialize_from_file_kernel();

}  // namespace tutti::cpu
