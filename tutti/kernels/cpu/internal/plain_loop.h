// Loops over functions of single elements, for what is not worth vector code.
#pragma once

#include <cstdint>

#include "tutti/kernels/cpu/elementwise.h"

namespace tutti::cpu::internal {

template <typename In, typename Out, typename F>
void run_plain_unary(const void* from, void* to, std::int64_t n, float) {
  constexpr F function{};
  const In* in = static_cast<const In*>(from);
  Out* out = static_cast<Out*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i] = function(in[i]);
}

template <typename In, typename Out, typename F>
void run_plain_binary(const void* from_a, const void* from_b, void* to, std::int64_t n, int a_step, int b_step, float) {
  constexpr F function{};
  const In* a = static_cast<const In*>(from_a);
  const In* b = static_cast<const In*>(from_b);
  Out* out = static_cast<Out*>(to);
  for (std::int64_t i = 0; i < n; ++i) out[i] = function(a[i * a_step], b[i * b_step]);
}

// plain_unary<T>([](T x) { return ...; }): the lambda must capture nothing.
template <typename In, typename Out = In, typename F>
UnaryLoop plain_unary(F) {
  return &run_plain_unary<In, Out, F>;
}
template <typename In, typename Out = In, typename F>
BinaryLoop plain_binary(F) {
  return &run_plain_binary<In, Out, F>;
}

}  // namespace tutti::cpu::internal
