#include "tutti/kernels/cpu/function_kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/core/device_name.h"
#include "tutti/core/mutex.h"

namespace tutti {
namespace {

using Handle = FunctionRunner::Handle;

// How deep calls may nest on one thread: a function that calls itself for ever ends in an error, not in a
// stack overflow. One level takes a few kilobytes of stack (more under sanitizers).
constexpr int kMaxNesting = 256;
thread_local int nesting = 0;

class NestingGuard {
 public:
  NestingGuard() { ++nesting; }
  ~NestingGuard() { --nesting; }
  NestingGuard(const NestingGuard&) = delete;
  NestingGuard& operator=(const NestingGuard&) = delete;

  static Status check() {
    if (nesting < kMaxNesting) return Status();
    return resource_exhausted("function calls nested deeper than ", kMaxNesting);
  }
};

// The functions that one kernel calls.
class Callees {
 public:
  // A function that cannot be compiled yet (it is being compiled, around this very kernel) or at all is tried
  // again when it is called: an untaken branch may stay broken.
  Callees(const KernelInit& init, std::vector<FunctionRef> functions) : functions_(std::move(functions)) {
    FunctionRunner* runner = init.services.functions;
    for (const FunctionRef& function : functions_) {
      std::optional<Handle> handle;
      if (runner != nullptr && NestingGuard::check().ok()) {
        NestingGuard guard;
        if (Result<Handle> made = runner->instantiate(function); made.ok()) handle = *made;
      }
      handles_.push_back(handle);
      blocks_.push_back(!handle || runner->may_block(*handle));
      any_blocks_ = any_blocks_ || blocks_.back();
    }
  }

  int size() const { return static_cast<int>(functions_.size()); }
  bool any_blocks() const { return any_blocks_; }
  bool blocks(int i) const { return blocks_[i]; }

  Status run_inline(int i, StepScope& step, std::vector<Tensor> args, std::vector<Tensor>* results) const {
    TUTTI_RETURN_IF_ERROR(NestingGuard::check());
    NestingGuard guard;
    return step.services.functions->run_inline(*handles_[i], step, std::move(args), results);
  }

  void run(int i, StepScope& step, std::vector<Tensor> args, FunctionRunner::Done done) {
    Status room = NestingGuard::check();
    if (!room.ok()) return done(std::move(room), {});
    Result<Handle> handle = resolve(i, step.services.functions);
    if (!handle.ok()) return done(handle.status(), {});
    NestingGuard guard;
    step.services.functions->run(*handle, step, std::move(args), std::move(done));
  }

 private:
  Result<Handle> resolve(int i, FunctionRunner* runner) {
    if (runner == nullptr) {
      return failed_precondition("this task runs no functions, cannot call ", printable(functions_[i].name));
    }
    if (handles_[i]) return *handles_[i];
    {
      MutexLock lock(mu_);
      auto it = late_.find(i);
      if (it != late_.end()) return it->second;
    }
    TUTTI_ASSIGN_OR_RETURN(Handle handle, runner->instantiate(functions_[i]));
    MutexLock lock(mu_);
    late_[i] = handle;
    return handle;
  }

