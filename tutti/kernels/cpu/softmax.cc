#include "tutti/kernels/cpu/softmax.h"

#include <array>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// An exponential costs about as much as eight plain elements.
std::int64_t row_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kElementGrain / 8 / std::max<std::int64_t>(1, columns));
}

class SoftmaxKernel : public Kernel {
 public:
  SoftmaxKernel(const KernelInit& init, bool log) : name_(init.op), wide_(compute_dtype(init.input_types[0].dtype)) {
    const internal::SoftmaxLoops loops = internal::find_softmax(wide_);
    loop_ = log ? loops.log_softmax : loops.softmax;
  }

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    if (in.rank() < 1) return invalid_argument(name_, ": logits must have >= 1 dimension, got ", in.shape());
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, in.shape()));
    if (in.num_elements() == 0) return {};
    const std::int64_t columns = in.dim(in.rank() - 1);
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, in, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor to, wide_output(context, *out, wide_));
    parallel_for(
        context.team(), in.num_elements() / columns, row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            loop_(at_element(wide_, from.raw(), i * columns), columns, at_element(wide_, to.raw(), i * columns));
          }
        });
    narrow_into(to, *out);
    return {};
  }

 private:
  const std::string name_;
  const DType wide_;
  void (*loop_)(const void*, std::int64_t, void*);
};

// Loss and backprop in the output's and in the compute type.
struct Outputs {
  Tensor* loss;
  Tensor* backprop;
  Tensor wide_loss;
  Tensor wide_backprop;

  static Result<Outputs> allocate(KernelContext& context, const Shape& matrix, DType wide) {
    Outputs o;
    TUTTI_ASSIGN_OR_RETURN(o.loss, context.allocate_output(0, Shape{matrix.dim(0)}));
    TUTTI_ASSIGN_OR_RETURN(o.backprop, context.allocate_output(1, matrix));
    TUTTI_ASSIGN_OR_RETURN(o.wide_loss, wide_output(context, *o.loss, wide));
    TUTTI_ASSIGN_OR_RETURN(o.wide_backprop, wide_output(context, *o.backprop, wide));
    return o;
  }
  void finish() {
    narrow_into(wide_loss, *loss);
    narrow_into(wide_backprop, *backprop);
  }
};

class CrossEntropyKernel : public Kernel {
 public:
  explicit CrossEntropyKernel(const KernelInit& init)
      : wide_(compute_dtype(init.input_types[0].dtype)), loop_(internal::find_softmax(wide_).cross_entropy) {}

  Status compute(KernelContext& context) override {
    const Tensor& features = context.input(0);
    const Tensor& labels = context.input(1);
    Result<Shape> shape = broadcast_shapes(features.shape(), labels.shape());
    if (!shape.ok() || shape->rank() != 2) {
      return invalid_argument(
          "SoftmaxCrossEntropyWithLogits: logits and labels must be broadcastable to one matrix: logits_size=",
          features.shape(), " labels_size=", labels.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Outputs out, Outputs::allocate(context, *shape, wide_));
    const std::int64_t columns = shape->dim(1);
    if (columns == 0) {
      zero_elements(out.loss->dtype(), out.loss->raw(), out.loss->num_elements());
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, features, wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor wanted, widened(context, labels, wide_));
    const Steps x(features.shape(), *shape);
    const Steps p(labels.shape(), *shape);
    parallel_for(context.team(), shape->dim(0), row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        loop_(at_element(wide_, from.raw(), i * x.row), at_element(wide_, wanted.raw(), i * p.row), x.column, p.column,
              columns, at_element(wide_, out.wide_loss.raw(), i),
              at_element(wide_, out.wide_backprop.raw(), i * columns));
      }
    });
    out.finish();
    return {};
  }

 private:
  // How an operand that may be a scalar, a row or a column walks through a matrix.
  struct Steps {
    Steps(const Shape& shape, const Shape& matrix) {
      const std::int64_t rows = shape.rank() < 2 ? 1 : shape.dim(0);
      const std::int64_t columns = shape.rank() < 1 ? 1 : shape.dim(shape.rank() - 1);
      column = columns == matrix.dim(1) && columns != 1 ? 1 : 0;
      row = rows == 1 && matrix.dim(0) != 1 ? 0 : columns;
    }
    std::int64_t row;
    int column;
  };

  const DType wide_;
  void (*const loop_)(const void*, const void*, int, int, std::int64_t, void*, void*);
};

class SparseCrossEntropyKernel : public Kernel {
 public:
  explicit SparseCrossEntropyKernel(const KernelInit& init)
      : wide_(compute_dtype(init.input_types[0].dtype)), loop_(internal::find_softmax(wide_).sparse_cross_entropy) {}

  Status compute(KernelContext& context) override {
    const Tensor& features = context.input(0);
    const Tensor& labels = context.input(1);
    TUTTI_RETURN_IF_ERROR(check(features.shape(), labels));
    TUTTI_ASSIGN_OR_RETURN(Outputs out, Outputs::allocate(context, features.shape(), wide_));
    TUTTI_ASSIGN_OR_RETURN(Tensor from, widened(context, features, wide_));
    const std::int64_t columns = features.dim(1);
    parallel_for(context.team(), features.dim(0), row_grain(columns), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        loop_(at_element(wide_, from.raw(), i * columns), index_at(labels.raw(), labels.dtype(), i), columns,
              at_element(wide_, out.wide_loss.raw(), i), at_element(wide_, out.wide_backprop.raw(), i * columns));
      }
    });
    out.finish();
    return {};
  }

 private:
  static Status check(const Shape& features, const Tensor& labels) {
    constexpr std::string_view op = "SparseSoftmaxCrossEntropyWithLogits";
    if (features.rank() != 2) return invalid_argument(op, ": logits must be 2-D, but got shape ", features);
    if (labels.rank() != 1) return invalid_argument(op, ": labels must be 1-D, but got shape ", labels.shape());
    if (features.dim(0) != labels.dim(0)) {
      return invalid_argument(op, ": logits and labels must have the same first dimension, got logits shape ", features,
                              " and labels shape ", labels.shape());
    }
    if (features.dim(1) == 0 && features.dim(0) > 0) {
      return invalid_argument(op, ": Must have at least one class, but got logits shape ", features);
    }
    for (std::int64_t i = 0; i < labels.num_elements(); ++i) {
      const std::int64_t label = index_at(labels.raw(), labels.dtype(), i);
      if (label < 0 || label >= features.dim(1)) {
        return invalid_argument(op, ": Received a label value of ", label, " which is outside the valid range of [0, ",
                                features.dim(1), "). It is labels[", i, "] of ", labels.num_elements());
      }
    }
    return {};
  }

  const DType wide_;
  void (*const loop_)(const void*, std::int64_t, std::int64_t, void*, void*);
};

}  // namespace

KernelFactory softmax_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<SoftmaxKernel>(init, false));
  };
}
KernelFactory log_softmax_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<SoftmaxKernel>(init, true));
  };
}
KernelFactory softmax_cross_entropy_kernel() { return kernel_of<CrossEntropyKernel>(); }
KernelFactory sparse_softmax_cross_entropy_kernel() { return kernel_of<SparseCrossEntropyKernel>(); }

}  // namespace tutti::cpu
