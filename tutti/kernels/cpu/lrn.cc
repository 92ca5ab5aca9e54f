#include "tutti/kernels/cpu/lrn.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

class LrnKernel : public Kernel {
 public:
  LrnKernel(const KernelInit& init, std::int64_t radius, bool backward)
      : name_(init.op),
        radius_(radius),
        bias_(init.attr<float>("bias")),
        alpha_(init.attr<float>("alpha")),
        beta_(init.attr<float>("beta")),
        backward_(backward) {}

  Status compute(KernelContext& context) override {
    const Tensor& first = context.input(0);
    if (first.rank() != 4) return invalid_argument(name_, ": in must be 4-dimensional, got ", first.shape());
    for (int i = 1; i < context.num_inputs(); ++i) {
      if (context.input(i).shape() != first.shape()) {
        return invalid_argument(name_, ": input_grads, input_image and output_image must have one shape, got ",
                                first.shape(), " and ", context.input(i).shape());
      }
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, first.shape()));
    if (first.num_elements() == 0) return {};
    TUTTI_ASSIGN_OR_RETURN(Tensor a, widened(context, first, DType::kFloat));
    Tensor x, y;
    if (backward_) {
      TUTTI_ASSIGN_OR_RETURN(x, widened(context, context.input(1), DType::kFloat));
      TUTTI_ASSIGN_OR_RETURN(y, widened(context, context.input(2), DType::kFloat));
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, DType::kFloat));
    const std::int64_t n = first.dim(3);
    // A power costs as much as some thirty plain elements.
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / 32 / n);
    parallel_for(context.team(), first.num_elements() / n, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin * n; i < end * n; i += n) {
        if (backward_) {
          differentiate(a.data<float>() + i, x.data<float>() + i, y.data<float>() + i, n, to.data<float>() + i);
        } else {
          normalise(a.data<float>() + i, n, to.data<float>() + i);
        }
      }
    });
    narrow_into(to, *out);
    return {};
  }

 private:
  std::int64_t first_neighbour(std::int64_t c) const { return std::max<std::int64_t>(0, c - radius_); }
  std::int64_t end_neighbour(std::int64_t c, std::int64_t n) const { return std::min(n, c + radius_ + 1); }

  // bias + alpha * squares around channel c of one pixel
  float level(const float* x, std::int64_t c, std::int64_t n) const {
    float squares = 0;
    for (std::int64_t k = first_neighbour(c); k < end_neighbour(c, n); ++k) squares += x[k] * x[k];
    return bias_ + alpha_ * squares;
  }

  void normalise(const float* x, std::int64_t n, float* to) const {
    for (std::int64_t c = 0; c < n; ++c) to[c] = x[c] * std::pow(level(x, c, n), -beta_);
  }

  void differentiate(const float* dy, const float* x, const float* y, std::int64_t n, float* to) const {
    std::fill_n(to, n, 0.0f);
    for (std::int64_t c = 0; c < n; ++c) {
      const float norm = level(x, c, n);
      const float factor = -2 * alpha_ * beta_ * y[c] / norm * dy[c];
      for (std::int64_t k = first_neighbour(c); k < end_neighbour(c, n); ++k) to[k] += factor * x[k];
      to[c] += std::pow(norm, -beta_) * dy[c];
    }
  }

  const std::string name_;
  const std::int64_t radius_;
  const float bias_, alpha_, beta_;
  const bool backward_;
};

KernelFactory lrn_factory(bool backward) {
  return [backward](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const std::int64_t radius = init.attr<std::int64_t>("depth_radius");
    if (radius < 0 || radius > std::numeric_limits<std::int32_t>::max()) {
      return invalid_argument(init.op, ": depth_radius = ", radius, " larger than int max");
    }
    return std::unique_ptr<Kernel>(std::make_unique<LrnKernel>(init, radius, backward));
  };
}

}  // namespace

KernelFactory lrn_kernel() { return lrn_factory(false); }
KernelFactory lrn_grad_kernel() { return lrn_factory(true); }

}  // namespace tutti::cpu
