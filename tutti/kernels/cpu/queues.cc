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

template <typename T>
T attr_or(const KernelInit& init, std::string_view name, T otherwise) {
  auto it = init.attrs.find(name);
  const T* value = it == init.attrs.end() ? nullptr : it->second.get<T>();
  return value != nullptr ? *value : otherwise;
}

QueueOptions options_of(QueueKind kind, const KernelInit& init, const std::string& name) {
  QueueOptions options{.kind = kind,
                       .name = name,
                       .component_types = init.attr<std::vector<DType>>("component_types"),
                       .shapes = init.attr<std::vector<PartialShape>>("shapes"),
                       .capacity = init.attr<std::int64_t>("capacity"),
                       .min_after_dequeue = attr_or<std::int64_t>(init, "min_after_dequeue", 0),
                       .seed = attr_or<std::int64_t>(init, "seed", 0),
                       .seed2 = attr_or<std::int64_t>(init, "seed2", 0)};
  if (kind == QueueKind::kPriority) {
    // The attributes leave the priority out.
    const bool shapes_are_free = options.shapes.empty() && !options.component_types.empty();
    options.component_types.insert(options.component_types.begin(), DType::kInt64);
    if (!shapes_are_free) options.shapes.insert(options.shapes.begin(), PartialShape::scalar());
  }
  return options;
}

class MakeQueue : public Kernel {
 public:
  MakeQueue(std::shared_ptr<ResourceSlot> slot, QueueOptions options, const KernelInit& init)
      : op_(init.op), slot_(std::move(slot)), options_(std::move(options)), output_(init, slot_) {}

  static Result<std::unique_ptr<Kernel>> create(QueueKind kind, const KernelInit& init) {
    TUTTI_ASSIGN_OR_RETURN(auto slot, own_slot(init));
    QueueOptions options = options_of(kind, init, slot->name());
    TUTTI_RETURN_IF_ERROR(Queue::create(options).status());  // so that bad attributes show here
    return std::unique_ptr<Kernel>(std::make_unique<MakeQueue>(std::move(slot), std::move(options), init));
  }

  Status compute(KernelContext& ctx) override {
    auto resource = slot_->get_or_create([&]() -> std::shared_ptr<Resource> {
      auto queue = Queue::create(options_);
      return queue.ok() ? *queue : nullptr;
    });
    const auto queue = std::dynamic_pointer_cast<Queue>(resource);
    if (!queue) return invalid_argument("Resource ", printable(slot_->name()), " is not a queue");
    TUTTI_RETURN_IF_ERROR(check_same(queue->options()));
    output_.give(ctx);
    return {};
  }

 private:
  static std::string type_list(const std::vector<DType>& types) {
    std::vector<std::string_view> names;
    for (const DType type : types) names.push_back(dtype_name(type));
    return str_join(names, ", ");
  }

  Status check_same(const QueueOptions& there) const {
    const QueueOptions& here = options_;
    if (there.kind != here.kind) return invalid_argument("Expected ", queue_kind_name(there.kind), ", found ", op_);
    const std::string shared = str_cat("Shared queue '", printable(slot_->name()), "' has ");
    if (there.component_types != here.component_types) {
      return invalid_argument(shared, "component types ", type_list(there.component_types),
                              " but requested component types were ", type_list(here.component_types));
    }
    if (there.shapes != here.shapes) {
      return invalid_argument(shared, "component shapes [", str_join(there.shapes, ", "),
                              "] but requested component shapes were [", str_join(here.shapes, ", "), "]");
    }
    if (there.capacity != here.capacity) {
      return invalid_argument(shared, "capacity ", there.capacity, " but requested capacity was ", here.capacity);
    }
    if (there.min_after_dequeue != here.min_after_dequeue) {
      return invalid_argument(shared, "min_after_dequeue ", there.min_after_dequeue,
                              " but requested min_after_dequeue was ", here.min_after_dequeue, ".");
    }
    const bool any_seed = here.seed == 0 && here.seed2 == 0;
    if (!any_seed && (there.seed != here.seed || there.seed2 != here.seed2)) {
      return invalid_argument(shared, "random seeds (", there.seed, ", ", there.seed2, ") but requested seeds are (",
                              here.seed, ", ", here.seed2, ").");
    }
    return {};
  }

