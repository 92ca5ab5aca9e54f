#include "tutti/kernels/guard.h"

#include <exception>
#include <new>
#include <stdexcept>

namespace tutti {

Status status_of_exception() {
  try {
    throw;
  } catch (const OverBudget& error) {
    return resource_exhausted("out of memory: ", error.shortage());
  } catch (const std::bad_alloc&) {
    return resource_exhausted("out of memory");
  } catch (const std::length_error& error) {
    // A container that was asked for more elements than any memory holds.
    return resource_exhausted("out of memory: ", error.what());
  } catch (const std::exception& error) {
    return internal_error("the kernel threw: ", error.what());
  } catch (...) {
    return internal_error("the kernel threw something that is not an exception");
  }
}

Status guarded_compute(Kernel& kernel, KernelContext& context) {
  return guarded(context.services().memory, [&] { return kernel.compute(context); });
}

void guarded_compute_async(AsyncKernel& kernel, KernelContext& context, const AsyncKernel::Done& done) {
  Status thrown = guarded([&]() -> Status {
    kernel.compute_async(context, done);
    return {};
  });
  if (!thrown.ok()) done(std::move(thrown));
}

Result<std::unique_ptr<Kernel>> guarded_make(const KernelFactory& make, const KernelInit& init) {
  return guarded(init.services.memory, [&] { return make(init); });
}

}  // namespace tutti
