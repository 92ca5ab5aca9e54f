// Random numbers beyond the first few: with parameters, from seeds and counters, from generators kept in variables.
#include <string>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/random_laws.h"
#include "tutti/kernels/cpu/stateful_random.h"
#include "tutti/kernels/cpu/stateless_random.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/sparse_families.h"
#include "tutti/ops/math.h"

namespace tutti::internal {

namespace {

using cpu::PhiloxSource;
using cpu::RandomLaw;

// --- Shape rules. ---

template <int kInput>
Status from_input(ShapeContext& c) {
  c.set_output(0, c.input_as_shape(kInput));
  return {};
}

Status multinomial_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape logits, c.with_rank(0, 2));
  const auto count = constant_ints(c, 1);
  const bool known = count && count->size() == 1 && (*count)[0] >= 0;
  c.set_output(0, PartialShape{logits.dim(0), known ? (*count)[0] : kUnknownDim});
  return {};
}

// `shape` + that of input 1.
Status shape_and_parameters(ShapeContext& c) {
  const PartialShape prefix = c.input_as_shape(0);
  if (!prefix.has_rank() || !c.input(1).has_rank()) return {};
  std::vector<std::int64_t> dims(prefix.dims().begin(), prefix.dims().end());
  dims.insert(dims.end(), c.input(1).dims().begin(), c.input(1).dims().end());
  TUTTI_ASSIGN_OR_RETURN(PartialShape whole, PartialShape::create(std::move(dims)));
  c.set_output(0, std::move(whole));
  return {};
}

Status key_counter_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{1});
  c.set_output(1, PartialShape{2});
  if (c.num_outputs() > 2) c.set_output(2, PartialShape::scalar());
  return {};
}

Status state_shape(ShapeContext& c) {
  c.set_output(0, PartialShape{3});
  return {};
}

// --- Rows. ---

constexpr const char* kFloatDtype = "dtype: {half, bfloat16, float, double} = float; ";
constexpr DTypeSet kBitTypes{DType::kInt32, DType::kInt64, DType::kUint32, DType::kUint64};

KernelEntry typed(KernelFactory kernel, DTypeSet types, const char* attr = "dtype") {
  return KernelEntry{std::string(kCpu), std::move(kernel), types, attr};
}

void add_stateless(OpTable& ops, const std::string& name, RandomLaw law) {
  ops.add({.name = name,
           .signature = "shape: T, seed: Tseed -> output: dtype",
           .attrs = std::string(kFloatDtype) + "T: {int32, int64} = int32; Tseed: {int32, int64} = int64",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_random_kernel(law, PhiloxSource::kSeed))}});
  ops.add({.name = name + "V2",
           .signature = "shape: Tshape, key: uint64, counter: uint64, alg: int32 -> output: dtype",
           .attrs = std::string(kFloatDtype) + "Tshape: {int32, int64} = int32",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_random_kernel(law, PhiloxSource::kCounter))}});
}

void add_stateless_integers(OpTable& ops) {
  ops.add({.name = "StatelessRandomUniformInt",
           .signature = "shape: T, seed: Tseed, minval: dtype, maxval: dtype -> output: dtype",
           .attrs = "dtype: {int32, int64}; T: {int32, int64}; Tseed: {int32, int64} = int64",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_integers_kernel(PhiloxSource::kSeed))}});
  ops.add({.name = "StatelessRandomUniformIntV2",
           .signature = "shape: Tshape, key: uint64, counter: uint64, alg: int32, minval: dtype, maxval: dtype -> "
                        "output: dtype",
           .attrs = "dtype: {int32, int64, uint32, uint64}; Tshape: {int32, int64} = int32",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {typed(cpu::stateless_integers_kernel(PhiloxSource::kCounter), kIndexTypes)}});
  ops.add({.name = "StatelessRandomUniformFullInt",
           .signature = "shape: T, seed: Tseed -> output: dtype",
           .attrs = "dtype: {int32, int64, uint32, uint64} = uint64; T: {int32, int64} = int32; "
                    "Tseed: {int32, int64, uint32, uint64} = int64",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_bits_kernel(PhiloxSource::kSeed))}});
  ops.add({.name = "StatelessRandomUniformFullIntV2",
           .signature = "shape: Tshape, key: uint64, counter: uint64, alg: int32 -> output: dtype",
           .attrs = "dtype: {int32, int64, uint32, uint64} = uint64; Tshape: {int32, int64} = int32",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_bits_kernel(PhiloxSource::kCounter))}});
}

