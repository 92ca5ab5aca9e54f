// Rows of element-wise ops that few models use: plain loops suffice.

#include <bit>
#include <cmath>
#include <complex>
#include <string>
#include <utility>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/plain_kernels.h"
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

constexpr DTypeSet kFloatOrComplex = kFloats | kComplexes;

// --- Functions of floats and complex numbers, from one generic lambda. ---

template <typename F>
cpu::FindUnary unary_function(F) {
  return [](DType dtype) -> TypedLoop<UnaryLoop> {
    switch (dtype) {
      case DType::kComplex64:
        return cpu::typed_unary<std::complex<float>>(F{});
      case DType::kComplex128:
        return cpu::typed_unary<std::complex<double>>(F{});
      default:
        return cpu::unary_of_floats(dtype, F{});
    }
  };
}

template <typename F>
void add_rare_function(OpTable& ops, const std::string& name, F f, GradFn grad) {
  ops.add({.name = name,
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = kFloatOrComplex,
           .shape = shape::unchanged,
           .grad = std::move(grad),
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_unary_kernel(unary_function(f)))}});
}

Output one_minus_square(Output x) { return sub(scalar_like(x, 1), square(x)); }

void sinh_grad(GradContext& g) { g.set(0, mul(g.grad(), op1("Cosh", {conjugate(g.input(0))}))); }
void cosh_grad(GradContext& g) { g.set(0, mul(g.grad(), op1("Sinh", {conjugate(g.input(0))}))); }
void asinh_grad(GradContext& g) { g.set(0, div(g.grad(), op1("Cosh", {conjugate(g.output(0))}))); }
void acosh_grad(GradContext& g) { g.set(0, div(g.grad(), op1("Sinh", {conjugate(g.output(0))}))); }
void atanh_grad(GradContext& g) { g.set(0, div(g.grad(), one_minus_square(conjugate(g.input(0))))); }
void asin_grad(GradContext& g) { g.set(0, div(g.grad(), sqrt(one_minus_square(conjugate(g.input(0)))))); }
void acos_grad(GradContext& g) { g.set(0, div(neg(g.grad()), sqrt(one_minus_square(conjugate(g.input(0)))))); }
void atan_grad(GradContext& g) {
  Output x = conjugate(g.input(0));
  g.set(0, div(g.grad(), add(scalar_like(x, 1), square(x))));
}

void add_trigonometry(OpTable& ops) {
  add_rare_function(
      ops, "Sinh", [](auto x) { return std::sinh(x); }, sinh_grad);
  add_rare_function(
      ops, "Cosh", [](auto x) { return std::cosh(x); }, cosh_grad);
  add_rare_function(
      ops, "Asin", [](auto x) { return std::asin(x); }, asin_grad);
  add_rare_function(
      ops, "Acos", [](auto x) { return std::acos(x); }, acos_grad);
  add_rare_function(
      ops, "Atan", [](auto x) { return std::atan(x); }, atan_grad);
  add_rare_function(
      ops, "Asinh", [](auto x) { return std::asinh(x); }, asinh_grad);
  add_rare_function(
      ops, "Acosh", [](auto x) { return std::acosh(x); }, acosh_grad);
  add_rare_function(
      ops, "Atanh", [](auto x) { return std::atanh(x); }, atanh_grad);
}

// --- Two inputs. ---

// Of the imaginary part, 0 where x is 0 too.
struct TimesLog1p {
  template <typename T>
  T operator()(T x, T y) const {
    if (x == T{}) return T{};
    if constexpr (std::is_floating_point_v<T>) {
      return x * std::log1p(y);
    } else {
      return x * std::log(T(1) + y);
    }
  }
};

TypedLoop<BinaryLoop> find_xlog1py(DType dtype) {
  if (dtype == DType::kComplex64) return cpu::typed_binary<std::complex<float>>(TimesLog1p{});
  if (dtype == DType::kComplex128) return cpu::typed_binary<std::complex<double>>(TimesLog1p{});
  return cpu::binary_of_floats(dtype, TimesLog1p{});
}

TypedLoop<BinaryLoop> find_atan2(DType dtype) {
  return cpu::binary_of_floats(dtype, [](auto y, auto x) { return std::atan2(y, x); });
}

TypedLoop<BinaryLoop> find_next_after(DType dtype) {
  return cpu::binary_of_floats(dtype, [](auto x, auto y) { return std::nextafter(x, y); });
}

void set_first(GradContext& g, Output grad) { g.set(0, unbroadcast(grad, g.input(0), g.input(1))); }
void set_second(GradContext& g, Output grad) { g.set(1, unbroadcast(grad, g.input(1), g.input(0))); }

