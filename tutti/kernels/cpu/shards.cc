#include "tutti/kernels/cpu/shards.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/gradient_ledger.h"
#include "tutti/kernels/resources/shard_accumulator.h"
#include "tutti/kernels/resources/shard_board.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::cpu {

namespace {

// What shares a name must agree on the number of shards: a sum over another number would be wrong without a word.
template <typename T>
Status check_shared(const ResourceSlot& slot, const std::shared_ptr<Resource>& resource, std::int64_t num_shards) {
  const T* typed = dynamic_cast<const T*>(resource.get());
  if (typed == nullptr) {
    return invalid_argument("Resource ", printable(slot.name()),
                            " is another kind of resource: ", resource ? resource->debug_string() : "none");
  }
  if (typed->options().num_shards == num_shards) return {};
  return invalid_argument("Resource ", printable(slot.name()), " has ", typed->options().num_shards,
                          " shards, the node asks for ", num_shards);
}

template <typename A>
class MakeShardAccumulator : public Kernel {
 public:
  MakeShardAccumulator(std::shared_ptr<ResourceSlot> slot, ShardAccumulatorOptions options, const KernelInit& init)
      : slot_(std::move(slot)), options_(std::move(options)), output_(init, slot_) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init, Unnamed::kByNode));
    ShardAccumulatorOptions options{.name = slot->name(),
                                    .dtype = init.attr<DType>("dtype"),
                                    .shape = init.attr<PartialShape>("shape"),
                                    .num_shards = init.attr<std::int64_t>("num_shards"),
                                    .ledger = {}};
    TUTTI_RETURN_IF_ERROR(A::create(options).status());  // so that bad attributes show here
    return std::unique_ptr<Kernel>(std::make_unique<MakeShardAccumulator>(std::move(slot), std::move(options), init));
  }

  Status compute(KernelContext& ctx) override {
    const auto resource = slot_->get_or_create([&]() -> std::shared_ptr<Resource> {
      ShardAccumulatorOptions options = options_;
      options.ledger = ledger_for(ctx, *slot_);
      auto made = A::create(std::move(options));
      return made.ok() ? *made : nullptr;
    });
    TUTTI_RETURN_IF_ERROR(check_shared<A>(*slot_, resource, options_.num_shards));
    output_.give(ctx);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const ShardAccumulatorOptions options_;
  const HandleOutput output_;
};

class MakeBoard : public Kernel {
 public:
  MakeBoard(std::shared_ptr<ResourceSlot> slot, ShardBoardOptions options, const KernelInit& init)
      : slot_(std::move(slot)), options_(std::move(options)), output_(init, slot_) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init, Unnamed::kByNode));
    // What is longer than the longest lease is refused as that is, and does not overflow on the way.
    constexpr std::int64_t kYears = 10LL * 365 * 24 * 3600 * 1000;
    const std::int64_t lease_ms = std::clamp<std::int64_t>(init.attr<std::int64_t>("lease_ms"), 0, kYears);
    ShardBoardOptions options{.name = slot->name(),
                              .num_shards = init.attr<std::int64_t>("num_shards"),
                              .lease = std::chrono::milliseconds(lease_ms),
                              .clock = init.services.clock};
    TUTTI_RETURN_IF_ERROR(ShardBoard::create(options).status());
    return std::unique_ptr<Kernel>(std::make_unique<MakeBoard>(std::move(slot), std::move(options), init));
  }

  Status compute(KernelContext& ctx) override {
    const auto resource = slot_->get_or_create([&]() -> std::shared_ptr<Resource> {
      auto made = ShardBoard::create(options_);
      return made.ok() ? *made : nullptr;
    });
    TUTTI_RETURN_IF_ERROR(check_shared<ShardBoard>(*slot_, resource, options_.num_shards));
    output_.give(ctx);
    return {};
  }

 private:
  const std::shared_ptr<ResourceSlot> slot_;
  const ShardBoardOptions options_;
  const HandleOutput output_;
};

template <typename T>
Result<std::shared_ptr<T>> input_resource(KernelContext& ctx, std::string_view kind) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<T>(*slot, kind);
}

