// The only way to run a kernel: an exception that leaves its code becomes a status.
//
// Kernels return a Status and should not throw, but they allocate, and users write kernels too. An exception that
// escapes on a thread of a pool would end the process, and with it the variables that the task holds.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "tutti/core/memory_budget.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

// The exception being handled, as a status: kResourceExhausted for memory, else kInternal.
// REQUIRES: called in a catch block.
Status status_of_exception();

// Runs `work`, which returns a Status or a Result. What it takes must fit into the budget of `account`; null: any.
template <typename Work>
std::invoke_result_t<Work> guarded(MemoryAccount* account, Work&& work) {
  try {
    const MemoryScope memory(account);
    return std::forward<Work>(work)();
  } catch (...) {
    return status_of_exception();
  }
}

template <typename Work>
std::invoke_result_t<Work> guarded(Work&& work) {
  return guarded(nullptr, std::forward<Work>(work));
}

Status guarded_compute(Kernel& kernel, KernelContext& context);
// A kernel that throws has not called `done`: it is called here. Its memory is not checked, since `done` may be called
// inside of it, and goes on with other work.
void guarded_compute_async(AsyncKernel& kernel, KernelContext& context, const AsyncKernel::Done& done);
Result<std::unique_ptr<Kernel>> guarded_make(const KernelFactory& make, const KernelInit& init);

}  // namespace tutti
