// Rows of gamma, beta and kindred functions.

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/betainc.h"
#include "tutti/kernels/cpu/plain_kernels.h"
#include "tutti/kernels/cpu/special_functions.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

using cpu::BinaryLoop;
using cpu::TypedLoop;
using cpu::UnaryLoop;

constexpr DTypeSet kFloatAndDouble{DType::kFloat, DType::kDouble};

// All types go through double.
template <double (*function)(double)>
TypedLoop<UnaryLoop> in_double(DType) {
  return cpu::typed_unary<double>([](double x) { return function(x); });
}
template <double (*function)(double, double)>
TypedLoop<BinaryLoop> pair_in_double(DType) {
  return cpu::typed_binary<double>([](double x, double y) { return function(x, y); });
}

void add_one(OpTable& ops, const std::string& name, DTypeSet kernel_types, cpu::FindUnary find, GradFn grad) {
  ops.add({.name = name,
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = shape::unchanged,
           .grad = std::move(grad),
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_unary_kernel(find), kernel_types)}});
}

void add_two(OpTable& ops, const std::string& name, const std::string& signature, DTypeSet types, cpu::FindBinary find,
             GradFn grad) {
  ops.add({.name = name,
           .signature = signature,
           .attrs = "T: type",
           .types = types,
           .shape = shape::broadcast,
           .grad = std::move(grad),
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(find), kFloatAndDouble)}});
}

// --- Gradients. ---

void lgamma_grad(GradContext& g) { g.set(0, mul(g.grad(), op1("Digamma", {g.input(0)}))); }
void digamma_grad(GradContext& g) {
  g.set(0, mul(g.grad(), op1("Polygamma", {scalar_like(g.input(0), 1), g.input(0)})));
}
// The inverse of a function has the inverse of its derivative.
void erfinv_grad(GradContext& g) {
  Output slope = mul(scalar_like(g.grad(), std::sqrt(3.14159265358979323846) / 2), exp(square(g.output(0))));
  g.set(0, mul(g.grad(), slope));
}
void ndtri_grad(GradContext& g) {
  Output y = g.output(0);
  Output slope = mul(scalar_like(y, std::sqrt(2 * 3.14159265358979323846)), exp(mul(square(y), scalar_like(y, 0.5))));
  g.set(0, mul(g.grad(), slope));
}

// Of the lower function, or of the upper one, which is 1 less the lower.
GradFn incomplete_gamma_grad(bool upper) {
  return [upper](GradContext& g) {
    Output a = g.input(0), x = g.input(1), dy = upper ? neg(g.grad()) : g.grad();
    Output by_a = op1("IgammaGradA", {a, x});
    Output one = scalar_like(a, 1);
    Output by_x = exp(sub(sub(mul(sub(a, one), log(x)), x), op1("Lgamma", {a})));
    if (g.needs(0)) g.set(0, unbroadcast(mul(by_a, dy), a, x));
    if (g.needs(1)) g.set(1, unbroadcast(mul(by_x, dy), x, a));
  };
}

void zeta_grad(GradContext& g) {
  Output x = g.input(0), q = g.input(1);
  Output by_q = mul(neg(x), op1("Zeta", {add(x, scalar_like(x, 1)), q}));
  g.set(1, unbroadcast(mul(by_q, g.grad()), q, x));
}
void polygamma_grad(GradContext& g) {
  Output n = g.input(0), x = g.input(1);
  Output by_x = op1("Polygamma", {add(n, scalar_like(n, 1)), x});
  g.set(1, unbroadcast(mul(by_x, g.grad()), x, n));
}

void betainc_grad(GradContext& g) {
  Output a = g.input(0), b = g.input(1), x = g.input(2), one = scalar_like(x, 1);
  Output log_beta = sub(add(op1("Lgamma", {a}), op1("Lgamma", {b})), op1("Lgamma", {add(a, b)}));
  Output by_x = exp(sub(add(mul(sub(b, one), log1p(neg(x))), mul(sub(a, one), log(x))), log_beta));
  g.set(2, unbroadcast(mul(by_x, g.grad()), x, add(a, b)));
}

// Inputs that are no scalars have one shape.
Status betainc_shape(ShapeContext& c) {
  PartialShape output = PartialShape::scalar();
  bool open = false;
  for (int i = 0; i < 3; ++i) {
    const PartialShape& input = c.input(i);
    if (!input.has_rank()) {
      open = true;
    } else if (input.rank() > 0) {
      TUTTI_ASSIGN_OR_RETURN(output, output.rank() == 0 ? Result<PartialShape>(input) : output.merge(input));
    }
  }
  if (!open || output.rank() > 0) c.set_output(0, std::move(output));
  return {};
}

}  // namespace

void add_special_function_ops(OpTable& ops) {
  const DTypeSet with_half = kFloatAndDouble | DTypeSet{DType::kHalf};
  add_one(ops, "Lgamma", with_half, in_double<cpu::log_gamma>, lgamma_grad);
  add_one(ops, "Digamma", with_half, in_double<cpu::digamma>, digamma_grad);
  add_one(ops, "Erfinv", kFloatAndDouble, in_double<cpu::erfinv>, erfinv_grad);
  add_one(ops, "Ndtri", kFloatAndDouble, in_double<cpu::ndtri>, ndtri_grad);
  const std::string of_a_x = "a: T, x: T -> z: T";
  add_two(ops, "Igamma", of_a_x, kFloats, pair_in_double<cpu::igamma>, incomplete_gamma_grad(false));
  add_two(ops, "Igammac", of_a_x, kFloats, pair_in_double<cpu::igammac>, incomplete_gamma_grad(true));
  add_two(ops, "IgammaGradA", of_a_x, kFloatAndDouble, pair_in_double<cpu::igamma_grad_a>, nullptr);
  add_two(ops, "RandomGammaGrad", "alpha: T, sample: T -> output: T", kFloatAndDouble,
          pair_in_double<cpu::random_gamma_grad>, nullptr);
  add_two(ops, "Zeta", "x: T, q: T -> z: T", kFloatAndDouble, pair_in_double<cpu::zeta>, zeta_grad);
  add_two(ops, "Polygamma", of_a_x, kFloatAndDouble, pair_in_double<cpu::polygamma>, polygamma_grad);
  ops.add({.name = "Betainc",
           .signature = "a: T, b: T, x: T -> z: T",
           .attrs = "T: type",
           .types = kFloatAndDouble,
           .shape = betainc_shape,
           .grad = betainc_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::betainc_of))}});
}

}  // namespace tutti::internal
