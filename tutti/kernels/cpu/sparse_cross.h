// Kernels that cross features: every combination of one feature of each column, row by row, as a string or a hash.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs of all: indices, values and shapes of the sparse columns, then the dense columns.
KernelFactory sparse_cross_kernel();         // out_type string: joined by "_X_"; int64: hashed
KernelFactory sparse_cross_v2_kernel();      // and a separator; strings
KernelFactory sparse_cross_hashed_kernel();  // and num_buckets, strong_hash, salt; hashes

}  // namespace tutti::cpu
