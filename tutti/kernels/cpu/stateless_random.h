// Kernels whose random numbers follow from their inputs: a seed of two numbers, or a key and a counter.
#pragma once

#include "tutti/kernels/cpu/philox.h"
#include "tutti/kernels/cpu/random_fill.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Algorithms as inputs name them.
inline constexpr std::int64_t kPhiloxAlgorithm = 1;
inline constexpr std::int64_t kAnyAlgorithm = 3;

// kInvalidArgument unless `seed` is two integers.
Result<Philox> philox_of_seed(const Tensor& seed);
// key: uint64 [1]; counter: uint64 [2] or longer; algorithm: a scalar. kInvalidArgument for another algorithm.
Result<Philox> philox_of_counter(const Tensor& key, const Tensor& counter, const Tensor& algorithm);

// Where a kernel's generator comes from: input 1 is a seed, or inputs 1 to 3 are key, counter and algorithm.
enum class PhiloxSource { kSeed, kCounter };
Result<Philox> philox_of_inputs(KernelContext& ctx, PhiloxSource source);
// The input after those.
inline int first_parameter(PhiloxSource source) { return source == PhiloxSource::kSeed ? 2 : 4; }

KernelFactory stateless_random_kernel(RandomLaw law, PhiloxSource source);
KernelFactory stateless_integers_kernel(PhiloxSource source);
KernelFactory stateless_bits_kernel(PhiloxSource source);

Status stateless_key_counter(KernelContext& ctx);  // seed -> key, counter and, as a third output, the algorithm
Status stateless_algorithm(KernelContext& ctx);

}  // namespace tutti::cpu