  const std::vector<FunctionRef> functions_;
  std::vector<std::optional<Handle>> handles_;  // constant after construction, as the next two
  std::vector<bool> blocks_;
  bool any_blocks_ = false;
  Mutex mu_;
  std::map<int, Handle> late_ TUTTI_GUARDED_BY(mu_);
};

std::vector<Tensor> inputs_from(const KernelContext& context, int first) {
  std::vector<Tensor> args;
  args.reserve(context.num_inputs() - first);
  for (int i = first; i < context.num_inputs(); ++i) args.push_back(context.input(i));
  return args;
}

// Functions come from outside: what they return need not be what the node promises.
Status check_results(KernelContext& context, const std::vector<Tensor>& results) {
  if (static_cast<int>(results.size()) != context.num_outputs()) {
    return invalid_argument("the function returns ", results.size(), " values, ", context.num_outputs(),
                            " are expected");
  }
  for (int i = 0; i < context.num_outputs(); ++i) {
    if (results[i].dtype() != context.output_type(i)) {
      return invalid_argument("the function's result ", i, " is ", dtype_name(results[i].dtype()), ", ",
                              dtype_name(context.output_type(i)), " is expected");
    }
  }
  return Status();
}

Status set_outputs(KernelContext& context, std::vector<Tensor> results) {
  TUTTI_RETURN_IF_ERROR(check_results(context, results));
  for (int i = 0; i < context.num_outputs(); ++i) context.set_output(i, std::move(results[i]));
  return Status();
}

// Chooses one of its functions and calls it: If, Case and PartitionedCall.
class ChoosingKernel : public AsyncKernel {
 public:
  // Gives the index of the function to call.
  using Choose = Result<int> (*)(const KernelContext& context, int num_functions);

  ChoosingKernel(const KernelInit& init, std::vector<FunctionRef> functions, Choose choose, int first_arg)
      : callees_(init, std::move(functions)), choose_(choose), first_arg_(first_arg) {}

  bool may_block() const override { return callees_.any_blocks(); }

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(int chosen, choose_(context, callees_.size()));
    std::vector<Tensor> results;
    TUTTI_RETURN_IF_ERROR(callees_.run_inline(chosen, context.step(), inputs_from(context, first_arg_), &results));
    return set_outputs(context, std::move(results));
  }

  void compute_async(KernelContext& context, Done done) override {
    Result<int> chosen = choose_(context, callees_.size());
    if (!chosen.ok()) return done(chosen.status());
    callees_.run(*chosen, context.step(), inputs_from(context, first_arg_),
                 [&context, done = std::move(done)](Status status, std::vector<Tensor> results) {
                   if (status.ok()) status = set_outputs(context, std::move(results));
                   done(std::move(status));
                 });
  }

 private:
  Callees callees_;
  const Choose choose_;
  const int first_arg_;
};

Result<int> choose_only(const KernelContext&, int) { return 0; }

Result<int> choose_branch(const KernelContext& context, int) {
  TUTTI_ASSIGN_OR_RETURN(bool taken, truth_of(context.input(0)));
  return taken ? 0 : 1;
}

Result<int> choose_case(const KernelContext& context, int num_functions) {
  const Tensor& index = context.input(0);
  if (index.num_elements() != 1) return invalid_argument("branch_index must be a scalar, is ", index.shape());
  const std::int32_t i = index.scalar<std::int32_t>();
  return i >= 0 && i < num_functions ? i : num_functions - 1;
}

constexpr int kCond = 0;
constexpr int kBody = 1;

Result<bool> truth_of_results(const std::vector<Tensor>& results) {
  if (results.size() != 1) return invalid_argument("the loop's condition returns ", results.size(), " values, not one");
  return truth_of(results[0]);
}

// One asynchronous run of a While. Whoever finishes a call goes on with the loop: the thread that started the
// call when the result was there before it looked, else the callback. So a million calls that finish at
// once take no stack, and calls that wait hold no thread.
class WhileRun : public std::enable_shared_from_this<WhileRun> {
 public:
  WhileRun(Callees& callees, KernelContext& context, AsyncKernel::Done done)
      : callees_(callees), context_(context), done_(std::move(done)), variables_(inputs_from(context, 0)) {}

  void go_on() {
    do {
      if (!prepare()) return;
    } while (start() == Next::kHere);
  }

 private:
  enum class Next { kHere, kInCallback };

  // Takes in the result of the finished call. False: the loop is over and `done_` was called.
  bool prepare() {
    Status status = take_results();
    if (status.ok() && context_.cancellation().cancelled()) status = context_.cancellation().status();
    if (status.ok() && !finished_) return true;
    if (status.ok()) status = set_outputs(context_, std::move(variables_));
    // The context may go as soon as done runs.
    AsyncKernel::Done done = std::move(done_);
    done(std::move(status));
    return false;
  }

