// Lists of coordinates and values spread over a dense tensor.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

KernelFactory sparse_to_dense_kernel();

}  // namespace tutti::cpu