template <typename A>
Result<std::shared_ptr<A>> input_shard_accumulator(KernelContext& ctx) {
  return input_resource<A>(ctx, "shard accumulator");
}

Result<std::shared_ptr<ShardBoard>> input_board(KernelContext& ctx) {
  return input_resource<ShardBoard>(ctx, "board of shards");
}

Result<ShardClaim> read_claim(const Tensor& value) {
  if (value.rank() != 1 || value.num_elements() != 2) {
    return invalid_argument("a claim is {step, shard}, not ", value.shape());
  }
  return ShardClaim{.step = value.data<std::int64_t>()[0], .shard = value.data<std::int64_t>()[1]};
}

// A kernel of somebody: K is made from init and the name in attribute worker.
template <typename K>
Result<std::unique_ptr<Kernel>> make_for_worker(const KernelInit& init) {
  const std::string& worker = init.attr<std::string>("worker");
  TUTTI_RETURN_IF_ERROR(check_worker_name(worker));
  return std::unique_ptr<Kernel>(std::make_unique<K>(worker));
}

class DenseShardApply : public Kernel {
 public:
  explicit DenseShardApply(std::string worker) : worker_(std::move(worker)) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_shard_accumulator<DenseShardAccumulator>(ctx));
    TUTTI_ASSIGN_OR_RETURN(const ShardClaim claim, read_claim(ctx.input(1)));
    return accumulator->apply_gradient(claim, ctx.input(2), worker_);
  }

 private:
  const std::string worker_;
};

class SparseShardApply : public Kernel {
 public:
  explicit SparseShardApply(std::string worker) : worker_(std::move(worker)) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_shard_accumulator<SparseShardAccumulator>(ctx));
    TUTTI_ASSIGN_OR_RETURN(const ShardClaim claim, read_claim(ctx.input(1)));
    return accumulator->apply_gradient(claim, ctx.input(2), ctx.input(3), ctx.input(4), worker_);
  }

 private:
  const std::string worker_;
};

class TakeShards : public AsyncKernel {
 public:
  void compute_async(KernelContext& ctx, Done done) override {
    auto accumulator = input_shard_accumulator<ShardAccumulator>(ctx);
    if (!accumulator.ok()) return done(accumulator.status());
    const auto step = read_scalar_integer(ctx.input(1), "step");
    if (!step.ok()) return done(step.status());
    if (Status fits = check(ctx, **accumulator); !fits.ok()) return done(std::move(fits));
    (*accumulator)
        ->take(*step, ctx.cancellation(), [&ctx, done = std::move(done)](Status status, ShardAccumulator::Parts parts) {
          for (std::size_t i = 0; status.ok() && i < parts.size(); ++i) {
            ctx.set_output(static_cast<int>(i), std::move(parts[i]));
          }
          done(std::move(status));
        });
  }

 private:
  // A handle says nothing of what it leads to.
  static Status check(KernelContext& ctx, const ShardAccumulator& accumulator) {
    const bool sparse = dynamic_cast<const SparseShardAccumulator*>(&accumulator) != nullptr;
    const int outputs = sparse ? 3 : 1;
    if (ctx.num_outputs() == outputs && ctx.output_type(sparse ? 1 : 0) == accumulator.options().dtype) return {};
    return invalid_argument("the op does not take from the ", accumulator.debug_string());
  }
};

class Next : public AsyncKernel {
 public:
  explicit Next(std::string worker) : worker_(std::move(worker)) {}
  void compute_async(KernelContext& ctx, Done done) override {
    const auto board = input_board(ctx);
    if (!board.ok()) return done(board.status());
    const auto finished = read_claim(ctx.input(1));
    if (!finished.ok()) return done(finished.status());
    const auto threads = read_scalar_integer(ctx.input(2), "threads");
    if (!threads.ok()) return done(threads.status());
    (*board)->next({worker_, *threads}, *finished, ctx.cancellation(),
                   [&ctx, done = std::move(done)](Status status, ShardClaim claim) {
                     if (status.ok()) ctx.set_output(0, Tensor::vector<std::int64_t>({claim.step, claim.shard}));
                     done(std::move(status));
                   });
  }

