// Kernels that work on files.
#pragma once

#include <functional>

#include "tutti/core/file_system.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

using FileWork = std::function<Status(KernelContext& context, FileSystem& files)>;

// A kernel that runs `work` on one of the task's blocking threads.
//
// All ops that touch files are asynchronous for this: a disk may take seconds, or minutes when it is full or across a
// network, and neither the thread that runs the step nor a thread of the pool may stand still for that long. The step
// goes on beside it with what does not depend on the file. The price, a wake-up or two, is nothing next to an open().
// Where the task has no blocking threads (a kernel run on its own in a test) the work is done at once.
//
// A step that is cancelled before the work begins ends at once; `work` looks at the cancellation between tensors.
KernelFactory file_kernel(FileWork work);

// The one element of input `i`. kInvalidArgument, with `name`, when there are more or none.
Result<std::string> single_string(KernelContext& context, int i, std::string_view name);

// The elements of input `i`, a vector of strings. REQUIRES: so by the op's signature.
std::span<const std::string> strings(KernelContext& context, int i);

}  // namespace tutti
