#include "tutti/kernels/cpu/stateful_random.h"

#include <algorithm>
#include <memory>
#include <random>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/stateless_random.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/variable.h"

namespace tutti::cpu {

namespace {

constexpr std::int64_t kStateSize = 3;

Status check_state(const Tensor& state, std::int64_t tags, std::int64_t algorithm) {
  if (state.dtype() != DType::kInt64) {
    return invalid_argument("dtype of RNG state variable must be int64, not ", dtype_name(state.dtype()));
  }
  if (state.rank() != 1) {
    return invalid_argument("RNG state must have one and only one dimension, not ", state.rank());
  }
  if (tags > 0 && state.dim(0) < tags) return invalid_argument("size of the RNG state must be at least ", tags);
  if (tags > 0) algorithm = state.data<std::int64_t>()[0];
  if (algorithm != kPhiloxAlgorithm) return invalid_argument("Unsupported algorithm id: ", algorithm);
  if (state.dim(0) < tags + kStateSize) {
    return invalid_argument("For the Philox algorithm, the size of state must be at least ", tags + kStateSize,
                            "; got ", state.dim(0));
  }
  return {};
}

// Moves the generator in input 0 on, by what `outputs` elements may use up, and gives it as it was. `tags`: elements
// before its state, of which the first is the algorithm. `old`: gets the state as it was.
Result<Philox> take_generator(KernelContext& ctx, std::int64_t tags, std::int64_t algorithm, std::uint64_t outputs,
                              Tensor* old = nullptr) {
  TUTTI_ASSIGN_OR_RETURN(const std::shared_ptr<ResourceSlot> slot, input_slot(ctx, 0));
  TUTTI_ASSIGN_OR_RETURN(VariableUpdate update, VariableUpdate::begin({&slot, 1}, /*copy_old=*/true));
  TUTTI_RETURN_IF_ERROR(check_state(update.old_value(0), tags, algorithm));
  const std::int64_t* words = update.old_value(0).data<std::int64_t>() + tags;
  if (old != nullptr) std::copy_n(words, kStateSize, old->data<std::int64_t>());
  const Philox generator(static_cast<std::uint64_t>(words[2]), static_cast<std::uint64_t>(words[0]),
                         static_cast<std::uint64_t>(words[1]));
  Philox next = generator;
  next.skip(outputs * kBlocksPerOutput);
  std::int64_t* to = update.new_value(0).data<std::int64_t>() + tags;
  to[0] = static_cast<std::int64_t>(next.low());
  to[1] = static_cast<std::int64_t>(next.high());
  update.commit();
  return generator;
}

// Fill: Status(KernelContext&, const Philox&, Tensor& out). `tags` as above.
template <typename Fill>
KernelFactory generating_kernel(std::int64_t tags, Fill fill) {
  class Generating : public Kernel {
   public:
    Generating(std::int64_t before, Fill with) : tags_(before), fill_(with) {}
    Status compute(KernelContext& ctx) override {
      std::int64_t algorithm = 0;
      if (tags_ == 0) {
        TUTTI_ASSIGN_OR_RETURN(algorithm, read_scalar_integer(ctx.input(1), "algorithm"));
      }
      TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(tags_ == 0 ? 2 : 1), "shape"));
      TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
      TUTTI_ASSIGN_OR_RETURN(const Philox generator,
                             take_generator(ctx, tags_, algorithm, static_cast<std::uint64_t>(shape.num_elements())));
      return fill_(ctx, generator, *out);
    }

   private:
    const std::int64_t tags_;
    const Fill fill_;
  };
  return [tags, fill](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Generating>(tags, fill));
  };
}

auto filler(RandomLaw law) {
  return [law](KernelContext& ctx, const Philox& generator, Tensor& out) {
    return fill_random(ctx.team(), law, generator, out);
  };
}

// The bounds are looked at before the generator moves on.
class StatefulIntegers : public Kernel {
 public:
  explicit StatefulIntegers(const KernelInit&) {}
  Status compute(KernelContext& ctx) override {
    const Tensor &low = ctx.input(3), &high = ctx.input(4);
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t algorithm, read_scalar_integer(ctx.input(1), "algorithm"));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t least, read_scalar_integer(low, "minval"));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t limit, read_scalar_integer(high, "maxval"));
    if (least >= limit) return invalid_argument("Need minval < maxval, got ", least, " >= ", limit);
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(2), "shape"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    TUTTI_ASSIGN_OR_RETURN(const Philox generator,
                           take_generator(ctx, 0, algorithm, static_cast<std::uint64_t>(shape.num_elements())));
    return fill_random_integers(ctx.team(), generator, low, high, *out);
  }
};

}  // namespace

KernelFactory stateful_random_kernel(RandomLaw law) { return generating_kernel(0, filler(law)); }
KernelFactory tagged_random_kernel(RandomLaw law) { return generating_kernel(1, filler(law)); }
KernelFactory stateful_integers_kernel() { return kernel_of<StatefulIntegers>(); }
KernelFactory stateful_bits_kernel() {
  return generating_kernel(0, [](KernelContext& ctx, const Philox& generator, Tensor& out) {
    return fill_random_bits(ctx.team(), generator, out);
  });
}

Status rng_skip(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t algorithm, read_scalar_integer(ctx.input(1), "algorithm"));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t delta, read_scalar_integer(ctx.input(2), "delta"));
  return take_generator(ctx, 0, algorithm, static_cast<std::uint64_t>(delta)).status();
}

Status rng_read_and_skip(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t algorithm, read_scalar_integer(ctx.input(1), "alg"));
  const Tensor& delta = ctx.input(2);
  if (delta.rank() != 0) return invalid_argument("delta must be a scalar, got shape ", delta.shape());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{kStateSize}));
  return take_generator(ctx, 0, algorithm, delta.scalar<std::uint64_t>(), out).status();
}

Status non_deterministic_integers(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
  std::random_device entropy;
  const auto word = [&] { return (std::uint64_t{entropy()} << 32) | entropy(); };
  return fill_random_bits(ctx.team(), Philox(word(), word(), word()), *out);
}

}  // namespace tutti::cpu
