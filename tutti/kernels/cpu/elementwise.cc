#include "tutti/kernels/cpu/elementwise.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "tutti/kernels/cpu/broadcast.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {
namespace {

// Elements converted at a time: two operands and a result of 8 to 16 bytes each stay in the first-level cache.
constexpr std::int64_t kBlock = 512;
constexpr std::int64_t kMaxWide = 16;

bool is_predicate(UnaryOp op) { return op == UnaryOp::kIsNan || op == UnaryOp::kIsInf || op == UnaryOp::kIsFinite; }

bool is_comparison(BinaryOp op) { return op >= BinaryOp::kLess && op <= BinaryOp::kNotEqual; }

bool divides(BinaryOp op) {
  return op == BinaryOp::kDiv || op == BinaryOp::kFloorDiv || op == BinaryOp::kFloorMod ||
         op == BinaryOp::kTruncateDiv || op == BinaryOp::kTruncateMod;
}

const char* at(const void* base, std::int64_t bytes) { return static_cast<const char*>(base) + bytes; }
char* at(void* base, std::int64_t bytes) { return static_cast<char*>(base) + bytes; }

}  // namespace

UnaryFunction UnaryFunction::of(UnaryLoop for_float, UnaryLoop for_double, DType dtype) {
  UnaryFunction result;
  const DType wide = compute_dtype(dtype);
  if (wide == DType::kFloat) result.loop_ = for_float;
  if (wide == DType::kDouble) result.loop_ = for_double;
  result.in_size_ = result.out_size_ = static_cast<std::int64_t>(element_stride(dtype));
  if (wide != dtype) {
    result.widen_ = find_convert(dtype, wide);
    result.narrow_ = find_convert(wide, dtype);
  }
  return result;
}

UnaryFunction UnaryFunction::find(UnaryOp op, DType dtype) {
  UnaryFunction result;
  const DType wide = compute_dtype(dtype);
  result.loop_ = internal::find_simd_unary(op, wide);
  if (result.loop_ == nullptr) result.loop_ = internal::find_plain_unary(op, wide);
  result.in_size_ = static_cast<std::int64_t>(element_stride(dtype));
  result.out_size_ = is_predicate(op) ? 1 : result.in_size_;
  if (wide != dtype) {
    result.widen_ = find_convert(dtype, wide);
    if (!is_predicate(op)) result.narrow_ = find_convert(wide, dtype);
  }
  return result;
}

void UnaryFunction::operator()(const void* in, void* out, std::int64_t n, float param) const {
  if (widen_ == nullptr) return loop_(in, out, n, param);
  alignas(64) char wide[kBlock * kMaxWide];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    widen_(at(in, i * in_size_), wide, count);
    if (narrow_ == nullptr) {
      loop_(wide, at(out, i * out_size_), count, param);
    } else {
      loop_(wide, wide, count, param);
      narrow_(wide, at(out, i * out_size_), count);
    }
  }
}

BinaryFunction BinaryFunction::find(BinaryOp op, DType dtype) {
  BinaryFunction result;
  const DType wide = compute_dtype(dtype);
  if (is_comparison(op)) {
    result.loop_ = internal::find_comparison(op, wide);
  } else {
    result.loop_ = internal::find_simd_binary(op, wide);
    if (result.loop_ == nullptr) result.loop_ = internal::find_plain_binary(op, wide);
  }
  result.in_size_ = static_cast<std::int64_t>(element_stride(dtype));
  result.out_size_ = is_comparison(op) ? 1 : result.in_size_;
  if (wide != dtype) {
    result.widen_ = find_convert(dtype, wide);
    if (!is_comparison(op)) result.narrow_ = find_convert(wide, dtype);
  }
  return result;
}

