#include "tutti/kernels/cpu/random.h"

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/random_fill.h"

namespace tutti::cpu {

namespace {

template <RandomLaw kLaw>
class RandomFloats : public Kernel {
 public:
  explicit RandomFloats(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    return fill_random(ctx.team(), kLaw, generator_.reserve_outputs(shape.num_elements()), *out);
  }

 private:
  SharedPhilox generator_;
};

class RandomUniformInt : public Kernel {
 public:
  explicit RandomUniformInt(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const Shape shape, read_shape(ctx.input(0), "shape"));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, shape));
    return fill_random_integers(ctx.team(), generator_.reserve_outputs(shape.num_elements()), ctx.input(1),
                                ctx.input(2), *out);
  }

 private:
  SharedPhilox generator_;
};

class RandomShuffle : public Kernel {
 public:
  explicit RandomShuffle(const KernelInit& init) : generator_(init) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& value = ctx.input(0);
    if (value.num_elements() <= 1 || value.dim(0) <= 1) {
      ctx.set_output(0, value);
      return {};
    }
    const std::int64_t rows = value.dim(0);
    PhiloxWords words(generator_.reserve(static_cast<std::uint64_t>((rows - 1 + 3) / 4)));
    std::vector<std::int64_t> order(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
    for (std::int64_t i = 0; i + 1 < rows; ++i) {
      const std::int64_t pick = i + words.next() % static_cast<std::uint32_t>(rows - i);
      std::swap(order[i], order[pick]);
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, value.shape()));
    const std::int64_t row = value.num_elements() / rows;
    for (std::int64_t i = 0; i < rows; ++i) {
      copy_elements(value.dtype(), at_element(value.dtype(), out->raw(), i * row),
                    at_element(value.dtype(), value.raw(), order[i] * row), row);
    }
    return {};
  }

 private:
  SharedPhilox generator_;
};

}  // namespace

KernelFactory random_uniform_kernel() { return kernel_of<RandomFloats<RandomLaw::kUniform>>(); }
KernelFactory random_normal_kernel() { return kernel_of<RandomFloats<RandomLaw::kNormal>>(); }
KernelFactory truncated_normal_kernel() { return kernel_of<RandomFloats<RandomLaw::kTruncatedNormal>>(); }
KernelFactory random_uniform_int_kernel() { return kernel_of<RandomUniformInt>(); }
KernelFactory random_shuffle_kernel() { return kernel_of<RandomShuffle>(); }

}  // namespace tutti::cpu
