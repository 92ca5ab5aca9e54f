#include "tutti/ops/host/internal/file_kernel.h"

#include <memory>
#include <utility>

#include "tutti/kernels/guard.h"

namespace tutti {

namespace {

class FileKernel : public AsyncKernel {
 public:
  explicit FileKernel(FileWork work) : work_(std::move(work)) {}

  void compute_async(KernelContext& context, Done done) override {
    BlockingRunner* runner = context.services().blocking;
    if (runner == nullptr) return done(run(context));
    // The executor keeps context and kernel until `done`.
    runner->run([this, &context, done = std::move(done)] { done(run(context)); });
  }

 private:
  Status run(KernelContext& context) const {
    if (context.cancellation().cancelled()) return context.cancellation().status();
    if (context.services().files == nullptr) return failed_precondition("this task has no files");
    return guarded(context.services().memory, [&] { return work_(context, *context.services().files); });
  }

  const FileWork work_;
};

}  // namespace

KernelFactory file_kernel(FileWork work) {
  return [work = std::move(work)](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<FileKernel>(work));
  };
}

Result<std::string> single_string(KernelContext& context, int i, std::string_view name) {
  const Tensor& tensor = context.input(i);
  if (tensor.num_elements() != 1) {
    return invalid_argument("Input ", name, " should have a single element, got ", tensor.num_elements(), " instead.");
  }
  return tensor.scalar<std::string>();
}

std::span<const std::string> strings(KernelContext& context, int i) { return context.input(i).flat<std::string>(); }

}  // namespace tutti