  const std::string op_;
  const std::shared_ptr<ResourceSlot> slot_;
  const QueueOptions options_;
  const HandleOutput output_;
};

Result<std::shared_ptr<Queue>> input_queue(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(const auto slot, input_slot(ctx, 0));
  return resource_in<Queue>(*slot, "queue");
}

// A kernel that acts on the queue behind input 0.
class QueueKernel : public AsyncKernel {
 public:
  explicit QueueKernel(const KernelInit& init) : signature_(init) {}
  void compute_async(KernelContext& ctx, Done done) override {
    Result<std::shared_ptr<Queue>> queue = input_queue(ctx);
    if (!queue.ok()) return done(queue.status());
    if (Status fits = check_types((*queue)->options().component_types); !fits.ok()) return done(std::move(fits));
    act(**queue, ctx, std::move(done));
  }

 protected:
  virtual Status check_types(const std::vector<DType>&) const { return {}; }
  virtual void act(Queue& queue, KernelContext& ctx, Done done) = 0;

  const NodeSignature signature_;
};

// Timeouts are in the signature, but nobody implements them.
Status check_timeout(const KernelInit& init) {
  const std::int64_t timeout_ms = init.attr<std::int64_t>("timeout_ms");
  if (timeout_ms == -1) return {};
  return invalid_argument("Timeout not supported yet. (timeout_ms is ", timeout_ms, ")");
}

template <typename K, typename... Args>
Result<std::unique_ptr<Kernel>> make_without_timeout(const KernelInit& init, Args... args) {
  TUTTI_RETURN_IF_ERROR(check_timeout(init));
  return std::unique_ptr<Kernel>(std::make_unique<K>(init, args...));
}

Queue::Tuple tuple_of(KernelContext& ctx) {
  Queue::Tuple tuple;
  for (int i = 1; i < ctx.num_inputs(); ++i) tuple.push_back(ctx.input(i));
  return tuple;
}

class Enqueue : public QueueKernel {
 public:
  Enqueue(const KernelInit& init, bool many) : QueueKernel(init), many_(many) {}

 protected:
  Status check_types(const std::vector<DType>& types) const override { return signature_.check(types, {}); }
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

Queue::DequeueDone give_components(KernelContext& ctx, AsyncKernel::Done done) {
  return [&ctx, done = std::move(done)](Status status, Queue::Tuple tuple) {
    for (std::size_t i = 0; status.ok() && i < tuple.size(); ++i) {
      ctx.set_output(static_cast<int>(i), std::move(tuple[i]));
    }
    done(std::move(status));
  };
}

class Dequeue : public QueueKernel {
 public:
  using QueueKernel::QueueKernel;

 protected:
  Status check_types(const std::vector<DType>& types) const override { return signature_.check({}, types); }
  void act(Queue& queue, KernelContext& ctx, Done done) override {
    queue.try_dequeue(ctx.cancellation(), give_components(ctx, std::move(done)));
  }
};

class DequeueMany : public QueueKernel {
 public:
  DequeueMany(const KernelInit& init, bool allow_fewer) : QueueKernel(init), allow_fewer_(allow_fewer) {}

 protected:
  Status check_types(const std::vector<DType>& types) const override {
    return signature_.check({DType::kInt32}, types);
  }
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
  explicit CloseQueue(const KernelInit& init)
      : QueueKernel(init), cancel_pending_(init.attr<bool>("cancel_pending_enqueues")) {}

 protected:
  void act(Queue& queue, KernelContext& ctx, Done done) override {
    queue.close(cancel_pending_, ctx.cancellation(), std::move(done));
  }

 private:
  const bool cancel_pending_;
};

}  // namespace

KernelFactory queue_kernel(QueueKind kind) {
  return [kind](const KernelInit& init) { return MakeQueue::create(kind, init); };
}
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
