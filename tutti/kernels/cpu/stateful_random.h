// Kernels of generators whose state is a variable: int64 [counter low, counter high, key]. What a run used up is
// skipped in the variable before the numbers are made.
#pragma once

#include "tutti/kernels/cpu/random_fill.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Inputs: the variable, the algorithm, the shape (and the bounds of integers).
KernelFactory stateful_random_kernel(RandomLaw law);
KernelFactory stateful_integers_kernel();
KernelFactory stateful_bits_kernel();
// The oldest form: the variable, with the algorithm as its first element, and the shape.
KernelFactory tagged_random_kernel(RandomLaw law);

Status rng_skip(KernelContext& ctx);
Status rng_read_and_skip(KernelContext& ctx);
// From the system's entropy.
Status non_deterministic_integers(KernelContext& ctx);

}  // namespace tutti::cpu
