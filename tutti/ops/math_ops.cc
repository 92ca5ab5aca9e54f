// Rows of the element-wise ops: arithmetic, comparison, selection, casts.

#include <cmath>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/add_variants.h"
#include "tutti/kernels/cpu/convert.h"
#include "tutti/kernels/cpu/elementwise.h"
#include "tutti/kernels/cpu/elementwise_kernel.h"
#include "tutti/kernels/cpu/reduction.h"
#include "tutti/kernels/cpu/select.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using cpu::BinaryOp;
using cpu::UnaryOp;
using internal::conjugate;
using internal::scalar_like;
using internal::unbroadcast;

constexpr DTypeSet kFloatsAndComplexes = kFloats | kComplexes;
constexpr DTypeSet kSignedIntegers{DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};
constexpr DTypeSet kSigned = kFloats | kSignedIntegers;

// --- Shapes. ---

Status equality_shape(ShapeContext& c) {
  Result<PartialShape> shape = broadcast_shapes(c.input(0), c.input(1));
  if (!shape.ok()) return c.attr<bool>("incompatible_shape_error") ? shape.status() : Status();
  // Where a mismatch is an answer, only known shapes tell that there is none.
  if (!c.attr<bool>("incompatible_shape_error") && !(c.input(0).fully_known() && c.input(1).fully_known())) return {};
  c.set_output(0, *std::move(shape));
  return {};
}

Status select_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape branches, c.input(1).merge(c.input(2)));
  const PartialShape& condition = c.input(0);
  if (condition.has_rank() && condition.rank() > 1) {
    TUTTI_ASSIGN_OR_RETURN(branches, branches.merge(condition));
  }
  c.set_output(0, std::move(branches));
  return {};
}

Status select_v2_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape branches, broadcast_shapes(c.input(1), c.input(2)));
  TUTTI_ASSIGN_OR_RETURN(PartialShape all, broadcast_shapes(c.input(0), branches));
  c.set_output(0, std::move(all));
  return {};
}

// --- Gradients of binary ops: each side's, then summed to that side's shape. ---

void set_x(GradContext& g, Output grad) { g.set(0, unbroadcast(grad, g.input(0), g.input(1))); }
void set_y(GradContext& g, Output grad) { g.set(1, unbroadcast(grad, g.input(1), g.input(0))); }

void add_grad(GradContext& g) {
  if (g.needs(0)) set_x(g, g.grad());
  if (g.needs(1)) set_y(g, g.grad());
}

void sub_grad(GradContext& g) {
  if (g.needs(0)) set_x(g, g.grad());
  if (g.needs(1)) g.set(1, neg(unbroadcast(g.grad(), g.input(1), g.input(0))));
}

void mul_grad(GradContext& g) {
  if (g.needs(0)) set_x(g, mul(g.grad(), conjugate(g.input(1))));
  if (g.needs(1)) set_y(g, mul(conjugate(g.input(0)), g.grad()));
}

// `op` divides: RealDiv, Div or DivNoNan.
GradFn div_grad(const std::string& op) {
  return [op](GradContext& g) {
    Output x = conjugate(g.input(0));
    Output y = conjugate(g.input(1));
    if (g.needs(0)) set_x(g, op1(op, {g.grad(), y}));
    if (g.needs(1)) set_y(g, mul(g.grad(), op1(op, {op1(op, {neg(x), y}), y})));
  };
}

// This one and those of Xlogy and Xdivy do not conjugate: they are TensorFlow's, of complex values too.
void mul_no_nan_grad(GradContext& g) {
  if (g.needs(0)) set_x(g, op1("MulNoNan", {g.grad(), g.input(1)}));
  if (g.needs(1)) set_y(g, op1("MulNoNan", {g.input(0), g.grad()}));
}

// `quotient` is the division that the remainder belongs to.
GradFn mod_grad(const std::string& quotient) {
  return [quotient](GradContext& g) {
    if (g.needs(0)) set_x(g, g.grad());
    if (g.needs(1)) set_y(g, mul(g.grad(), neg(op1(quotient, {g.input(0), g.input(1)}))));
  };
}

