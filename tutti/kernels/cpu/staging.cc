#include "tutti/kernels/cpu/staging.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/slots.h"
#include "tutti/kernels/resources/staging_area.h"

namespace tutti::cpu {
namespace {

class StagingKernel : public AsyncKernel {
 public:
  StagingKernel(std::shared_ptr<ResourceSlot> slot, const KernelInit& init)
      : slot_(std::move(slot)),
        limits_{.tuples = init.attr<std::int64_t>("capacity"), .bytes = init.attr<std::int64_t>("memory_limit")} {}

  void compute_async(KernelContext& ctx, Done done) override {
    const auto resource =
        slot_->get_or_create([this] { return std::make_shared<StagingArea>(slot_->name(), limits_); });
    const auto area = std::dynamic_pointer_cast<StagingArea>(resource);
    if (!area) {
      return done(invalid_argument("Resource ", printable(slot_->name()),
                                   " is not a staging area: ", resource->debug_string()));
    }
    act(*area, ctx, std::move(done));
  }

 protected:
  virtual void act(StagingArea& area, KernelContext& ctx, Done done) = 0;

  static StagingArea::Done give_tuple(KernelContext& ctx, Done done) {
    return [&ctx, done = std::move(done)](Status status, TensorTuple tuple) {
      if (status.ok()) status = give_outputs(ctx, std::move(tuple));
      done(std::move(status));
    };
  }

  static void give_number(KernelContext& ctx, std::int64_t number, const Done& done) {
    const Result<Tensor*> out = ctx.allocate_output(0, Shape{});
    if (!out.ok()) return done(out.status());
    *(*out)->data<std::int32_t>() =
        static_cast<std::int32_t>(std::min<std::int64_t>(number, std::numeric_limits<std::int32_t>::max()));
    done({});
  }

 private:
  static Status give_outputs(KernelContext& ctx, TensorTuple tuple) {
    if (static_cast<int>(tuple.size()) != ctx.num_outputs()) {
      return invalid_argument("Mismatch stage/unstage: ", tuple.size(), " vs. ", ctx.num_outputs());
    }
    for (std::size_t i = 0; i < tuple.size(); ++i) {
      const DType wanted = ctx.output_type(static_cast<int>(i));
      if (tuple[i].dtype() != wanted) {
        return invalid_argument("component ", i, " was staged as ", dtype_name(tuple[i].dtype()), " and is taken as ",
                                dtype_name(wanted));
      }
      ctx.set_output(static_cast<int>(i), std::move(tuple[i]));
    }
    return {};
  }

  const std::shared_ptr<ResourceSlot> slot_;
  const StagingLimits limits_;
};

class Stage : public StagingKernel {
 public:
  using StagingKernel::StagingKernel;

 protected:
  void act(StagingArea& area, KernelContext& ctx, Done done) override {
    TensorTuple tuple;
    for (int i = 0; i < ctx.num_inputs(); ++i) tuple.push_back(ctx.input(i));
    area.put(std::move(tuple), ctx.cancellation(),
             [done = std::move(done)](Status status, const TensorTuple&) { done(std::move(status)); });
  }
};

class Unstage : public StagingKernel {
 public:
  using StagingKernel::StagingKernel;

 protected:
  void act(StagingArea& area, KernelContext& ctx, Done done) override {
    area.get(ctx.cancellation(), give_tuple(ctx, std::move(done)));
  }
};

class StagePeek : public StagingKernel {
 public:
  using StagingKernel::StagingKernel;

 protected:
  void act(StagingArea& area, KernelContext& ctx, Done done) override {
    const Result<std::int64_t> index = read_integer(ctx.input(0), "index");
    if (!index.ok()) return done(index.status());
    area.peek(*index, ctx.cancellation(), give_tuple(ctx, std::move(done)));
  }
};

class StageSize : public StagingKernel {
 public:
  using StagingKernel::StagingKernel;

 protected:
  void act(StagingArea& area, KernelContext& ctx, Done done) override { give_number(ctx, area.size(), done); }
};

class StageClear : public StagingKernel {
 public:
  using StagingKernel::StagingKernel;

 protected:
  void act(StagingArea& area, KernelContext&, Done done) override {
    area.clear();
    done({});
  }
};

template <typename K>
KernelFactory staging_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init, Unnamed::kByNode));
    return std::unique_ptr<Kernel>(std::make_unique<K>(std::move(slot), init));
  };
}

}  // namespace

KernelFactory stage_kernel() { return staging_kernel<Stage>(); }
KernelFactory unstage_kernel() { return staging_kernel<Unstage>(); }
KernelFactory stage_peek_kernel() { return staging_kernel<StagePeek>(); }
KernelFactory stage_size_kernel() { return staging_kernel<StageSize>(); }
KernelFactory stage_clear_kernel() { return staging_kernel<StageClear>(); }

}  // namespace tutti::cpu