 private:
  const std::string worker_;
};

class Attend : public AsyncKernel {
 public:
  explicit Attend(std::string worker) : worker_(std::move(worker)) {}
  void compute_async(KernelContext& ctx, Done done) override {
    const auto board = input_board(ctx);
    if (!board.ok()) return done(board.status());
    (*board)->attend(worker_, ctx.cancellation(), std::move(done));
  }

 private:
  const std::string worker_;
};

class GiveBack : public Kernel {
 public:
  explicit GiveBack(std::string worker) : worker_(std::move(worker)) {}
  Status compute(KernelContext& ctx) override {
    TUTTI_ASSIGN_OR_RETURN(const auto board, input_board(ctx));
    board->give_back(worker_);
    return {};
  }

 private:
  const std::string worker_;
};

class ReadLedger : public Kernel {
 public:
  explicit ReadLedger(const KernelInit& init) : container_(init.attr<std::string>("container")) {}
  Status compute(KernelContext& ctx) override {
    if (ctx.services().resources == nullptr) return failed_precondition("this task keeps no resources");
    TUTTI_ASSIGN_OR_RETURN(const auto ledger, gradient_ledger_in(*ctx.services().resources, container_));
    const std::vector<GradientLedger::Row> rows = ledger->rows();
    const auto n = static_cast<std::int64_t>(rows.size());
    TUTTI_ASSIGN_OR_RETURN(Tensor * workers, ctx.allocate_output(0, Shape{n}));
    TUTTI_ASSIGN_OR_RETURN(Tensor * accumulators, ctx.allocate_output(1, Shape{n}));
    TUTTI_ASSIGN_OR_RETURN(Tensor * counts, ctx.allocate_output(2, Shape{n, 3}));
    std::int64_t* count = counts->data<std::int64_t>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      workers->data<std::string>()[i] = rows[i].worker;
      accumulators->data<std::string>()[i] = rows[i].accumulator;
      for (const std::int64_t value : {rows[i].applied, rows[i].stale, rows[i].retried}) *count++ = value;
    }
    return {};
  }

 private:
  const std::string container_;
};

}  // namespace

KernelFactory shard_accumulator_kernel() { return kernel_of<MakeShardAccumulator<DenseShardAccumulator>>(); }
KernelFactory sparse_shard_accumulator_kernel() { return kernel_of<MakeShardAccumulator<SparseShardAccumulator>>(); }
KernelFactory shard_apply_kernel() { return make_for_worker<DenseShardApply>; }
KernelFactory sparse_shard_apply_kernel() { return make_for_worker<SparseShardApply>; }
KernelFactory shard_board_kernel() { return kernel_of<MakeBoard>(); }
KernelFactory next_shard_kernel() { return make_for_worker<Next>; }
KernelFactory attend_shards_kernel() { return make_for_worker<Attend>; }
KernelFactory give_back_shards_kernel() { return make_for_worker<GiveBack>; }
KernelFactory gradient_ledger_kernel() { return kernel_of<ReadLedger>(); }

KernelFactory shard_take_kernel() {
  return [](const KernelInit&) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<TakeShards>());
  };
}

Status shard_set_step(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto accumulator, input_shard_accumulator<ShardAccumulator>(ctx));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t step, read_scalar_integer(ctx.input(1), "step"));
  accumulator->set_step(step);
  return {};
}

Status open_shards(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto board, input_board(ctx));
  TUTTI_ASSIGN_OR_RETURN(const std::int64_t step, read_scalar_integer(ctx.input(1), "step"));
  if (step < 0) return invalid_argument("a step to open must not be negative: ", step);
  board->open(step);
  return {};
}

Status team_size(KernelContext& ctx) {
  ctx.set_output(0, Tensor::scalar(std::int64_t{ctx.team().size()}));
  return {};
}

Status close_shards(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto board, input_board(ctx));
  board->close();
  return {};
}

}  // namespace tutti::cpu
