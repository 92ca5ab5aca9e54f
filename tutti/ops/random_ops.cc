// Random numbers. Stateful: two runs of one node give different numbers.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/random.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

OpRow random_floats(std::string name, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = "shape: T -> output: dtype",
          .attrs = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; T: {int32, int64}",
          .shape = shape::from_shape_input,
          .no_gradient = true,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

}  // namespace

void register_random_ops(OpTable& ops) {
  ops.add(random_floats("RandomUniform", cpu::random_uniform_kernel()));
  ops.add(random_floats("RandomStandardNormal", cpu::random_normal_kernel()));
  ops.add(random_floats("TruncatedNormal", cpu::truncated_normal_kernel()));
  ops.add({.name = "RandomUniformInt",
           .signature = "shape: T, minval: Tout, maxval: Tout -> output: Tout",
           .attrs = "seed: int = 0; seed2: int = 0; Tout: {int32, int64}; T: {int32, int64}",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_uniform_int_kernel())}});
  ops.add({.name = "RandomShuffle",
           .signature = "value: T -> output: T",
           .attrs = "seed: int = 0; seed2: int = 0; T: type",
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_shuffle_kernel())}});
}

}  // namespace tutti
