#include "tutti/kernels/cpu/select.h"

#include <algorithm>
#include <array>
#include <complex>
#include <utility>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Copies `count` elements of the branch that each of the `rows` conditions chooses.
Status select_rows(KernelContext& context, std::int64_t rows, std::int64_t count) {
  const bool* condition = context.input(0).data<bool>();
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, yes.shape()));
  const DType dtype = yes.dtype();
  const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, count));
  parallel_for(context.team(), rows, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Tensor& from = condition[i] ? yes : no;
      copy_elements(dtype, at_element(dtype, out->raw(), i * count), at_element(dtype, from.raw(), i * count), count);
    }
  });
  return {};
}

// The shape that all three broadcast to.
Result<Shape> common_shape(const KernelContext& context) {
  const Shape& condition = context.input(0).shape();
  const Shape& yes = context.input(1).shape();
  const Shape& no = context.input(2).shape();
  Result<Shape> branches = broadcast_shapes(yes, no);
  if (branches.ok()) {
    Result<Shape> all = broadcast_shapes(condition, *branches);
    if (all.ok()) return all;
  }
  return invalid_argument("SelectV2: condition ", condition, ", t ", yes, " and e ", no,
                          " must be broadcastable to one shape");
}

template <typename E>
void select_elements(const Broadcast<3>& walk, const KernelContext& context, Tensor& out) {
  const bool* condition = context.input(0).data<bool>();
  const E* yes = static_cast<const E*>(context.input(1).raw());
  const E* no = static_cast<const E*>(context.input(2).raw());
  E* to = static_cast<E*>(out.raw());
  const auto [c_step, yes_step, no_step] = walk.row_step();
  parallel_for(context.team(), out.num_elements(), kElementGrain,
               [&, c = c_step, y = yes_step, n = no_step](std::int64_t begin, std::int64_t end) {
                 walk.for_elements(
                     begin, end, [&](std::int64_t at, const std::array<std::int64_t, 3>& from, std::int64_t count) {
                       for (std::int64_t i = 0; i < count; ++i) {
                         to[at + i] = condition[from[0] + i * c] ? yes[from[1] + i * y] : no[from[2] + i * n];
                       }
                     });
               });
}

// Complex numbers have no order: as in TensorFlow, each part is held between the same parts of the bounds.
template <typename R>
void clip_parts(const Tensor& t, const Tensor& low, const Tensor& high, Tensor& out) {
  using C = std::complex<R>;
  const std::int64_t low_step = low.rank() == 0 ? 0 : 1;
  const std::int64_t high_step = high.rank() == 0 ? 0 : 1;
  for (std::int64_t i = 0; i < t.num_elements(); ++i) {
    const C x = t.data<C>()[i], lower = low.data<C>()[i * low_step], upper = high.data<C>()[i * high_step];
    out.data<C>()[i] = {std::max(std::min(x.real(), upper.real()), lower.real()),
                        std::max(std::min(x.imag(), upper.imag()), lower.imag())};
  }
}

class ClipByValueKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType dtype = init.input_types[0].dtype;
    BinaryFunction minimum = BinaryFunction::find(BinaryOp::kMinimum, dtype);
    BinaryFunction maximum = BinaryFunction::find(BinaryOp::kMaximum, dtype);
    if ((!minimum || !maximum) && !is_complex(dtype))
      return unimplemented("ClipByValue of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(new ClipByValueKernel(minimum, maximum));
  }

  Status compute(KernelContext& context) override {
    const Tensor& t = context.input(0);
    for (int i = 1; i < 3; ++i) {
      const Shape& bound = context.input(i).shape();
      if (bound.rank() != 0 && bound != t.shape()) {
        return invalid_argument("ClipByValue: ", i == 1 ? "clip_value_min" : "clip_value_max", " of shape ", bound,
                                " must be a scalar or have the shape of the input, ", t.shape());
      }
    }
    // Not in place: the bounds may be the same memory as the input.
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, t.shape()));
    const Tensor& low = context.input(1);
    const Tensor& high = context.input(2);
    if (t.dtype() == DType::kComplex64) return clip_parts<float>(t, low, high, *out), Status();
    if (t.dtype() == DType::kComplex128) return clip_parts<double>(t, low, high, *out), Status();
    const std::int64_t size = minimum_.in_size();
    const int low_step = low.shape() == t.shape() ? 1 : 0;
    const int high_step = high.shape() == t.shape() ? 1 : 0;
    parallel_for(context.team(), t.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      char* to = static_cast<char*>(out->raw()) + begin * size;
      const auto from = [&](const Tensor& x, int step) {
        return static_cast<const char*>(x.raw()) + begin * step * size;
      };
      minimum_(from(t, 1), from(high, high_step), to, end - begin, 1, high_step);
      maximum_(to, from(low, low_step), to, end - begin, 1, low_step);
    });
    return {};
  }

 private:
  ClipByValueKernel(BinaryFunction minimum, BinaryFunction maximum) : minimum_(minimum), maximum_(maximum) {}
  const BinaryFunction minimum_;
  const BinaryFunction maximum_;
};

}  // namespace

Status select(KernelContext& context) {
  const Tensor& condition = context.input(0);
  const Tensor& yes = context.input(1);
  const Tensor& no = context.input(2);
  if (yes.shape() != no.shape()) {
    return invalid_argument("Select: 'then' and 'else' must have the same size, but received ", yes.shape(), " vs. ",
                            no.shape());
  }
  if (condition.rank() == 0) {
    context.set_output(0, condition.scalar<bool>() ? yes : no);
    return {};
  }
  if (condition.shape() == yes.shape()) return select_v2(context);
  if (condition.rank() == 1 && yes.rank() >= 1 && condition.dim(0) == yes.dim(0)) {
    return select_rows(context, yes.dim(0), elements_from(yes.shape(), 1));
  }
  return invalid_argument("Select: condition of shape ", condition.shape(), " must be a scalar, a vector of ",
                          "as many elements as the first dimension of ", yes.shape(), ", or have that shape");
}

Status select_v2(KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(Shape shape, common_shape(context));
  const Tensor& condition = context.input(0);
  if (condition.num_elements() == 1) {
    const Tensor& chosen = context.input(condition.scalar<bool>() ? 1 : 2);
    if (chosen.shape() == shape) {
      context.set_output(0, chosen);
      return {};
    }
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, shape));
  const Broadcast<3> walk(shape, {&condition.shape(), &context.input(1).shape(), &context.input(2).shape()});
  with_element(out->dtype(), [&](auto element) { select_elements<decltype(element)>(walk, context, *out); });
  return {};
}

KernelFactory clip_by_value_kernel() { return kernel_of<ClipByValueKernel>(); }

}  // namespace tutti::cpu