void xlog1py_grad(GradContext& g) {
  Output x = g.input(0), y = g.input(1);
  Output not_zero = cast(not_equal(x, scalar_like(x, 0)), x.dtype());
  if (g.needs(0)) set_first(g, mul(op1("Xlog1py", {not_zero, y}), g.grad()));
  if (g.needs(1)) set_second(g, mul(op1("Xdivy", {x, add(y, scalar_like(y, 1))}), g.grad()));
}

void atan2_grad(GradContext& g) {
  Output y = g.input(0), x = g.input(1);
  Output over = div(g.grad(), add(square(x), square(y)));
  if (g.needs(0)) set_first(g, mul(x, over));
  if (g.needs(1)) set_second(g, mul(neg(y), over));
}

void next_after_grad(GradContext& g) {
  if (g.needs(0)) set_first(g, g.grad());
  if (g.needs(1)) set_second(g, zeros_like(g.grad()));
}

void add_pairs(OpTable& ops) {
  ops.add({.name = "Xlog1py",
           .signature = "x: T, y: T -> z: T",
           .attrs = "T: type",
           .types = kFloatOrComplex,
           .shape = shape::broadcast,
           .grad = xlog1py_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(find_xlog1py))}});
  ops.add({.name = "Atan2",
           .signature = "y: T, x: T -> z: T",
           .attrs = "T: type",
           .types = kFloats,
           .shape = shape::broadcast,
           .grad = atan2_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(find_atan2))}});
  ops.add({.name = "NextAfter",
           .signature = "x1: T, x2: T -> output: T",
           .attrs = "T: {double, float} = float",
           .shape = shape::broadcast,
           .grad = next_after_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(find_next_after))}});
}

// --- Bits. Signed and unsigned integers of a size have the same loop where the sign does not matter. ---

template <typename F>
cpu::FindBinary bits_function(F) {
  return [](DType dtype) -> TypedLoop<BinaryLoop> {
    const auto loop = [&]<typename T>(T) {
      return TypedLoop<BinaryLoop>{cpu::typed_binary<T>(F{}).loop, dtype, dtype};
    };
    switch (dtype) {
      case DType::kInt8:
        return loop(std::int8_t{});
      case DType::kInt16:
        return loop(std::int16_t{});
      case DType::kInt32:
        return loop(std::int32_t{});
      case DType::kInt64:
        return loop(std::int64_t{});
      case DType::kUint8:
        return loop(std::uint8_t{});
      case DType::kUint16:
        return loop(std::uint16_t{});
      case DType::kUint32:
        return loop(std::uint32_t{});
      case DType::kUint64:
        return loop(std::uint64_t{});
      default:
        return {};
    }
  };
}

// Shifts out of range are as the nearest one that is in it.
template <typename T>
int shift_of(T y) {
  constexpr int most = static_cast<int>(sizeof(T) * 8) - 1;
  if constexpr (std::is_signed_v<T>) {
    if (y < 0) return 0;
  }
  return y > static_cast<T>(most) ? most : static_cast<int>(y);
}

template <typename F>
void add_bits(OpTable& ops, const std::string& name, F f) {
  ops.add({.name = name,
           .signature = "x: T, y: T -> z: T",
           .attrs = "T: type",
           .types = kIntegers,
           .shape = shape::broadcast,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(bits_function(f)))}});
}

TypedLoop<UnaryLoop> find_invert(DType dtype) {
  const auto as = [&](const TypedLoop<UnaryLoop>& loop) { return TypedLoop<UnaryLoop>{loop.loop, dtype, dtype}; };
  const auto flip = [](auto x) { return static_cast<decltype(x)>(~x); };
  switch (dtype_size(dtype)) {
    case 1:
      return as(cpu::typed_unary<std::uint8_t>(flip));
    case 2:
      return as(cpu::typed_unary<std::uint16_t>(flip));
    case 4:
      return as(cpu::typed_unary<std::uint32_t>(flip));
    default:
      return as(cpu::typed_unary<std::uint64_t>(flip));
  }
}

TypedLoop<UnaryLoop> find_population_count(DType dtype) {
  const auto as = [&](const TypedLoop<UnaryLoop>& loop) {
    return TypedLoop<UnaryLoop>{loop.loop, dtype, DType::kUint8};
  };
  const auto count = [](auto x) { return static_cast<std::uint8_t>(std::popcount(x)); };
  switch (dtype_size(dtype)) {
    case 1:
      return as(cpu::typed_unary<std::uint8_t, std::uint8_t>(count));
    case 2:
      return as(cpu::typed_unary<std::uint16_t, std::uint8_t>(count));
    case 4:
      return as(cpu::typed_unary<std::uint32_t, std::uint8_t>(count));
    default:
      return as(cpu::typed_unary<std::uint64_t, std::uint8_t>(count));
  }
}