void BinaryFunction::operator()(const void* a, const void* b, void* out, std::int64_t n, int a_step, int b_step,
                                float param) const {
  if (widen_ == nullptr) return loop_(a, b, out, n, a_step, b_step, param);
  alignas(64) char wide_a[kBlock * kMaxWide];
  alignas(64) char wide_b[kBlock * kMaxWide];
  for (std::int64_t i = 0; i < n; i += kBlock) {
    const std::int64_t count = std::min(kBlock, n - i);
    if (i == 0 || a_step != 0) widen_(at(a, i * a_step * in_size_), wide_a, a_step != 0 ? count : 1);
    if (i == 0 || b_step != 0) widen_(at(b, i * b_step * in_size_), wide_b, b_step != 0 ? count : 1);
    if (narrow_ == nullptr) {
      loop_(wide_a, wide_b, at(out, i * out_size_), count, a_step, b_step, param);
      continue;
    }
    alignas(64) char wide_out[kBlock * kMaxWide];
    loop_(wide_a, wide_b, wide_out, count, a_step, b_step, param);
    narrow_(wide_out, at(out, i * out_size_), count);
  }
}

void run_elementwise(const BinaryFunction& function, const Tensor& a, const Tensor& b, Tensor& out, Team& team,
                     float param) {
  const std::int64_t n = out.num_elements();
  const std::int64_t in_size = function.in_size();
  parallel_for(team, n, kElementGrain, [&](std::int64_t begin, std::int64_t end) {
    function(at(a.raw(), begin * in_size), at(b.raw(), begin * in_size), at(out.raw(), begin * function.out_size()),
             end - begin, 1, 1, param);
  });
}

namespace {

float parameter_of(const KernelInit& init) {
  auto it = init.attrs.find("alpha");
  if (it == init.attrs.end()) return 0;
  const float* alpha = it->second.get<float>();
  return alpha != nullptr ? *alpha : 0;
}

class UnaryKernel : public Kernel {
 public:
  UnaryKernel(UnaryFunction function, float param) : function_(function), param_(param) {}

  Status compute(KernelContext& context) override {
    const Tensor& in = context.input(0);
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(0, 0, in.shape()));
    const std::int64_t in_size = static_cast<std::int64_t>(element_stride(in.dtype()));
    const std::int64_t out_size = static_cast<std::int64_t>(element_stride(out->dtype()));
    parallel_for(context.team(), in.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      function_(at(in.raw(), begin * in_size), at(out->raw(), begin * out_size), end - begin, param_);
    });
    return {};
  }

 private:
  const UnaryFunction function_;
  const float param_;
};

class BinaryKernel : public Kernel {
 public:
  BinaryKernel(BinaryOp op, const KernelInit& init, BinaryFunction function)
      : op_(op), function_(function), param_(parameter_of(init)), name_(init.op) {
    const DType dtype = init.input_types[0].dtype;
    checks_integers_ = is_integer(dtype) && (divides(op) || op == BinaryOp::kPow);
    if (auto it = init.attrs.find("incompatible_shape_error"); it != init.attrs.end()) {
      const bool* error = it->second.get<bool>();
      shape_error_ = error == nullptr || *error;
    }
    if (checks_integers_) {
      const DType wide = compute_dtype(dtype);
      is_forbidden_ = BinaryFunction::find(divides(op) ? BinaryOp::kEqual : BinaryOp::kLess, wide);
      to_wide_ = wide == dtype ? nullptr : find_convert(dtype, wide);
    }
  }