void add_keys(OpTable& ops) {
  ops.add({.name = "StatelessRandomGetKeyCounter",
           .signature = "seed: Tseed -> key: uint64, counter: uint64",
           .attrs = "Tseed: {int32, int64} = int64",
           .shape = key_counter_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::stateless_key_counter))}});
  ops.add({.name = "StatelessRandomGetKeyCounterAlg",
           .signature = "seed: Tseed -> key: uint64, counter: uint64, alg: int32",
           .attrs = "Tseed: {int32, int64} = int64",
           .shape = key_counter_shape,
           .kernels = {TUTTI_CPU(kernel_from(cpu::stateless_key_counter))}});
  ops.add({.name = "StatelessRandomGetAlg",
           .signature = "-> alg: int32",
           .shape = shape::scalar,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::stateless_algorithm))}});
}

OpRow generator_row(std::string name, KernelFactory kernel, DTypeSet types, const char* dtype,
                    const std::string& more = "") {
  return {.name = std::move(name),
          .signature = "resource: resource, algorithm: int64, shape: shape_dtype" + more + " -> output: dtype",
          .attrs = str_cat("dtype: type = ", dtype, "; shape_dtype: type = int64"),
          .shape = from_input<2>,
          .traits = kStateful,
          .kernels = {typed(std::move(kernel), types)}};
}

void add_generators(OpTable& ops) {
  ops.add(generator_row("StatefulUniform", cpu::stateful_random_kernel(RandomLaw::kUniform), kFloats, "float"));
  ops.add(generator_row("StatefulStandardNormalV2", cpu::stateful_random_kernel(RandomLaw::kNormal), kFloats, "float"));
  ops.add(generator_row("StatefulTruncatedNormal", cpu::stateful_random_kernel(RandomLaw::kTruncatedNormal), kFloats,
                        "float"));
  ops.add(generator_row("StatefulUniformInt", cpu::stateful_integers_kernel(), kIndexTypes, "int64",
                        ", minval: dtype, maxval: dtype"));
  ops.add(generator_row("StatefulUniformFullInt", cpu::stateful_bits_kernel(), kBitTypes, "uint64"));
  ops.add({.name = "StatefulStandardNormal",
           .signature = "resource: resource, shape: shape_dtype -> output: dtype",
           .attrs = "dtype: type = float; shape_dtype: type = int64",
           .shape = from_input<1>,
           .traits = kStateful,
           .kernels = {typed(cpu::tagged_random_kernel(RandomLaw::kNormal), kFloats)}});
  ops.add({.name = "RngSkip",
           .signature = "resource: resource, algorithm: int64, delta: int64 ->",
           .shape = shape::none,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::rng_skip))}});
  ops.add({.name = "RngReadAndSkip",
           .signature = "resource: resource, alg: int32, delta: uint64 -> value: int64",
           .shape = state_shape,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(kernel_from(cpu::rng_read_and_skip))}});
  ops.add({.name = "NonDeterministicInts",
           .signature = "shape: shape_dtype -> output: dtype",
           .attrs = "dtype: type = int64; shape_dtype: type = int64",
           .shape = shape::from_shape_input,
           .traits = kStateful,
           .kernels = {typed(kernel_from(cpu::non_deterministic_integers), kBitTypes)}});
}

void add_classes(OpTable& ops) {
  constexpr const char* kReal =
      "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, uint16, half, uint32, uint64}";
  ops.add({.name = "Multinomial",
           .signature = "logits: T, num_samples: int32 -> output: output_dtype",
           .attrs = str_cat("seed: int = 0; seed2: int = 0; ", kReal, "; output_dtype: {int32, int64} = int64"),
           .shape = multinomial_shape,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::multinomial_kernel(), kFloats)}});
  ops.add({.name = "StatelessMultinomial",
           .signature = "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype",
           .attrs = str_cat(kReal, "; Tseed: {int32, int64} = int64; output_dtype: {int32, int64} = int64"),
           .shape = multinomial_shape,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_multinomial_kernel(), kFloats)}});
}

