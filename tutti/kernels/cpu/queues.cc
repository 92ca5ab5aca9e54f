#include "tutti/kernels/cpu/queues.h"

#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/resources/queue.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::cpu {

namespace {

class FifoQueue : public Kernel {
 public:
  FifoQueue(std::shared_ptr<ResourceSlot> slot, QueueOptions options, std::string_view device)
      : slot_(std::move(slot)),
        options_(std::move(options)),
        handle_(Tensor::scalar(ResourceHandle(std::string(device), slot_))) {}

  static Result<std::unique_ptr<Kernel>> create(const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init));
    QueueOptions options{.name = slot->name(),
                         .component_types = init.attr<std::vector<DType>>("component_types"),
                         .shapes = init.attr<std::vector<PartialShape>>("shapes"),
                         .capacity = init.attr<std::int64_t>("capacity")};
    TUTTI_RETURN_IF_ERROR(Queue::create(options).status());  // so that bad attributes show here
    return std::unique_ptr<Kernel>(std::make_unique<FifoQueue>(std::move(slot), std::move(options), init.device));
  }

  Status compute(KernelContext& ctx) override {
    auto resource = slot_->get_or_create([&]() -> std::shared_ptr<Resource> {
      auto queue = Queue::create(options_);
      return queue.ok() ? *queue : nullptr;
    });
    const auto queue = std::dynamic_pointer_cast<Queue>(resource);
    if (!queue) return invalid_argument("Resource ", printable(slot_->name()), " is not a queue");
    TUTTI_RETURN_IF_ERROR(check_same(queue->options()));
    ctx.set_output(0, handle_);
    return {};
  }

 private:
  Status check_same(const QueueOptions& there) const {
    const std::string shared = str_cat("Shared queue '", printable(slot_->name()), "' has ");
    if (there.component_types != options_.component_types) {
      return invalid_argument(shared, "component types that do not match the requested ones");
    }
    if (there.shapes != options_.shapes) {
      return invalid_argument(shared, "component shapes that do not match the requested ones");
    }
    if (there.capacity != options_.capacity) {
      return invalid_argument(shared, "capacity ", there.capacity, " but requested capacity was ", options_.capacity);
    }
    return {};
  }

  const std::shared_ptr<ResourceSlot> slot_;
  const QueueOptions options_;
  const Tensor handle_;
};

Result<std::shared_ptr<Queue>> input_queue(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<Queue>(*slot, "queue");
}

// A kernel that acts on the queue behind input 0.
class QueueKernel : public AsyncKernel {
 public:
  void compute_async(KernelContext& ctx, Done done) override {
    Result<std::shared_ptr<Queue>> queue = input_queue(ctx);
    if (!queue.ok()) return done(queue.status());
    act(**queue, ctx, std::move(done));
  }

 protected:
  virtual void act(Queue& queue, KernelContext& ctx, Done done) = 0;
};

// Timeouts are in the signature, but nobody implements them.
Status check_timeout(const KernelInit& init) {
  const std::int64_t timeout_ms = init.attr<std::int64_t>("timeout_ms");
  if (timeout_ms == -1) return {};
  return invalid_argument("Timeout not supported yet: timeout_ms is ", timeout_ms);
}

template <typename K, typename... Args>
Result<std::unique_ptr<Kernel>> make_without_timeout(const KernelInit& init, Args... args) {
  TUTTI_RETURN_IF_ERROR(check_timeout(init));
  return std::unique_ptr<Kernel>(std::make_unique<K>(args...));
}

Queue::Tuple tuple_of(KernelContext& ctx) {
  Queue::Tuple tuple;
  for (int i = 1; i < ctx.num_inputs(); ++i) tuple.push_back(ctx.input(i));
  return tuple;
}

class Enqueue : public QueueKernel {
 public:
  explicit Enqueue(bool many) : many_(many) {}

 protected:
  void act(Queue& queue, KernelContext& ctx, Done done) override {
    if (many_) {
      queue.try_enqueue_many(tuple_of(ctx), ctx.cancellation(), std::move(done));
    } else {
      queue.try_enqueue(tuple_of(ctx), ctx.cancellation(), std::move(done));
    }
  }

 private:
  const bool many_;
};

Status set_components(KernelContext& ctx, Queue::Tuple tuple) {
  if (static_cast<int>(tuple.size()) != ctx.num_outputs()) {
    return invalid_argument("the queue has ", tuple.size(), " components, the op expects ", ctx.num_outputs());
  }
  for (int i = 0; i < ctx.num_outputs(); ++i) {
    if (tuple[i].dtype() != ctx.output_type(i)) {
      return invalid_argument("component ", i, " of the queue is ", dtype_name(tuple[i].dtype()), ", the op expects ",
                              dtype_name(ctx.output_type(i)));
    }
    ctx.set_output(i, std::move(tuple[i]));
  }
  return {};
}

Queue::DequeueDone give_components(KernelContext& ctx, AsyncKernel::Done done) {
  return [&ctx, done = std::move(done)](Status status, Queue::Tuple tuple) {
    if (status.ok()) status = set_components(ctx, std::move(tuple));
    done(std::move(status));
  };
}

class Dequeue : public QueueKernel {
 protected:
  void act(Queue& queue, KernelContext& ctx, Done done) override {
    queue.try_dequeue(ctx.cancellation(), give_components(ctx, std::move(done)));
  }
};

class DequeueMany : public QueueKernel {
 public:
  explicit DequeueMany(bool allow_fewer) : allow_fewer_(allow_fewer) {}

 protected:
  void act(Queue& queue, KernelContext& ctx, Done done) override {
    const Result<std::int64_t> count = read_integer(ctx.input(1), "n");
    if (!count.ok()) return done(count.status());
    queue.try_dequeue_many(*count, allow_fewer_, ctx.cancellation(), give_components(ctx, std::move(done)));
  }

 private:
  const bool allow_fewer_;
};

class CloseQueue : public QueueKernel {
 public:
  explicit CloseQueue(const KernelInit& init) : cancel_pending_(init.attr<bool>("cancel_pending_enqueues")) {}

 protected:
  void act(Queue& queue, KernelContext&, Done done) override { queue.close(cancel_pending_, std::move(done)); }

 private:
  const bool cancel_pending_;
};

}  // namespace

KernelFactory fifo_queue_kernel() { return kernel_of<FifoQueue>(); }
KernelFactory queue_enqueue_kernel() {
  return [](const KernelInit& init) { return make_without_timeout<Enqueue>(init, /*many=*/false); };
}
KernelFactory queue_enqueue_many_kernel() {
  return [](const KernelInit& init) { return make_without_timeout<Enqueue>(init, /*many=*/true); };
}
KernelFactory queue_dequeue_kernel() {
  return [](const KernelInit& init) { return make_without_timeout<Dequeue>(init); };
}
KernelFactory queue_dequeue_many_kernel() {
  return [](const KernelInit& init) { return make_without_timeout<DequeueMany>(init, /*allow_fewer=*/false); };
}
KernelFactory queue_dequeue_up_to_kernel() {
  return [](const KernelInit& init) { return make_without_timeout<DequeueMany>(init, /*allow_fewer=*/true); };
}
KernelFactory queue_close_kernel() { return kernel_of<CloseQueue>(); }

Status queue_size(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto queue, input_queue(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<std::int32_t>() =
      static_cast<std::int32_t>(std::min<std::int64_t>(queue->size(), std::numeric_limits<std::int32_t>::max()));
  return {};
}

Status queue_is_closed(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto queue, input_queue(ctx));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  *out->data<bool>() = queue->closed();
  return {};
}

}  // namespace tutti::cpu
