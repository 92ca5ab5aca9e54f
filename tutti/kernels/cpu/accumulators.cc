#include "tutti/kernels/cpu/accumulators.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/accumulator.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::cpu {

namespace {

template <typename A>
class MakeAccumulator : public Kernel {
 public:
  MakeAccumulator(std::shared_ptr<ResourceSlot> slot, AccumulatorOptions options, const KernelInit& init)
      : slot_(std::move(slot)), options_(std::move(options)), output_(init, slot_) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init));
    AccumulatorOptions options{.name = slot->name(),
                               .dtype = init.attr<DType>("dtype"),
                               .shape = init.attr<PartialShape>("shape"),
                               .reduction = init.attr<std::string>("reduction_type") == "SUM"
                                                ? AccumulatorReduction::kSum
                                                : AccumulatorReduction::kMean,
                               .ledger = {}};
    TUTTI_RETURN_IF_ERROR(A::create(options).status());  // so that bad attributes show here
    return std::unique_ptr<Kernel>(std::make_unique<MakeAccumulator>(std::move(slot), std::move(options), init));
  }

  Status compute(KernelContext& ctx) override {
    auto resource = slot_->get_or_create([&]() -> std::shared_ptr<Resource> {
      AccumulatorOptions options = options_;
      options.ledger = ledger_for(ctx, *slot_);
      auto made = A::create(std::move(options));
      return made.ok() ? *made : nullptr;
    });
    // TensorFlow compares nothing else when a name is shared.
    if (dynamic_cast<A*>(resource.get()) == nullptr) {
      return invalid_argument("Resource ", printable(slot_->name()),
                              " is another kind of resource: ", resource->debug_string());
    }
    output_.give(ctx);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const AccumulatorOptions options_;
  const HandleOutput output_;
};

template <typename A>
Result<std::shared_ptr<A>> input_accumulator(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<A>(*slot, "conditional accumulator");
}

Result<std::int64_t> read_scalar(KernelContext& ctx, int i, std::string_view name) {
  const Tensor& value = ctx.input(i);
  if (value.rank() != 0) {
    return invalid_argument("Argument ", name, " must be scalar, but had bad shape ", value.shape());
  }
  return read_integer(value, name);
}

// Who sends the gradients of a node, where it says so.
Result<std::string> worker_of(const KernelInit& init) {
  const auto attr = init.attrs.find(GradientLedger::kWorkerAttr);
  const std::string* worker = attr != init.attrs.end() ? attr->second.get<std::string>() : nullptr;
  if (worker == nullptr) return std::string();
  TUTTI_RETURN_IF_ERROR(check_worker_name(*worker));
  return *worker;
}

class DenseApply : public Kernel {
 public:
  explicit DenseApply(std::string worker) : worker_(std::move(worker)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(std::string worker, worker_of(init));
    return std::unique_ptr<Kernel>(std::make_unique<DenseApply>(std::move(worker)));
  }
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_accumulator<DenseAccumulator>(ctx));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t local_step, read_scalar(ctx, 1, "local_step"));
    return accumulator->apply_gradient(local_step, ctx.input(2), worker_);
  }

 private:
  const std::string worker_;
};

class SparseApply : public Kernel {
 public:
  SparseApply(std::string worker, bool has_known_shape)
      : worker_(std::move(worker)), has_known_shape_(has_known_shape) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(std::string worker, worker_of(init));
    return std::unique_ptr<Kernel>(
        std::make_unique<SparseApply>(std::move(worker), init.attr<bool>("has_known_shape")));
  }
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_accumulator<SparseAccumulator>(ctx));
    TUTTI_ASSIGN_OR_RETURN(const std::int64_t local_step, read_scalar(ctx, 1, "local_step"));
    return accumulator->apply_gradient(local_step, ctx.input(2), ctx.input(3),
                                       has_known_shape_ ? ctx.input(4) : Tensor(), worker_);
  }

 private:
  const std::string worker_;
  const bool has_known_shape_;
};

class Take : public AsyncKernel {
 public:
  void compute_async(KernelContext& ctx, Done done) override {
    auto accumulator = input_accumulator<Accumulator>(ctx);
    if (!accumulator.ok()) return done(accumulator.status());
    const auto required = read_scalar(ctx, 1, "num_required");
    if (!required.ok()) return done(required.status());
    if (Status fits = check(ctx, **accumulator); !fits.ok()) return done(std::move(fits));
    (*accumulator)
        ->take(*required, ctx.cancellation(), [&ctx, done = std::move(done)](Status status, Accumulator::Parts parts) {
          for (std::size_t i = 0; status.ok() && i < parts.size(); ++i) {
            ctx.set_output(static_cast<int>(i), std::move(parts[i]));
          }
          done(std::move(status));
        });
  }

 private:
  // A handle says nothing of what it leads to.
  static Status check(KernelContext& ctx, const Accumulator& accumulator) {
    const bool sparse = dynamic_cast<const SparseAccumulator*>(&accumulator) != nullptr;
    const int outputs = sparse ? 3 : 1;
    if (ctx.num_outputs() == outputs && ctx.output_type(sparse ? 1 : 0) == accumulator.options().dtype) return {};
    return invalid_argument("the op does not take from the ", accumulator.debug_string());
  }
};

}  // namespace

KernelFactory accumulator_kernel() { return kernel_of<MakeAccumulator<DenseAccumulator>>(); }
KernelFactory sparse_accumulator_kernel() { return kernel_of<MakeAccumulator<SparseAccumulator>>(); }
KernelFactory accumulator_apply_kernel() { return kernel_of<DenseApply>(); }
KernelFactory sparse_accumulator_apply_kernel() { return kernel_of<SparseApply>(); }

KernelFactory accumulator_take_kernel() {
  return [](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<Take>());
  };
}

Status accumulator_set_global_step(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_accumulator<Accumulator>(ctx));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t step, read_scalar(ctx, 1, "new_global_step"));
  accumulator->set_global_step(step);
  return {};
}

Status accumulator_num_accumulated(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_accumulator<Accumulator>(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int32_t>() = static_cast<std::int32_t>(
      std::min<std::int64_t>(accumulator->num_accumulated(), std::numeric_limits<std::int32_t>::max()));
  return {};
}

}  // namespace tutti::cpu