void pow_grad(GradContext& g) {
  Output x = conjugate(g.input(0));
  Output y = conjugate(g.input(1));
  if (g.needs(0)) set_x(g, mul(mul(g.grad(), y), pow(x, sub(y, scalar_like(y, 1)))));
  if (!g.needs(1)) return;
  // Where x is not positive its logarithm has no real value; the gradient there is taken as 0.
  Output has_log = is_complex(x.dtype()) ? not_equal(x, scalar_like(x, 0)) : greater(x, scalar_like(x, 0));
  Output safe = where(has_log, x, ones_like(x));
  Output log_x = where(has_log, log(safe), zeros_like(x));
  set_y(g, mul(mul(g.grad(), conjugate(g.output(0))), log_x));
}

// `compare` says where x was chosen.
GradFn extremum_grad(const std::string& compare) {
  return [compare](GradContext& g) {
    Output chose_x = op1(compare, {g.input(0), g.input(1)});
    Output zero = scalar_like(g.grad(), 0);
    if (g.needs(0)) set_x(g, where(chose_x, g.grad(), zero));
    if (g.needs(1)) set_y(g, where(chose_x, zero, g.grad()));
  };
}

void squared_difference_grad(GradContext& g) {
  Output x_grad = mul(mul(scalar_like(g.grad(), 2), g.grad()), sub(g.input(0), g.input(1)));
  if (g.needs(0)) set_x(g, x_grad);
  if (g.needs(1)) g.set(1, neg(unbroadcast(x_grad, g.input(1), g.input(0))));
}

void xlogy_grad(GradContext& g) {
  Output x = g.input(0);
  Output y = g.input(1);
  Output not_zero = cast(not_equal(x, scalar_like(x, 0)), x.dtype());
  if (g.needs(0)) set_x(g, mul(op1("Xlogy", {not_zero, y}), g.grad()));
  if (g.needs(1)) set_y(g, mul(op1("Xdivy", {x, y}), g.grad()));
}

void xdivy_grad(GradContext& g) {
  Output x = g.input(0);
  Output y = g.input(1);
  Output not_zero = cast(not_equal(x, scalar_like(x, 0)), x.dtype());
  if (g.needs(0)) set_x(g, mul(op1("Xdivy", {not_zero, y}), g.grad()));
  if (g.needs(1)) set_y(g, mul(op1("Xdivy", {neg(x), square(y)}), g.grad()));
}

// --- Gradients of unary ops: dy times a derivative. ---

void neg_grad(GradContext& g) { g.set(0, neg(g.grad())); }
void square_grad(GradContext& g) { g.set(0, mul(g.grad(), mul(scalar_like(g.grad(), 2), conjugate(g.input(0))))); }
// The op takes the function's value and the gradient.
GradFn by_output(const std::string& op) {
  return [op](GradContext& g) { g.set(0, op1(op, {g.output(0), g.grad()})); };
}
// The same where the op leaves it to its caller to conjugate.
GradFn by_conjugate_output(const std::string& op) {
  return [op](GradContext& g) { g.set(0, op1(op, {conjugate(g.output(0)), g.grad()})); };
}
void exp_grad(GradContext& g) { g.set(0, mul(g.grad(), conjugate(g.output(0)))); }
void expm1_grad(GradContext& g) { g.set(0, mul(g.grad(), exp(conjugate(g.input(0))))); }
void log_grad(GradContext& g) { g.set(0, mul(g.grad(), reciprocal(conjugate(g.input(0))))); }
void log1p_grad(GradContext& g) {
  Output x = conjugate(g.input(0));
  g.set(0, mul(g.grad(), reciprocal(add(scalar_like(x, 1), x))));
}
void abs_grad(GradContext& g) { g.set(0, mul(g.grad(), sign(g.input(0)))); }
void sign_grad(GradContext& g) { g.set(0, zeros_like(g.input(0))); }
void sin_grad(GradContext& g) { g.set(0, mul(g.grad(), cos(conjugate(g.input(0))))); }
void cos_grad(GradContext& g) { g.set(0, mul(neg(g.grad()), sin(conjugate(g.input(0))))); }
void tan_grad(GradContext& g) { g.set(0, mul(square(reciprocal(cos(conjugate(g.input(0))))), g.grad())); }
void erf_grad(GradContext& g) {
  Output x = g.input(0);
  g.set(0, mul(mul(g.grad(), scalar_like(x, 2 / std::sqrt(3.14159265358979323846))), exp(neg(square(x)))));
}
void erfc_grad(GradContext& g) {
  Output x = g.input(0);
  g.set(0, mul(mul(g.grad(), scalar_like(x, -2 / std::sqrt(3.14159265358979323846))), exp(neg(square(x)))));
}
void conj_grad(GradContext& g) { g.set(0, conjugate(g.grad())); }

