#include "tutti/kernels/cpu/boundary.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tutti/core/memory_budget.h"
#include "tutti/core/rendezvous_key.h"
#include "tutti/kernels/cpu/control_flow.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/number_types.h"
#include "tutti/kernels/cpu/tensor_text.h"

namespace tutti::cpu {

Status no_op(KernelContext&) { return {}; }

Status identity(KernelContext& ctx) {
  for (int i = 0; i < ctx.num_inputs(); ++i) TUTTI_RETURN_IF_ERROR(hand_on(ctx, i, i));
  return {};
}

Status deep_copy(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(Tensor copy, ctx.input(0).clone(ctx.allocator()));
  ctx.set_output(0, std::move(copy));
  return {};
}

namespace {

class Const : public Kernel {
 public:
  explicit Const(Tensor value) : value_(std::move(value)) {}
  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    const Tensor& value = init.attr<Tensor>("value");
    const DType dtype = init.attr<DType>("dtype");
    if (value.dtype() != dtype) {
      return invalid_argument("value is ", dtype_name(value.dtype()), ", dtype says ", dtype_name(dtype));
    }
    return std::unique_ptr<Kernel>(std::make_unique<Const>(value));
  }
  Status compute(KernelContext& ctx) override {
    ctx.set_output(0, value_);
    return {};
  }

 private:
  const Tensor value_;
};

class Placeholder : public Kernel {
 public:
  explicit Placeholder(const KernelInit& init)
      : message_(str_cat("You must feed a value for placeholder tensor '", printable(init.node), "' with dtype ",
                         dtype_name(init.attr<DType>("dtype")))) {
    const PartialShape& shape = init.attr<PartialShape>("shape");
    if (shape.rank() > 0) message_ += str_cat(" and shape ", shape);
  }
  Status compute(KernelContext&) override { return invalid_argument(message_); }

 private:
  std::string message_;
};

struct NonFinite {
  bool nan = false;
  bool positive_inf = false;
  bool negative_inf = false;
};

template <typename T>
NonFinite scan(const Tensor& tensor) {
  NonFinite found;
  for (const T& element : tensor.flat<T>()) {
    if constexpr (std::is_integral_v<T>) {
      return found;
    } else {
      using A = typename ArithmeticOf<T>::type;
      const A value = static_cast<A>(element);
      found.nan |= std::isnan(value);
      found.positive_inf |= std::isinf(value) && value > 0;
      found.negative_inf |= std::isinf(value) && value < 0;
    }
  }
  return found;
}

// What was found, in words; nothing when all is finite.
std::string unsigned_text(const NonFinite& found) {
  const bool inf = found.positive_inf || found.negative_inf;
  return found.nan && inf ? "Inf and NaN" : found.nan ? "NaN" : inf ? "Inf" : "";
}

// The same with the signs of infinities.
std::string signed_text(const NonFinite& found) {
  std::vector<std::string_view> kinds;
  if (found.negative_inf) kinds.push_back("-Inf");
  if (found.positive_inf) kinds.push_back("+Inf");
  if (found.nan) kinds.push_back("NaN");
  if (kinds.size() == 3) return "-Inf, +Inf, and NaN";
  return str_join(kinds, " and ");
}

template <std::string (*kText)(const NonFinite&)>
class CheckNumerics : public Kernel {
 public:
  explicit CheckNumerics(const KernelInit& init) : message_(init.attr<std::string>("message")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& tensor = ctx.input(0);
    const NonFinite found = with_real(
        tensor.dtype(), [&]<typename T>(T) { return scan<T>(tensor); }, [] { return NonFinite(); });
    const std::string what = kText(found);
    if (!what.empty()) return invalid_argument(message_, " : Tensor had ", what, " values");
    ctx.set_output(0, tensor);
    return {};
  }

