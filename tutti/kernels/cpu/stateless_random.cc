#include "tutti/kernels/cpu/stateless_random.h"

#include <memory>

#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {

namespace {

std::uint64_t seed_at(const Tensor& seed, int i) {
  return static_cast<std::uint64_t>(index_at(seed.raw(), seed.dtype(), i));
}

Status check_seed_shape(const Tensor& seed) {
  if (seed.rank() == 1 && seed.dim(0) == 2) return {};
  return invalid_argument("seed must have shape [2], not ", seed.shape());
}

}  // namespace

Result<Philox> philox_of_seed(const Tensor& seed) {
  TUTTI_RETURN_IF_ERROR(check_seed_shape(seed));
  if (seed.dtype() != DType::kInt32 && seed.dtype() != DType::kInt64) {
    return invalid_argument("Invalid seed type: ", dtype_name(seed.dtype()));
  }
  // Scrambled, so that it does not matter which part of the seed is strong.
  constexpr std::uint64_t kScrambler = 0x02461e293ec8f720;
  const Philox::Block mixed = Philox(kScrambler, seed_at(seed, 0), seed_at(seed, 1)).next();
  return Philox(mixed[0] | std::uint64_t{mixed[1]} << 32, 0, mixed[2] | std::uint64_t{mixed[3]} << 32);
}

Result<Philox> philox_of_counter(const Tensor& key, const Tensor& counter, const Tensor& algorithm) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t which, read_scalar_integer(algorithm, "alg"));
  if (which != kPhiloxAlgorithm && which != kAnyAlgorithm) {
    return invalid_argument("Unsupported algorithm id: ", which, "; only Philox (1) is there");
  }
  if (key.rank() != 1 || key.dim(0) != 1) return invalid_argument("key must have shape [1], not ", key.shape());
  if (counter.rank() != 1 || counter.dim(0) < 2) {
    return invalid_argument("counter must be a vector of at least 2 elements, not ", counter.shape());
  }
  const std::uint64_t* words = counter.data<std::uint64_t>();
  return Philox(key.scalar<std::uint64_t>(), words[0], words[1]);
}

Result<Philox> philox_of_inputs(KernelContext& ctx, PhiloxSource source) {
  if (source == PhiloxSource::kSeed) return philox_of_seed(ctx.input(1));
  return philox_of_counter(ctx.input(1), ctx.input(2), ctx.input(3));
}

namespace {

// Fill: Status(KernelContext&, const Philox&, Tensor& out).
template <typename Fill>
KernelFactory filling_kernel(PhiloxSource source, Fill fill) {
  class Filling : public Kernel {
   public:
    Filling(PhiloxSource from, Fill with) : source_(from), fill_(with) {}
    Status compute(KernelContext& ctx) override {
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
      TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
      // Of a seed without use TensorFlow does not look at the type.
      if (source_ == PhiloxSource::kSeed && shape.num_elements() == 0) return check_seed_shape(ctx.input(1));
      TUTTI_ASSIGN_OR_RETURN(const Philox generator, philox_of_inputs(ctx, source_));
      return fill_(ctx, generator, *out);
    }

   private:
    const PhiloxSource source_;
    const Fill fill_;
  };
  return [source, fill](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Filling>(source, fill));
  };
}

}  // namespace

KernelFactory stateless_random_kernel(RandomLaw law, PhiloxSource source) {
  return filling_kernel(source, [law](KernelContext& ctx, const Philox& generator, Tensor& out) {
    return fill_random(ctx.team(), law, generator, out);
  });
}

KernelFactory stateless_integers_kernel(PhiloxSource source) {
  return filling_kernel(
      source, [first = first_parameter(source)](KernelContext& ctx, const Philox& generator, Tensor& out) {
        if (out.num_elements() == 0) return Status();  // TensorFlow does not look at bounds without use
        return fill_random_integers(ctx.team(), generator, ctx.input(first), ctx.input(first + 1), out);
      });
}

KernelFactory stateless_bits_kernel(PhiloxSource source) {
  return filling_kernel(source, [](KernelContext& ctx, const Philox& generator, Tensor& out) {
    return fill_random_bits(ctx.team(), generator, out);
  });
}

Status stateless_algorithm(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(ctx.num_outputs() - 1, Shape{}));
  *out->data<std::int32_t>() = static_cast<std::int32_t>(kPhiloxAlgorithm);
  return {};
}

Status stateless_key_counter(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const Philox generator, philox_of_seed(ctx.input(0)));
  TUTTI_ASSIGN_OR_RETURN(Tensor * key, ctx.allocate_output(0, Shape{1}));
  TUTTI_ASSIGN_OR_RETURN(Tensor * counter, ctx.allocate_output(1, Shape{2}));
  key->data<std::uint64_t>()[0] = generator.key();
  counter->data<std::uint64_t>()[0] = generator.low();
  counter->data<std::uint64_t>()[1] = generator.high();
  return ctx.num_outputs() > 2 ? stateless_algorithm(ctx) : Status();
}

}  // namespace tutti::cpu
