#include "tutti/kernels/cpu/barriers.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/barrier.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::cpu {
namespace {

class MakeBarrier : public Kernel {
 public:
  MakeBarrier(std::shared_ptr<ResourceSlot> slot, BarrierOptions options, const KernelInit& init)
      : slot_(std::move(slot)), options_(std::move(options)), output_(init, slot_) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init));
    BarrierOptions options{.name = slot->name(),
                           .component_types = init.attr<std::vector<DType>>("component_types"),
                           .shapes = init.attr<std::vector<PartialShape>>("shapes")};
    if (const std::int64_t capacity = init.attr<std::int64_t>("capacity"); capacity != -1) {
      return invalid_argument(
          "Barrier only accepts capacity=-1.  Feed the inputs to your Barrier through a queue to "
          "enforce a limited capacity. (capacity is ",
          capacity, ")");
    }
    TUTTI_RETURN_IF_ERROR(Barrier::create(options).status());  // so that bad attributes show here
    return std::unique_ptr<Kernel>(std::make_unique<MakeBarrier>(std::move(slot), std::move(options), init));
  }

  Status compute(KernelContext& ctx) override {
    const auto resource = slot_->get_or_create([this]() -> std::shared_ptr<Resource> {
      auto barrier = Barrier::create(options_);
      return barrier.ok() ? *barrier : nullptr;
    });
    const auto* barrier = dynamic_cast<const Barrier*>(resource.get());
    if (barrier == nullptr || barrier->options() != options_) {
      return invalid_argument("Shared barrier '", printable(slot_->name()),
                              "' has other component types or shapes: ", resource->debug_string());
    }
    output_.give(ctx);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const BarrierOptions options_;
  const HandleOutput output_;
};

Result<std::shared_ptr<Barrier>> input_barrier(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<Barrier>(*slot, "barrier");
}

class BarrierInsertMany : public Kernel {
 public:
  explicit BarrierInsertMany(const KernelInit& init) : component_(init.attr<std::int64_t>("component_index")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto barrier, input_barrier(ctx));
    return barrier->insert_many(component_, ctx.input(1), ctx.input(2));
  }

 private:
  const std::int64_t component_;
};

class BarrierTakeMany : public AsyncKernel {
 public:
  explicit BarrierTakeMany(const KernelInit& init)
      : types_(init.attr<std::vector<DType>>("component_types")), allow_fewer_(init.attr<bool>("allow_small_batch")) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    if (const std::int64_t timeout_ms = init.attr<std::int64_t>("timeout_ms"); timeout_ms != -1) {
      return invalid_argument("Timeout not supported yet. (timeout_ms is ", timeout_ms, ")");
    }
    return std::unique_ptr<Kernel>(std::make_unique<BarrierTakeMany>(init));
  }

  void compute_async(KernelContext& ctx, Done done) override {
    const auto barrier = input_barrier(ctx);
    if (!barrier.ok()) return done(barrier.status());
    if ((*barrier)->options().component_types != types_) {
      return done(invalid_argument("the components that are taken are not those of ", (*barrier)->debug_string()));
    }
    const Result<std::int64_t> count = read_integer(ctx.input(1), "num_elements");
    if (!count.ok()) return done(count.status());
    (*barrier)->take_many(*count, allow_fewer_, ctx.cancellation(),
                          [&ctx, done = std::move(done)](Status status, TensorTuple tuple) {
                            for (std::size_t i = 0; status.ok() && i < tuple.size(); ++i) {
                              ctx.set_output(static_cast<int>(i), std::move(tuple[i]));
                            }
                            done(std::move(status));
                          });
  }

 private:
  const std::vector<DType> types_;
  const bool allow_fewer_;
};

class BarrierClose : public Kernel {
 public:
  explicit BarrierClose(const KernelInit& init) : cancel_pending_(init.attr<bool>("cancel_pending_enqueues")) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto barrier, input_barrier(ctx));
    return barrier->close(cancel_pending_);
  }

 private:
  const bool cancel_pending_;
};

Status give_size(KernelContext& ctx, std::int64_t size) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int32_t>() =
      static_cast<std::int32_t>(std::min<std::int64_t>(size, std::numeric_limits<std::int32_t>::max()));
  return {};
}

}  // namespace

KernelFactory barrier_kernel() { return MakeBarrier::create; }
KernelFactory barrier_insert_many_kernel() { return kernel_of<BarrierInsertMany>(); }
KernelFactory barrier_take_many_kernel() { return BarrierTakeMany::create; }
KernelFactory barrier_close_kernel() { return kernel_of<BarrierClose>(); }

Status barrier_ready_size(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto barrier, input_barrier(ctx));
  return give_size(ctx, barrier->ready_size());
}

Status barrier_incomplete_size(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto barrier, input_barrier(ctx));
  return give_size(ctx, barrier->incomplete_size());
}

}  // namespace tutti::cpu
