#include "tutti/kernels/cpu/matmul.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Multiply-adds of products that are worth a thread.
constexpr double kPieceWork = 100'000;

// The sizes of a product of two matrices; an error gives both shapes.
Result<GemmShape> product_shape(std::string_view op, const Shape& a, const Shape& b, bool transpose_a,
                                bool transpose_b) {
  if (a.rank() != 2) return invalid_argument(op, ": In[0] is not a matrix. Instead it has shape ", a);
  if (b.rank() != 2) return invalid_argument(op, ": In[1] is not a matrix. Instead it has shape ", b);
  GemmShape shape{.m = a.dim(transpose_a ? 1 : 0),
                  .n = b.dim(transpose_b ? 0 : 1),
                  .k = a.dim(transpose_a ? 0 : 1),
                  .transpose_a = transpose_a,
                  .transpose_b = transpose_b};
  if (shape.k != b.dim(transpose_b ? 1 : 0)) {
    return invalid_argument(op, ": Matrix size-incompatible: In[0]: ", a, ", In[1]: ", b);
  }
  return shape;
}

// What the attributes of a product of two matrices say.
struct ProductAttrs {
  explicit ProductAttrs(const KernelInit& init)
      : op(init.op), transpose_a(init.attr<bool>("transpose_a")), transpose_b(init.attr<bool>("transpose_b")) {}
  Result<GemmShape> shape(const Tensor& a, const Tensor& b) const {
    return product_shape(op, a.shape(), b.shape(), transpose_a, transpose_b);
  }

  const std::string op;
  const bool transpose_a;
  const bool transpose_b;
};

class MatMulKernel : public Kernel {
 public:
  explicit MatMulKernel(const KernelInit& init) : attrs_(init), dtype_(init.input_types[0].dtype) {}

  Status compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    TUTTI_ASSIGN_OR_RETURN(GemmShape shape, attrs_.shape(a, b));
    TUTTI_ASSIGN_OR_RETURN(Shape out_shape, Shape::create(std::array{shape.m, shape.n}));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, out_shape));
    return multiply(dtype_, shape, a.raw(), b.raw(), out->raw(), context.team(), context.allocator());
  }

 private:
  const ProductAttrs attrs_;
  const DType dtype_;
};

// Bias and activation are applied row by row while the product is still in cache. They are not handed to oneDNN: its
// Relu turns NaN into 0, which would hide a diverged model.
class FusedMatMulKernel : public Kernel {
 public:
  explicit FusedMatMulKernel(const KernelInit& init)
      : multiply_(init), add_(BinaryFunction::find(BinaryOp::kAdd, init.input_types[0].dtype)) {
    if (std::optional<UnaryOp> op = activation_named(init.attr<std::string>("activation"))) {
      activation_ = UnaryFunction::find(*op, init.input_types[0].dtype);
    }
  }

  Status compute(KernelContext& context) override {
    TUTTI_RETURN_IF_ERROR(multiply_.compute(context));
    Tensor& out = context.output(0);
    const Tensor& bias = context.input(2);
    if (bias.rank() != 1 || bias.dim(0) != out.dim(1)) {
      return invalid_argument("_FusedMatMul: bias of shape ", bias.shape(), " does not fit a product of shape ",
                              out.shape());
    }
    const std::int64_t columns = out.dim(1);
    const std::int64_t row_bytes = columns * add_.in_size();
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / std::max<std::int64_t>(1, columns));
    parallel_for(context.team(), out.dim(0), grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        char* row = static_cast<char*>(out.raw()) + i * row_bytes;
        add_(row, bias.raw(), row, columns, 1, 1);
        if (activation_) activation_(row, row, columns);
      }
    });
    return {};
  }

 private:
  MatMulKernel multiply_;
  const BinaryFunction add_;
  UnaryFunction activation_;
};

