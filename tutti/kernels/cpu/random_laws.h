// Kernels that draw from distributions with parameters: the same bits as TensorFlow on one thread, and, since every
// number has a place of its own in the generator's sequence, on any number.
#pragma once

#include "tutti/kernels/cpu/stateless_random.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Classes by unnormalised log-probabilities: logits [batch, classes], num_samples (, seed).
KernelFactory multinomial_kernel();
KernelFactory stateless_multinomial_kernel();

// Outputs of shape `shape` + alpha.shape; the stateless ones have the whole shape given.
KernelFactory random_gamma_kernel();
KernelFactory stateless_gamma_kernel(PhiloxSource source);
KernelFactory random_poisson_kernel();
KernelFactory stateless_poisson_kernel();

// Normal numbers between bounds: shape, means, stdevs, minvals, maxvals; one of each, or one for each shape[0].
KernelFactory parameterized_truncated_normal_kernel();

}  // namespace tutti::cpu
