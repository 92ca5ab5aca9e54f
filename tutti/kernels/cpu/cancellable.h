// Long loops that end with their step.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// What a thread writes in about 10 ms.
inline constexpr std::int64_t kBytesBetweenLooks = 16 << 20;

// Calls fn(begin, end) for consecutive ranges that cover [0, count), each of some kBytesBetweenLooks; between them it
// looks whether the step was cancelled, and then returns with the cause. For outputs whose size is a number that a
// graph gives: they may take seconds, when the step's deadline has long passed.
template <typename Fn>
Status in_cancellable_blocks(KernelContext& ctx, std::int64_t count, std::int64_t bytes_each, const Fn& fn) {
  const std::int64_t block = std::max<std::int64_t>(1, kBytesBetweenLooks / std::max<std::int64_t>(1, bytes_each));
  for (std::int64_t begin = 0; begin < count; begin += block) {
    if (ctx.cancellation().cancelled()) return ctx.cancellation().status();
    fn(begin, std::min(count, begin + block));
  }
  return {};
}

// As fill_elements() and zero_elements() of a whole tensor.
Status fill_cancellable(KernelContext& ctx, Tensor& out, const void* value);
Status zero_cancellable(KernelContext& ctx, Tensor& out);

}  // namespace tutti::cpu