// --- Second derivatives: of the ops that take (y, dy). ---

void sigmoid_grad_grad(GradContext& g) {
  Output y = conjugate(g.input(0));
  Output both = mul(g.grad(), conjugate(g.input(1)));
  if (g.needs(0)) g.set(0, sub(both, mul(scalar_like(both, 2), mul(both, y))));
  if (g.needs(1)) g.set(1, op1("SigmoidGrad", {y, g.grad()}));
}
void tanh_grad_grad(GradContext& g) {
  Output y = conjugate(g.input(0));
  if (g.needs(0)) g.set(0, mul(mul(mul(g.grad(), scalar_like(y, -2)), conjugate(g.input(1))), y));
  if (g.needs(1)) g.set(1, op1("TanhGrad", {y, g.grad()}));
}
void sqrt_grad_grad(GradContext& g) {
  Output scaled = div(g.grad(), g.input(0));
  if (g.needs(0)) g.set(0, mul(neg(conjugate(scaled)), g.output(0)));
  if (g.needs(1)) g.set(1, mul(scalar_like(scaled, 0.5), scaled));
}
void rsqrt_grad_grad(GradContext& g) {
  Output y = conjugate(g.input(0));
  if (g.needs(0)) g.set(0, mul(mul(scalar_like(y, -1.5), conjugate(g.grad())), mul(g.input(1), square(y))));
  if (g.needs(1)) g.set(1, op1("RsqrtGrad", {y, g.grad()}));
}
void reciprocal_grad_grad(GradContext& g) {
  Output y = conjugate(g.input(0));
  if (g.needs(0)) g.set(0, mul(mul(mul(conjugate(g.grad()), scalar_like(y, -2)), g.input(1)), y));
  if (g.needs(1)) g.set(1, op1("ReciprocalGrad", {y, g.grad()}));
}

// --- Others. ---

void select_grad(GradContext& g) {
  Output condition = g.input(0);
  Output zeros = zeros_like(g.grad());
  if (g.needs(1)) g.set(1, op1("Select", {condition, g.grad(), zeros}));
  if (g.needs(2)) g.set(2, op1("Select", {condition, zeros, g.grad()}));
}

void select_v2_grad(GradContext& g) {
  Output condition = g.input(0);
  Output zero = scalar_like(g.grad(), 0);
  if (g.needs(1)) g.set(1, unbroadcast(where(condition, g.grad(), zero), g.input(1), g.output(0)));
  if (g.needs(2)) g.set(2, unbroadcast(where(condition, zero, g.grad()), g.input(2), g.output(0)));
}

void add_n_grad(GradContext& g) {
  for (int i = 0; i < g.num_inputs(); ++i) g.set(i, g.grad());
}

void cast_grad(GradContext& g) {
  const DType from = g.input(0).dtype();
  if (is_differentiable(from) && is_differentiable(g.grad().dtype())) g.set(0, cast(g.grad(), from));
}

void clip_by_value_grad(GradContext& g) {
  Output below = less(g.input(0), g.input(1));
  Output above = greater(g.input(0), g.input(2));
  Output zero = scalar_like(g.grad(), 0);
  if (g.needs(0)) g.set(0, where(logical_or(below, above), zero, g.grad()));
  if (g.needs(1)) g.set(1, unbroadcast(where(below, g.grad(), zero), g.input(1), g.input(0)));
  if (g.needs(2)) g.set(2, unbroadcast(where(above, g.grad(), zero), g.input(2), g.input(0)));
}

void l2_loss_grad(GradContext& g) { g.set(0, mul(g.input(0), g.grad())); }

// --- Rows. ---

struct Unary {
  const char* name;
  DTypeSet types;
  UnaryOp op;
  GradFn grad;  // empty: gradients stop here
};

