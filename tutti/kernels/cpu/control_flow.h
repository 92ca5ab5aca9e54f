// Kernels of v1 control flow. Which of them run, and in which frame and iteration, is the executor's business; a
// value that is not there is dead.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Output `out` becomes what input `in` is: a value, or the reference that it is read through. The variable behind a
// reference must have a value.
Status hand_on(KernelContext& ctx, int in, int out);

Status switch_value(KernelContext& ctx);  // sets output 0 or 1, leaves the other dead
Status switch_reference(KernelContext& ctx);
Status merge_value(KernelContext& ctx);  // the first input that lives, and which one it was
Status merge_reference(KernelContext& ctx);
Status pass_value(KernelContext& ctx);  // Enter, Exit, NextIteration, LoopCond
Status pass_reference(KernelContext& ctx);
Status select_reference(KernelContext& ctx);  // of inputs 1 and up the one that input 0 numbers

}  // namespace tutti::cpu