// A sum that a loop adds a product to in each iteration.
class MatMulAddKernel : public Kernel {
 public:
  explicit MatMulAddKernel(const KernelInit& init)
      : attrs_(init), add_(BinaryFunction::find(BinaryOp::kAdd, DType::kFloat)) {}

  Status compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    TUTTI_ASSIGN_OR_RETURN(GemmShape shape, attrs_.shape(a, b));
    TUTTI_ASSIGN_OR_RETURN(const Shape product, Shape::create(std::array{shape.m, shape.n}));
    const double work = static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
    if (context.input(2).shape() != product || work < kPieceWork) return add_after(context, shape, product);
    const void* const sum = context.input(2).raw();
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(2, 0, product));
    if (out->raw() != sum) std::memcpy(out->raw(), sum, out->bytes());
    return accumulating_gemm(shape, a.data<float>(), b.data<float>(), out->data<float>(), context.team());
  }

 private:
  // Of small products, whose loops take less time than calling oneDNN, and of shapes that are broadcast.
  Status add_after(KernelContext& context, const GemmShape& shape, const Shape& product_shape) const {
    const Tensor& sum = context.input(2);
    TUTTI_ASSIGN_OR_RETURN(const Shape out_shape, broadcast_shapes(sum.shape(), product_shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor product, context.allocate_temp(DType::kFloat, product_shape));
    TUTTI_RETURN_IF_ERROR(multiply(DType::kFloat, shape, context.input(0).raw(), context.input(1).raw(), product.raw(),
                                   context.team(), context.allocator()));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(2, 0, out_shape));
    const Broadcast<2> walk(out_shape, {&sum.shape(), &product_shape});
    walk.for_rows(0, walk.rows(), [&](std::int64_t to, const std::array<std::int64_t, 2>& from) {
      add_(sum.data<float>() + from[0], product.data<float>() + from[1], out->data<float>() + to, walk.row_size(),
           walk.row_step()[0], walk.row_step()[1]);
    });
    return {};
  }

  const ProductAttrs attrs_;
  const BinaryFunction add_;
};

class BatchMatMulKernel : public Kernel {
 public:
  explicit BatchMatMulKernel(const KernelInit& init)
      : name_(init.op),
        adj_x_(init.attr<bool>("adj_x")),
        adj_y_(init.attr<bool>("adj_y")),
        dtype_(init.output_types[0].dtype) {
    if (is_complex(dtype_)) conj_ = UnaryFunction::find(UnaryOp::kConj, dtype_);
  }

