// How kernels see the lists in their inputs and give lists out.
#pragma once

#include <memory>

#include "tutti/core/tensor_list.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The list in input i, checked to hold `dtype` where one is given. Lives as long as the input.
Result<const TensorList*> input_list(KernelContext& ctx, int i, DType dtype = DType::kInvalid);
// Output `out` is `list`. Refuses one that lies too deep in others.
Status set_list(KernelContext& ctx, int out, std::shared_ptr<const TensorList> list);
// Refuses sizes that no list has: kInvalidArgument below 0, kResourceExhausted where they take too much memory.
Status check_list_size(std::int64_t size);

}  // namespace tutti::cpu