void add_unary(OpTable& ops, const Unary& row) {
  ops.add({.name = row.name,
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = row.types,
           .shape = shape::unchanged,
           .grad = row.grad,
           .no_gradient = !row.grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::unary_kernel(row.op))}});
}

struct Binary {
  const char* name;
  DTypeSet types;
  BinaryOp op;
  GradFn grad;
  unsigned traits = kElementwise;
  DTypeSet kernel_types = DTypeSet::all();
};

void add_binary(OpTable& ops, const Binary& row) {
  ops.add({.name = row.name,
           .signature = "x: T, y: T -> z: T",
           .attrs = "T: type",
           .types = row.types,
           .shape = shape::broadcast,
           .grad = row.grad,
           .no_gradient = !row.grad,
           .traits = row.traits,
           .kernels = {TUTTI_CPU(cpu::binary_kernel(row.op), row.kernel_types)}});
}

// Takes a function's value and the gradient of its result.
void add_derivative(OpTable& ops, const char* name, BinaryOp op, GradFn grad) {
  ops.add({.name = name,
           .signature = "y: T, dy: T -> z: T",
           .attrs = "T: type",
           .types = kFloatsAndComplexes,
           .shape = shape::all_same,
           .grad = std::move(grad),
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::same_shape_kernel(op))}});
}

void add_comparison(OpTable& ops, const char* name, BinaryOp op) {
  ops.add({.name = name,
           .signature = "x: T, y: T -> z: bool",
           .attrs = "T: type",
           .types = kReals,
           .shape = shape::broadcast,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::binary_kernel(op))}});
}

void add_equality(OpTable& ops, const char* name, BinaryOp op) {
  ops.add({.name = name,
           .signature = "x: T, y: T -> z: bool",
           .attrs = "T: type; incompatible_shape_error: bool = true",
           .shape = equality_shape,
           .no_gradient = true,
           .traits = kElementwise | kCommutative,
           .kernels = {TUTTI_CPU(cpu::binary_kernel(op), kPlain | internal::kQuantised | DTypeSet{DType::kString})}});
}

void add_predicate(OpTable& ops, const char* name, UnaryOp op) {
  ops.add({.name = name,
           .signature = "x: T -> y: bool",
           .attrs = "T: type",
           .types = kFloats,
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::unary_kernel(op))}});
}

void add_logical(OpTable& ops, const char* name, BinaryOp op) {
  ops.add({.name = name,
           .signature = "x: bool, y: bool -> z: bool",
           .shape = shape::broadcast,
           .no_gradient = true,
           .traits = kElementwise | kCommutative,
           .kernels = {TUTTI_CPU(cpu::binary_kernel(op))}});
}

void register_arithmetic(OpTable& ops) {
  const DTypeSet no_unsigned_wide{DType::kUint16, DType::kUint32, DType::kUint64};
  DTypeSet add_types = kNumbers | DTypeSet{DType::kString};
  add_types.bits &= ~no_unsigned_wide.bits;
  add_binary(ops, {"Add", add_types, BinaryOp::kAdd, add_grad, kElementwise, add_types});
  add_binary(ops, {"AddV2", kNumbers, BinaryOp::kAdd, add_grad, kElementwise | kCommutative});
  add_binary(ops, {"Sub", kNumbers, BinaryOp::kSub, sub_grad});
  add_binary(ops, {"Mul", kNumbers, BinaryOp::kMul, mul_grad, kElementwise | kCommutative});
  add_binary(ops, {"Div", kNumbers, BinaryOp::kDiv, div_grad("Div")});
  add_binary(ops, {"RealDiv", kNumbers, BinaryOp::kDiv, div_grad("RealDiv"), kElementwise, kFloatsAndComplexes});
  add_binary(ops, {"FloorDiv", kNumbers, BinaryOp::kFloorDiv, nullptr, kElementwise, kReals});
  add_binary(ops, {"TruncateDiv", kNumbers, BinaryOp::kTruncateDiv, nullptr, kElementwise, kReals});
  add_binary(ops, {"FloorMod", kReals, BinaryOp::kFloorMod, mod_grad("FloorDiv")});
  const DTypeSet mod_types = kFloats | kIndexTypes;
  add_binary(ops, {"Mod", mod_types, BinaryOp::kTruncateMod, mod_grad("TruncateDiv")});
  add_binary(ops, {"TruncateMod", mod_types, BinaryOp::kTruncateMod, mod_grad("TruncateDiv")});
  add_binary(ops, {"DivNoNan", kFloatsAndComplexes, BinaryOp::kDivNoNan, div_grad("DivNoNan")});
  add_binary(ops, {"MulNoNan", kFloatsAndComplexes, BinaryOp::kMulNoNan, mul_no_nan_grad});
  add_binary(ops, {"Pow", kSigned | kComplexes, BinaryOp::kPow, pow_grad});
  add_binary(ops, {"Maximum", kReals, BinaryOp::kMaximum, extremum_grad("GreaterEqual")});
  add_binary(ops, {"Minimum", kReals, BinaryOp::kMinimum, extremum_grad("LessEqual")});
  add_binary(ops, {"SquaredDifference", kFloatsAndComplexes | kIndexTypes, BinaryOp::kSquaredDifference,
                   squared_difference_grad, kElementwise | kCommutative});
  add_binary(ops, {"Xlogy", kFloatsAndComplexes, BinaryOp::kXlogy, xlogy_grad});
  add_binary(ops, {"Xdivy", kFloatsAndComplexes, BinaryOp::kXdivy, xdivy_grad});
}