// The last input is alpha, of which the samples of a shape, or of the dimensions in front, are repetitions.
void gamma_grad(GradContext& g) {
  Output alpha = g.input(g.num_inputs() - 1), sample = g.output(0);
  g.set(g.num_inputs() - 1, unbroadcast(mul(g.grad(), op1("RandomGammaGrad", {alpha, sample})), alpha, sample));
}

void add_laws(OpTable& ops) {
  ops.add({.name = "RandomGamma",
           .signature = "shape: S, alpha: T -> output: T",
           .attrs = "seed: int = 0; seed2: int = 0; S: {int32, int64}; T: {half, float, double}",
           .shape = shape_and_parameters,
           .grad = gamma_grad,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_gamma_kernel())}});
  ops.add({.name = "StatelessRandomGammaV2",
           .signature = "shape: T, seed: Tseed, alpha: dtype -> output: dtype",
           .attrs = "dtype: {half, float, double}; T: {int32, int64}; Tseed: {int32, int64} = int64",
           .shape = shape::from_shape_input,
           .grad = gamma_grad,
           .kernels = {TUTTI_CPU(cpu::stateless_gamma_kernel(PhiloxSource::kSeed))}});
  ops.add({.name = "StatelessRandomGammaV3",
           .signature = "shape: shape_dtype, key: uint64, counter: uint64, alg: int32, alpha: dtype -> output: dtype",
           .attrs = "dtype: {half, float, double}; shape_dtype: {int32, int64} = int32",
           .shape = shape::from_shape_input,
           .grad = gamma_grad,
           .kernels = {TUTTI_CPU(cpu::stateless_gamma_kernel(PhiloxSource::kCounter))}});
  ops.add({.name = "RandomPoissonV2",
           .signature = "shape: S, rate: R -> output: dtype",
           .attrs =
               "seed: int = 0; seed2: int = 0; S: {int32, int64}; R: {half, float, double, int32, int64} = double; "
               "dtype: {half, float, double, int32, int64} = int64",
           .shape = shape_and_parameters,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_poisson_kernel())}});
  ops.add({.name = "RandomPoisson",
           .signature = "shape: S, rate: dtype -> output: dtype",
           .attrs = "seed: int = 0; seed2: int = 0; S: {int32, int64}; dtype: {half, float, double}",
           .shape = shape_and_parameters,
           .traits = kStateful,
           .kernels = {TUTTI_CPU(cpu::random_poisson_kernel())}});
  ops.add({.name = "StatelessRandomPoisson",
           .signature = "shape: T, seed: Tseed, lam: Rtype -> output: dtype",
           .attrs = "Rtype: {half, float, double, int32, int64}; dtype: {half, float, double, int32, int64}; "
                    "T: {int32, int64}; Tseed: {int32, int64} = int64",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(cpu::stateless_poisson_kernel())}});
  ops.add({.name = "ParameterizedTruncatedNormal",
           .signature = "shape: T, means: dtype, stdevs: dtype, minvals: dtype, maxvals: dtype -> output: dtype",
           .attrs = "seed: int = 0; seed2: int = 0; dtype: {half, bfloat16, float, double}; T: {int32, int64}",
           .shape = shape::from_shape_input,
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {typed(cpu::parameterized_truncated_normal_kernel(),
                             DTypeSet{DType::kHalf, DType::kFloat, DType::kDouble})}});
}

}  // namespace

void add_random_law_ops(OpTable& ops) {
  add_stateless(ops, "StatelessRandomUniform", RandomLaw::kUniform);
  add_stateless(ops, "StatelessRandomNormal", RandomLaw::kNormal);
  add_stateless(ops, "StatelessTruncatedNormal", RandomLaw::kTruncatedNormal);
  add_stateless_integers(ops);
  add_keys(ops);
  add_generators(ops);
  add_classes(ops);
  add_laws(ops);
}

}  // namespace tutti::internal