  Status compute(KernelContext& context) override {
    const Tensor& x = context.input(0);
    const Tensor& y = context.input(1);
    if (x.rank() < 2 || y.rank() < 2) {
      return invalid_argument(name_, ": In[0] ndims must be >= 2 and In[1] ndims must be >= 2, got shapes ", x.shape(),
                              " and ", y.shape());
    }
    const Shape batch_x(x.shape().dims().first(static_cast<std::size_t>(x.rank() - 2)));
    const Shape batch_y(y.shape().dims().first(static_cast<std::size_t>(y.rank() - 2)));
    Result<Shape> batch = broadcast_shapes(batch_x, batch_y);
    if (name_ == "BatchMatMul" && batch_x != batch_y) {
      return invalid_argument(name_, ": In[0] and In[1] must have the same batch dimensions: ", x.shape(), " vs. ",
                              y.shape());
    }
    Result<GemmShape> shape = product_shape(name_, last_two(x.shape()), last_two(y.shape()), adj_x_, adj_y_);
    if (!batch.ok()) {
      return invalid_argument(name_, ": In[0] and In[1] must have compatible batch dimensions: ", x.shape(), " vs. ",
                              y.shape());
    }
    if (!shape.ok()) {
      return invalid_argument(name_, ": Matrix size-incompatible: In[0]: ", x.shape(), ", In[1]: ", y.shape());
    }
    std::vector<std::int64_t> dims(batch->dims().begin(), batch->dims().end());
    dims.push_back(shape->m);
    dims.push_back(shape->n);
    TUTTI_ASSIGN_OR_RETURN(Shape out_shape, Shape::create(dims));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, out_shape));
    // BatchMatMulV3 takes small integers and multiplies them in the type of the product.
    TUTTI_ASSIGN_OR_RETURN(const Tensor wide_x, widened(context, x, dtype_));
    TUTTI_ASSIGN_OR_RETURN(const Tensor wide_y, widened(context, y, dtype_));
    TUTTI_ASSIGN_OR_RETURN(Tensor left, conjugated(context, wide_x, adj_x_));
    TUTTI_ASSIGN_OR_RETURN(Tensor right, conjugated(context, wide_y, adj_y_));
    return multiply_all(context, *shape, Broadcast<2>(*batch, {&batch_x, &batch_y}), left, right, *out);
  }

 private:
  static Shape last_two(const Shape& shape) { return {shape.dim(shape.rank() - 2), shape.dim(shape.rank() - 1)}; }

  Result<Tensor> conjugated(KernelContext& context, const Tensor& x, bool adjoint) const {
    if (!adjoint || !conj_) return x;
    TUTTI_ASSIGN_OR_RETURN(Tensor result, context.allocate_temp(x.dtype(), x.shape()));
    conj_(x.raw(), result.raw(), x.num_elements());
    return result;
  }

  // Many products run side by side, whichever row of the walk they are in; few are split themselves.
  Status multiply_all(KernelContext& context, const GemmShape& s, const Broadcast<2>& walk, const Tensor& x,
                      const Tensor& y, Tensor& out) const {
    const auto [x_step, y_step] = walk.row_step();
    const std::int64_t products = walk.rows() * walk.row_size();
    const bool apart = products >= context.team().size();
    Team& inner = apart ? Team::alone() : context.team();
    Team& outer = apart ? context.team() : Team::alone();
    std::atomic<bool> failed = false;
    Status first_error;
    const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const auto grain = static_cast<std::int64_t>(std::max(1.0, kPieceWork / std::max(1.0, work)));
    parallel_for(outer, products, grain, [&, x_by = x_step, y_by = y_step](std::int64_t begin, std::int64_t end) {
      const std::int64_t row = walk.row_size();
      walk.for_rows(begin / row, (end + row - 1) / row, [&](std::int64_t to, const std::array<std::int64_t, 2>& from) {
        const std::int64_t last = std::min(row, end - to);
        for (std::int64_t i = std::max<std::int64_t>(0, begin - to); i < last && !failed; ++i) {
          Status status = multiply(dtype_, s, at_element(dtype_, x.raw(), (from[0] + i * x_by) * s.m * s.k),
                                   at_element(dtype_, y.raw(), (from[1] + i * y_by) * s.k * s.n),
                                   at_element(dtype_, out.raw(), (to + i) * s.m * s.n), inner, context.allocator());
          if (!status.ok() && !failed.exchange(true)) first_error = std::move(status);
        }
      });
    });
    return first_error;
  }

  const std::string name_;
  const bool adj_x_;
  const bool adj_y_;
  const DType dtype_;
  UnaryFunction conj_;
};

template <typename K>
KernelFactory product_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    for (const EdgeType& type : init.input_types) {
      if (!can_multiply(type.dtype)) return unimplemented(init.op, " of ", dtype_name(type.dtype), " is not supported");
    }
    return std::unique_ptr<Kernel>(std::make_unique<K>(init));
  };
}

}  // namespace

KernelFactory matmul_kernel() { return product_kernel<MatMulKernel>(); }
KernelFactory fused_matmul_kernel() { return product_kernel<FusedMatMulKernel>(); }
KernelFactory matmul_add_kernel() { return product_kernel<MatMulAddKernel>(); }
KernelFactory batch_matmul_kernel() { return product_kernel<BatchMatMulKernel>(); }

}  // namespace tutti::cpu
