// Kernels that call functions of the graph's library: If, Case, While, PartitionedCall, and what goes with them.
//
// Functions are compiled when the kernel is made. When none of them can wait, the kernel runs them on the
// calling thread; otherwise it is asynchronous and holds no thread while they wait.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti {

// Input 0 chooses then_branch or else_branch; the other inputs are its arguments.
KernelFactory if_kernel();
// Input 0 indexes `branches`; anything out of range means the last one.
KernelFactory case_kernel();
// Runs `body` on the loop variables while `cond` of them is true. Looks for cancellation in each iteration.
KernelFactory while_kernel();
// Calls `f`.
KernelFactory call_kernel();
// A value that nobody reads: zeros of attribute "shape", open dimensions being 0.
KernelFactory fake_param_kernel();
// The place of the own device's type in attribute device_names; as many as those when it is not there.
KernelFactory device_index_kernel();
// Whether a value counts as true.
KernelFactory to_bool_kernel();
// Output i is input i.
KernelFactory pass_all_kernel();
// Of _Arg and _Retval, which the executor takes care of: reached only outside a function, an error.
KernelFactory function_boundary_kernel();

// A scalar is true when it is not zero (a string: not empty), anything else when it has elements.
Result<bool> truth_of(const Tensor& value);

}  // namespace tutti