  Status compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.shape() == b.shape()) return run_flat(context, a, b, a.shape(), 1, 1);
    // One side a single element, the other of the result's shape.
    if (b.num_elements() == 1 && b.rank() <= a.rank()) return run_flat(context, a, b, a.shape(), 1, 0);
    if (a.num_elements() == 1 && a.rank() <= b.rank()) return run_flat(context, a, b, b.shape(), 0, 1);
    return run_broadcast(context, a, b);
  }

 private:
  Status run_flat(KernelContext& context, const Tensor& a, const Tensor& b, const Shape& shape, int a_step,
                  int b_step) {
    TUTTI_RETURN_IF_ERROR(check_values(b, shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, output_for(context, shape));
    const std::int64_t size = function_.in_size();
    parallel_for(context.team(), shape.num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      function_(at(a.raw(), begin * a_step * size), at(b.raw(), begin * b_step * size),
                at(out->raw(), begin * function_.out_size()), end - begin, a_step, b_step, param_);
    });
    return {};
  }

  Status run_broadcast(KernelContext& context, const Tensor& a, const Tensor& b) {
    Result<Shape> shape = broadcast_shapes(a.shape(), b.shape());
    if (!shape.ok()) {
      if (!shape_error_) return answer_mismatch(context);
      return invalid_argument(name_, ": Incompatible shapes: ", a.shape(), " vs. ", b.shape());
    }
    TUTTI_RETURN_IF_ERROR(check_values(b, *shape));
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, output_for(context, *shape));
    const Broadcast<2> walk(*shape, {&a.shape(), &b.shape()});
    const std::int64_t size = function_.in_size();
    parallel_for(context.team(), shape->num_elements(), kElementGrain, [&](std::int64_t begin, std::int64_t end) {
      walk.for_elements(begin, end, [&](std::int64_t to, const std::array<std::int64_t, 2>& from, std::int64_t count) {
        function_(at(a.raw(), from[0] * size), at(b.raw(), from[1] * size), at(out->raw(), to * function_.out_size()),
                  count, walk.row_step()[0], walk.row_step()[1], param_);
      });
    });
    return {};
  }

  // Writes over an operand with as many elements as the result when it is free: such an operand is read in the
  // order of the result.
  static Result<Tensor*> output_for(KernelContext& context, const Shape& shape) {
    if (Tensor* forwarded = context.forward(0, 0, shape)) return forwarded;
    return context.forward_or_allocate(1, 0, shape);
  }

  Status answer_mismatch(KernelContext& context) {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{}));
    out->data<bool>()[0] = op_ == BinaryOp::kNotEqual;
    return {};
  }

  // Integer division by zero and negative powers have no answer.
  Status check_values(const Tensor& b, const Shape& out) const {
    if (!checks_integers_ || out.num_elements() == 0 || !has_forbidden(b)) return {};
    if (op_ == BinaryOp::kPow) return invalid_argument(name_, ": Integers to negative integer powers are not allowed");
    return invalid_argument(name_, ": Integer division by zero");
  }

  bool has_forbidden(const Tensor& b) const {
    const std::int64_t zero = 0;  // also reads as a zero of any narrower type
    alignas(64) char wide[kBlock * 8];
    bool found[kBlock];
    for (std::int64_t i = 0; i < b.num_elements(); i += kBlock) {
      const std::int64_t count = std::min(kBlock, b.num_elements() - i);
      const void* values = at(b.raw(), i * function_.in_size());
      if (to_wide_ != nullptr) {
        to_wide_(values, wide, count);
        values = wide;
      }
      is_forbidden_(values, &zero, found, count, 1, 0);
      if (std::find(found, found + count, true) != found + count) return true;
    }
    return false;
  }

  const BinaryOp op_;
  const BinaryFunction function_;
  const float param_;
  const std::string name_;
  bool shape_error_ = true;
  bool checks_integers_ = false;
  BinaryFunction is_forbidden_;
  ConvertFn to_wide_ = nullptr;
};

class SameShapeKernel : public Kernel {
 public:
  SameShapeKernel(const KernelInit& init, BinaryFunction function)
      : function_(function), param_(parameter_of(init)), name_(init.op) {}

  Status compute(KernelContext& context) override {
    const Tensor& a = context.input(0);
    const Tensor& b = context.input(1);
    if (a.shape() != b.shape()) {
      return invalid_argument(name_, ": inputs must have the same shape, got ", a.shape(), " and ", b.shape());
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(0, 0, a.shape()));
    run_elementwise(function_, a, b, *out, context.team(), param_);
    return {};
  }

 private:
  const BinaryFunction function_;
  const float param_;
  const std::string name_;
};

class AddNKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const DType dtype = init.input_types[0].dtype;
    BinaryFunction add = BinaryFunction::find(BinaryOp::kAdd, dtype);
    if (!add) return unimplemented("AddN of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(new AddNKernel(add));
  }

  Status compute(KernelContext& context) override {
    const Tensor& first = context.input(0);
    for (int i = 1; i < context.num_inputs(); ++i) {
      if (context.input(i).shape() != first.shape()) {
        return invalid_argument("AddN: Inputs must have the same size and shape. Input 0: ", first.shape(),
                                " != input ", i, ": ", context.input(i).shape());
      }
    }
    if (context.num_inputs() == 1) {
      context.set_output(0, first);
      return {};
    }
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.forward_or_allocate(0, 0, first.shape()));
    parallel_for(context.team(), first.num_elements(), kElementGrain,
                 [&](std::int64_t begin, std::int64_t end) { add_range(context, *out, begin, end); });
    return {};
  }

 private:
  explicit AddNKernel(BinaryFunction add) : add_(add) {}

  // Sums piece by piece, so that the running sum stays in the first-level cache.
  void add_range(const KernelContext& context, Tensor& out, std::int64_t begin, std::int64_t end) const {
    constexpr std::int64_t kPiece = 4096;
    const std::int64_t size = add_.in_size();
    for (std::int64_t i = begin; i < end; i += kPiece) {
      const std::int64_t count = std::min(kPiece, end - i);
      char* sum = at(out.raw(), i * size);
      const void* left = at(context.input(0).raw(), i * size);
      for (int k = 1; k < context.num_inputs(); ++k) {
        add_(left, at(context.input(k).raw(), i * size), sum, count, 1, 1);
        left = sum;
      }
    }
  }

  const BinaryFunction add_;
};

}  // namespace

namespace {

Result<std::unique_ptr<Kernel>> make_unary(const KernelInit& init, UnaryFunction function) {
  if (!function) {
    return unimplemented(init.op, " of ", dtype_name(init.input_types[0].dtype), " is not supported");
  }
  return std::unique_ptr<Kernel>(std::make_unique<UnaryKernel>(function, parameter_of(init)));
}

}  // namespace

std::optional<UnaryOp> activation_named(std::string_view name) {
  if (name == "Relu") return UnaryOp::kRelu;
  if (name == "Relu6") return UnaryOp::kRelu6;
  if (name == "Tanh") return UnaryOp::kTanh;
  if (name == "Sigmoid") return UnaryOp::kSigmoid;
  return std::nullopt;
}

KernelFactory unary_kernel(UnaryOp op) {
  return [op](const KernelInit& init) { return make_unary(init, UnaryFunction::find(op, init.input_types[0].dtype)); };
}

KernelFactory unary_kernel(UnaryLoop for_float, UnaryLoop for_double) {
  return [for_float, for_double](const KernelInit& init) {
    return make_unary(init, UnaryFunction::of(for_float, for_double, init.input_types[0].dtype));
  };
}

namespace {

// The integers that a quantised type is stored in; rows allow such types where only equality matters.
DType storage_of(DType dtype) {
  switch (dtype) {
    case DType::kQint8:
      return DType::kInt8;
    case DType::kQuint8:
      return DType::kUint8;
    case DType::kQint16:
      return DType::kInt16;
    case DType::kQuint16:
      return DType::kUint16;
    case DType::kQint32:
      return DType::kInt32;
    default:
      return dtype;
  }
}

}  // namespace

KernelFactory binary_kernel(BinaryOp op) {
  return [op](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.input_types[0].dtype;
    BinaryFunction function = BinaryFunction::find(op, storage_of(dtype));
    if (!function) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(std::make_unique<BinaryKernel>(op, init, function));
  };
}

KernelFactory same_shape_kernel(BinaryOp op) {
  return [op](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    const DType dtype = init.input_types[0].dtype;
    BinaryFunction function = BinaryFunction::find(op, dtype);
    if (!function) return unimplemented(init.op, " of ", dtype_name(dtype), " is not supported");
    return std::unique_ptr<Kernel>(std::make_unique<SameShapeKernel>(init, function));
  };
}

KernelFactory add_n_kernel() { return kernel_of<AddNKernel>(); }

}  // namespace tutti::cpu