void register_functions(OpTable& ops) {
  const DTypeSet signed_or_complex = kSigned | kComplexes;
  add_unary(ops, {"Neg", signed_or_complex, UnaryOp::kNeg, neg_grad});
  add_unary(ops, {"Square", kNumbers, UnaryOp::kSquare, square_grad});
  add_unary(ops, {"Sqrt", kFloatsAndComplexes, UnaryOp::kSqrt, by_output("SqrtGrad")});
  add_unary(ops, {"Rsqrt", kFloatsAndComplexes, UnaryOp::kRsqrt, by_output("RsqrtGrad")});
  add_unary(ops, {"Reciprocal", signed_or_complex, UnaryOp::kReciprocal, by_output("ReciprocalGrad")});
  add_unary(ops, {"Inv", signed_or_complex, UnaryOp::kReciprocal, by_output("ReciprocalGrad")});
  add_unary(ops, {"Exp", kFloatsAndComplexes, UnaryOp::kExp, exp_grad});
  add_unary(ops, {"Expm1", kFloatsAndComplexes, UnaryOp::kExpm1, expm1_grad});
  add_unary(ops, {"Log", kFloatsAndComplexes, UnaryOp::kLog, log_grad});
  add_unary(ops, {"Log1p", kFloatsAndComplexes, UnaryOp::kLog1p, log1p_grad});
  add_unary(ops, {"Abs", kSigned, UnaryOp::kAbs, abs_grad});
  add_unary(ops, {"Sign", signed_or_complex, UnaryOp::kSign, sign_grad});
  add_unary(ops, {"Floor", kFloats, UnaryOp::kFloor, nullptr});
  add_unary(ops, {"Ceil", kFloats, UnaryOp::kCeil, nullptr});
  add_unary(ops, {"Round", signed_or_complex, UnaryOp::kRound, nullptr});
  add_unary(ops, {"Rint", kFloats, UnaryOp::kRound, nullptr});
  add_unary(ops, {"Sin", kFloatsAndComplexes, UnaryOp::kSin, sin_grad});
  add_unary(ops, {"Cos", kFloatsAndComplexes, UnaryOp::kCos, cos_grad});
  add_unary(ops, {"Tan", kFloatsAndComplexes, UnaryOp::kTan, tan_grad});
  add_unary(ops, {"Tanh", kFloatsAndComplexes, UnaryOp::kTanh, by_conjugate_output("TanhGrad")});
  add_unary(ops, {"Sigmoid", kFloatsAndComplexes, UnaryOp::kSigmoid, by_conjugate_output("SigmoidGrad")});
  add_unary(ops, {"Erf", kFloats, UnaryOp::kErf, erf_grad});
  ops.add({.name = "Erfc",
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = shape::unchanged,
           .grad = erfc_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::elementwise_kernel([](auto x) { return std::erfc(x); }))}});
  add_derivative(ops, "SigmoidGrad", BinaryOp::kSigmoidGrad, sigmoid_grad_grad);
  add_derivative(ops, "TanhGrad", BinaryOp::kTanhGrad, tanh_grad_grad);
  add_derivative(ops, "SqrtGrad", BinaryOp::kSqrtGrad, sqrt_grad_grad);
  add_derivative(ops, "RsqrtGrad", BinaryOp::kRsqrtGrad, rsqrt_grad_grad);
  add_derivative(ops, "ReciprocalGrad", BinaryOp::kReciprocalGrad, reciprocal_grad_grad);
  add_derivative(ops, "InvGrad", BinaryOp::kReciprocalGrad, reciprocal_grad_grad);
  ops.add({.name = "Conj",
           .signature = "input: T -> output: T",
           .attrs = "T: {complex64, complex128, variant} = complex64",
           .shape = shape::unchanged,
           .grad = conj_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::unary_kernel(UnaryOp::kConj), kComplexes)}});
}