  Status take_results() {
    if (!started_) return Status();
    TUTTI_RETURN_IF_ERROR(status_);
    if (calling_ == kCond) {
      TUTTI_ASSIGN_OR_RETURN(bool again, truth_of_results(results_));
      finished_ = !again;
      calling_ = kBody;
      return Status();
    }
    TUTTI_RETURN_IF_ERROR(check_results(context_, results_));
    variables_ = std::move(results_);
    calling_ = kCond;
    return Status();
  }

  Next start() {
    started_ = true;
    results_.clear();
    // The body may write over the variables: nobody needs them any more.
    std::vector<Tensor> args = calling_ == kCond ? variables_ : std::exchange(variables_, {});
    if (!callees_.blocks(calling_)) {
      status_ = callees_.run_inline(calling_, context_.step(), std::move(args), &results_);
      return Next::kHere;
    }
    one_side_done_.store(false, std::memory_order_relaxed);
    callees_.run(calling_, context_.step(), std::move(args),
                 [self = shared_from_this()](Status status, std::vector<Tensor> results) {
                   self->status_ = std::move(status);
                   self->results_ = std::move(results);
                   if (self->second_side()) self->go_on();
                 });
    return second_side() ? Next::kHere : Next::kInCallback;
  }

  // Called once by the starter and once by the callback; true for the later of both, which sees all that the
  // earlier one wrote (acquire/release).
  bool second_side() { return one_side_done_.exchange(true, std::memory_order_acq_rel); }

  Callees& callees_;
  KernelContext& context_;
  AsyncKernel::Done done_;
  std::vector<Tensor> variables_;
  int calling_ = kCond;
  bool started_ = false;
  bool finished_ = false;
  Status status_;                // of the last call
  std::vector<Tensor> results_;  // likewise
  std::atomic<bool> one_side_done_{false};
};

class WhileKernel : public AsyncKernel {
 public:
  explicit WhileKernel(const KernelInit& init)
      : callees_(init, {init.attr<FunctionRef>("cond"), init.attr<FunctionRef>("body")}) {}

  bool may_block() const override { return callees_.any_blocks(); }

  Status compute(KernelContext& context) override {
    std::vector<Tensor> variables = inputs_from(context, 0);
    std::vector<Tensor> results;
    for (;;) {
      if (context.cancellation().cancelled()) return context.cancellation().status();
      TUTTI_RETURN_IF_ERROR(callees_.run_inline(kCond, context.step(), variables, &results));
      TUTTI_ASSIGN_OR_RETURN(bool again, truth_of_results(results));
      if (!again) return set_outputs(context, std::move(variables));
      results.clear();
      // The body may write over the variables: nobody needs them any more.
      TUTTI_RETURN_IF_ERROR(callees_.run_inline(kBody, context.step(), std::exchange(variables, {}), &results));
      TUTTI_RETURN_IF_ERROR(check_results(context, results));
      variables = std::exchange(results, {});
    }
  }

  void compute_async(KernelContext& context, Done done) override {
    std::make_shared<WhileRun>(callees_, context, std::move(done))->go_on();
  }

 private:
  Callees callees_;
};

class DeviceIndexKernel : public Kernel {
 public:
  explicit DeviceIndexKernel(const KernelInit& init) {
    const auto& names = init.attr<std::vector<std::string>>("device_names");
    Result<DeviceName> device = DeviceName::parse(init.device);
    const std::string type = device.ok() ? device->type.value_or("") : "";
    index_ = static_cast<std::int32_t>(std::find(names.begin(), names.end(), type) - names.begin());
  }
  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * out, context.allocate_output(0, Shape{}));
    *out->data<std::int32_t>() = index_;
    return {};
  }

 private:
  std::int32_t index_ = 0;
};