void add_bit_ops(OpTable& ops) {
  add_bits(ops, "BitwiseAnd", [](auto x, auto y) { return static_cast<decltype(x)>(x & y); });
  add_bits(ops, "BitwiseOr", [](auto x, auto y) { return static_cast<decltype(x)>(x | y); });
  add_bits(ops, "BitwiseXor", [](auto x, auto y) { return static_cast<decltype(x)>(x ^ y); });
  add_bits(ops, "LeftShift", [](auto x, auto y) {
    using U = std::make_unsigned_t<decltype(x)>;
    return static_cast<decltype(x)>(static_cast<U>(x) << shift_of(y));
  });
  add_bits(ops, "RightShift", [](auto x, auto y) { return static_cast<decltype(x)>(x >> shift_of(y)); });
  ops.add({.name = "Invert",
           .signature = "x: T -> y: T",
           .attrs = "T: type",
           .types = kIntegers,
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_unary_kernel(find_invert))}});
  ops.add({.name = "PopulationCount",
           .signature = "x: T -> y: uint8",
           .attrs = "T: type",
           .types = kIntegers,
           .shape = shape::unchanged,
           .no_gradient = true,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_unary_kernel(find_population_count))}});
}

// --- Parts of complex numbers. ---

TypedLoop<BinaryLoop> find_complex(DType dtype) {
  const auto both = [](auto x, auto y) { return std::complex<decltype(x)>(x, y); };
  if (dtype == DType::kDouble) return cpu::typed_binary<double, std::complex<double>>(both);
  return cpu::typed_binary<float, std::complex<float>>(both);
}

template <typename F>
cpu::FindUnary part_function(F) {
  return [](DType dtype) -> TypedLoop<UnaryLoop> {
    if (dtype == DType::kComplex128) return cpu::typed_unary<std::complex<double>, double>(F{});
    return cpu::typed_unary<std::complex<float>, float>(F{});
  };
}

Output complex_of(Output real, Output imag) {
  const DType type = real.dtype() == DType::kDouble ? DType::kComplex128 : DType::kComplex64;
  return op1("Complex", {real, imag}, {{"Tout", type}});
}
Output part_of_complex(const char* op, Output z) {
  const DType type = z.dtype() == DType::kComplex128 ? DType::kDouble : DType::kFloat;
  return op1(op, {z}, {{"Tout", type}});
}

void complex_grad(GradContext& g) {
  if (g.needs(0)) set_first(g, part_of_complex("Real", g.grad()));
  if (g.needs(1)) set_second(g, part_of_complex("Imag", g.grad()));
}
void real_grad(GradContext& g) { g.set(0, complex_of(g.grad(), scalar_like(g.grad(), 0))); }
void imag_grad(GradContext& g) { g.set(0, complex_of(scalar_like(g.grad(), 0), g.grad())); }
void angle_grad(GradContext& g) {
  Output z = g.input(0);
  Output turned = reciprocal(complex_of(part_of_complex("Imag", z), part_of_complex("Real", z)));
  g.set(0, neg(mul(complex_of(g.grad(), scalar_like(g.grad(), 0)), turned)));
}
void complex_abs_grad(GradContext& g) {
  Output zero = scalar_like(g.grad(), 0);
  g.set(0, div_no_nan(mul(complex_of(g.grad(), zero), g.input(0)), complex_of(g.output(0), zero)));
}

template <typename F>
void add_part(OpTable& ops, const std::string& name, const std::string& signature, F f, GradFn grad) {
  ops.add({.name = name,
           .signature = signature,
           .attrs = "T: {complex64, complex128} = complex64; Tout: {float, double} = float",
           .shape = shape::unchanged,
           .grad = std::move(grad),
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_unary_kernel(part_function(f)))}});
}

void add_complex_parts(OpTable& ops) {
  ops.add({.name = "Complex",
           .signature = "real: T, imag: T -> out: Tout",
           .attrs = "T: {float, double} = float; Tout: {complex64, complex128} = complex64",
           .shape = shape::broadcast,
           .grad = complex_grad,
           .traits = kElementwise,
           .kernels = {TUTTI_CPU(cpu::plain_binary_kernel(find_complex))}});
  const std::string from_input = "input: T -> output: Tout";
  add_part(
      ops, "Real", from_input, [](auto z) { return z.real(); }, real_grad);
  add_part(
      ops, "Imag", from_input, [](auto z) { return z.imag(); }, imag_grad);
  add_part(
      ops, "Angle", from_input, [](auto z) { return std::arg(z); }, angle_grad);
  add_part(
      ops, "ComplexAbs", "x: T -> y: Tout", [](auto z) { return std::abs(z); }, complex_abs_grad);
}

}  // namespace

void add_rare_math_ops(OpTable& ops) {
  add_trigonometry(ops);
  add_pairs(ops);
  add_bit_ops(ops);
  add_complex_parts(ops);
}

}  // namespace tutti::internal