void register_truth(OpTable& ops) {
  add_predicate(ops, "IsNan", UnaryOp::kIsNan);
  add_predicate(ops, "IsInf", UnaryOp::kIsInf);
  add_predicate(ops, "IsFinite", UnaryOp::kIsFinite);
  add_comparison(ops, "Less", BinaryOp::kLess);
  add_comparison(ops, "LessEqual", BinaryOp::kLessEqual);
  add_comparison(ops, "Greater", BinaryOp::kGreater);
  add_comparison(ops, "GreaterEqual", BinaryOp::kGreaterEqual);
  add_equality(ops, "Equal", BinaryOp::kEqual);
  add_equality(ops, "NotEqual", BinaryOp::kNotEqual);
  add_logical(ops, "LogicalAnd", BinaryOp::kLogicalAnd);
  add_logical(ops, "LogicalOr", BinaryOp::kLogicalOr);
  ops.add({.name = "LogicalNot",
           .signature = "x: bool -> y: bool",
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::unary_kernel(UnaryOp::kLogicalNot))}});
}

void register_choices(OpTable& ops) {
  ops.add({.name = "Select",
           .signature = "condition: bool, t: T, e: T -> output: T",
           .attrs = "T: type",
           .shape = select_shape,
           .grad = select_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::select))}});
  ops.add({.name = "SelectV2",
           .signature = "condition: bool, t: T, e: T -> output: T",
           .attrs = "T: type",
           .shape = select_v2_shape,
           .grad = select_v2_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(kernel_from(cpu::select_v2))}});
  ops.add({.name = "ClipByValue",
           .signature = "t: T, clip_value_min: T, clip_value_max: T -> output: T",
           .attrs = "T: type",
           .types = kNumbers | internal::kQuantised,
           .shape = shape::unchanged,
           .grad = clip_by_value_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::clip_by_value_kernel(), kNumbers)}});
}

void register_others(OpTable& ops) {
  ops.add({.name = "AddN",
           .signature = "inputs: N * T -> sum: T",
           .attrs = "N: int >= 1; T: type",
           .types = kNumbers | internal::kQuantised | DTypeSet{DType::kVariant},
           .shape = shape::all_same,
           .grad = add_n_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::add_n_kernel(), kNumbers),
                       TUTTI_CPU(kernel_from(cpu::add_variants), DTypeSet{DType::kVariant})}});
  ops.add({.name = "Cast",
           .signature = "x: SrcT -> y: DstT",
           .attrs = "SrcT: type; DstT: type; Truncate: bool = false",
           .shape = shape::unchanged,
           .grad = cast_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::cast_kernel())}});
  ops.add({.name = "L2Loss",
           .signature = "t: T -> output: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = shape::scalar,
           .grad = l2_loss_grad,
           .kernels = {TUTTI_CPU(cpu::l2_loss_kernel())}});
}

}  // namespace

void register_math_ops(OpTable& ops) {
  register_arithmetic(ops);
  register_functions(ops);
  register_truth(ops);
  register_choices(ops);
  register_others(ops);
  internal::add_rare_math_ops(ops);
  internal::add_special_function_ops(ops);
}

}  // namespace tutti