class FakeParamKernel : public Kernel {
 public:
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const PartialShape& partial = init.attr<PartialShape>("shape");
    std::vector<std::int64_t> dims;
    if (partial.has_rank()) {
      for (std::int64_t dim : partial.dims()) dims.push_back(std::max<std::int64_t>(dim, 0));
    }
    TUTTI_ASSIGN_OR_RETURN(Shape shape, Shape::create(dims));
    return std::unique_ptr<Kernel>(new FakeParamKernel(std::move(shape)));
  }

  Status compute(KernelContext& context) override {
    TUTTI_ASSIGN_OR_RETURN(Tensor * output, context.allocate_output(0, shape_));
    if (!is_object(output->dtype()) && output->bytes() > 0) std::memset(output->raw(), 0, output->bytes());
    return Status();
  }

 private:
  explicit FakeParamKernel(Shape shape) : shape_(std::move(shape)) {}
  const Shape shape_;
};

Status to_bool(KernelContext& context) {
  TUTTI_ASSIGN_OR_RETURN(bool truth, truth_of(context.input(0)));
  TUTTI_ASSIGN_OR_RETURN(Tensor * output, context.allocate_output(0, Shape{}));
  output->data<bool>()[0] = truth;
  return Status();
}

Status pass_all(KernelContext& context) {
  if (context.num_inputs() != context.num_outputs()) {
    return invalid_argument(context.num_inputs(), " inputs but ", context.num_outputs(), " outputs");
  }
  for (int i = 0; i < context.num_inputs(); ++i) {
    if (context.input(i).dtype() != context.output_type(i)) {
      return invalid_argument("input ", i, " is ", dtype_name(context.input(i).dtype()), ", the output ",
                              dtype_name(context.output_type(i)));
    }
    context.set_output(i, context.input(i));
  }
  return Status();
}

Status outside_function(KernelContext&) {
  return invalid_argument("a function's argument or result node was run outside a function");
}

template <typename T>
bool is_not_zero(const Tensor& value) {
  return value.scalar<T>() != T{};
}

}  // namespace

Result<bool> truth_of(const Tensor& value) {
  if (value.rank() > 0) return value.num_elements() > 0;
  switch (value.dtype()) {
    case DType::kBool:
      return value.scalar<bool>();
    case DType::kFloat:
      return is_not_zero<float>(value);
    case DType::kDouble:
      return is_not_zero<double>(value);
    case DType::kInt8:
      return is_not_zero<std::int8_t>(value);
    case DType::kInt16:
      return is_not_zero<std::int16_t>(value);
    case DType::kInt32:
      return is_not_zero<std::int32_t>(value);
    case DType::kInt64:
      return is_not_zero<std::int64_t>(value);
    case DType::kUint8:
      return is_not_zero<std::uint8_t>(value);
    case DType::kString:
      return !value.scalar<std::string>().empty();
    default:
      return invalid_argument("a ", dtype_name(value.dtype()), " is neither true nor false");
  }
}

KernelFactory if_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    std::vector<FunctionRef> branches = {init.attr<FunctionRef>("then_branch"), init.attr<FunctionRef>("else_branch")};
    return std::unique_ptr<Kernel>(std::make_unique<ChoosingKernel>(init, std::move(branches), choose_branch, 1));
  };
}

KernelFactory case_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(
        std::make_unique<ChoosingKernel>(init, init.attr<std::vector<FunctionRef>>("branches"), choose_case, 1));
  };
}

KernelFactory while_kernel() { return kernel_of<WhileKernel>(); }

KernelFactory call_kernel() {
  return [](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    std::vector<FunctionRef> function = {init.attr<FunctionRef>("f")};
    return std::unique_ptr<Kernel>(std::make_unique<ChoosingKernel>(init, std::move(function), choose_only, 0));
  };
}

KernelFactory device_index_kernel() { return kernel_of<DeviceIndexKernel>(); }
KernelFactory fake_param_kernel() { return kernel_of<FakeParamKernel>(); }
KernelFactory to_bool_kernel() { return kernel_from(to_bool); }
KernelFactory pass_all_kernel() { return kernel_from(pass_all); }
KernelFactory function_boundary_kernel() { return kernel_from(outside_function); }

}  // namespace tutti