 private:
  const std::string message_;
};

class Assert : public Kernel {
 public:
  explicit Assert(const KernelInit& init) : summarize_(init.attr<std::int64_t>("summarize")) {}
  Status compute(KernelContext& ctx) override {
    const Tensor& condition = ctx.input(0);
    if (condition.rank() != 0) return invalid_argument("condition must be a scalar, not of shape ", condition.shape());
    if (condition.scalar<bool>()) return {};
    std::string message = "assertion failed: ";
    for (int i = 1; i < ctx.num_inputs(); ++i) {
      if (i > 1) message += ' ';
      message += str_cat("[", summary_of(ctx.input(i), summarize_), "]");
    }
    return invalid_argument(message);
  }

 private:
  const std::int64_t summarize_;
};

// A cut edge, as the attributes of both its ends name it. Keys are long and made for every value that crosses: what is
// constant of them is made once.
class Edge {
 public:
  explicit Edge(const KernelInit& init)
      : prefix_(RendezvousKey{
            .send_device = init.attr<std::string>("send_device"),
            .send_incarnation = static_cast<std::uint64_t>(init.attr<std::int64_t>("send_device_incarnation")),
            .recv_device = init.attr<std::string>("recv_device"),
            .name = init.attr<std::string>("tensor_name")}
                    .prefix()),
        outside_loops_(prefix_ + loop_position(0, 0)) {}
  // `room` is for a key that has to be made.
  const std::string& key(const KernelContext& ctx, std::string& room) const {
    const LoopPosition loop = ctx.loop();
    if (loop.frame == 0 && loop.iteration == 0) return outside_loops_;
    return room = prefix_ + loop_position(loop.frame, loop.iteration);
  }

 private:
  const std::string prefix_;
  const std::string outside_loops_;
};

Status no_rendezvous() { return failed_precondition("this step has no rendezvous to send to or receive from"); }

class Send : public Kernel {
 public:
  explicit Send(const KernelInit& init) : edge_(init) {}
  Status compute(KernelContext& ctx) override {
    Rendezvous* rendezvous = ctx.step().rendezvous;
    if (rendezvous == nullptr) return no_rendezvous();
    const Tensor& value = ctx.input(0);
    std::string room;
    // Whoever waits for the value goes on inside of it.
    const MemoryScope unchecked(nullptr);
    return rendezvous->send(edge_.key(ctx, room), value, !value.has_value());
  }

 private:
  const Edge edge_;
};

class Recv : public AsyncKernel {
 public:
  explicit Recv(const KernelInit& init) : edge_(init), dtype_(init.attr<DType>("tensor_type")) {}

  void compute_async(KernelContext& ctx, Done done) override {
    Rendezvous* rendezvous = ctx.step().rendezvous;
    if (rendezvous == nullptr) return done(no_rendezvous());
    std::string room;
    rendezvous->recv(edge_.key(ctx, room), ctx.cancellation(),
                     [this, &ctx, done = std::move(done)](Status status, Tensor value, bool dead) {
                       if (status.ok() && !dead) status = receive(ctx, std::move(value));
                       done(std::move(status));
                     });
  }

 private:
  // A dead value leaves the output empty.
  Status receive(KernelContext& ctx, Tensor value) const {
    if (value.dtype() != dtype_) {
      std::string room;
      return internal_error("received ", dtype_name(value.dtype()), " for ", printable(edge_.key(ctx, room)),
                            ", which is ", dtype_name(dtype_));
    }
    ctx.set_output(0, std::move(value));
    return {};
  }

  const Edge edge_;
  const DType dtype_;
};

}  // namespace

KernelFactory const_kernel() { return kernel_of<Const>(); }
KernelFactory placeholder_kernel() { return kernel_of<Placeholder>(); }
KernelFactory check_numerics_kernel() { return kernel_of<CheckNumerics<unsigned_text>>(); }
KernelFactory check_numerics_v2_kernel() { return kernel_of<CheckNumerics<signed_text>>(); }
KernelFactory assert_kernel() { return kernel_of<Assert>(); }
KernelFactory send_kernel() { return kernel_of<Send>(); }
KernelFactory recv_kernel() { return kernel_of<Recv>(); }

}  // namespace tutti::cpu
