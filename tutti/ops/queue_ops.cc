// Queues between steps.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/queues.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

OpRow queue_row(std::string name, std::string signature, std::string attrs, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = shape::none,
          .no_gradient = true,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

// Handles come in two forms: a reference to a string vector, and (names that end in V2) a resource.
struct Form {
  const char* suffix;
  const char* handle;
  ShapeFn shape;
};

void add_makers(OpTable& ops, const Form& form) {
  const std::string common =
      "shapes: list(shape) >= 0 = []; capacity: int = -1; container: string = ''; shared_name: string = ''";
  const std::string types = "component_types: list(type) >= 1; ";
  const auto add = [&](const char* name, QueueKind kind, const std::string& attrs) {
    ops.add({.name = str_cat(name, form.suffix),
             .signature = str_cat("-> handle: ", form.handle),
             .attrs = attrs,
             .shape = form.shape,
             .no_gradient = true,
             .traits = kStateful,
             .kernels = {TUTTI_CPU(cpu::queue_kernel(kind))}});
  };
  add("FIFOQueue", QueueKind::kFifo, types + common);
  add("PaddingFIFOQueue", QueueKind::kPadding, types + common);
  add("RandomShuffleQueue", QueueKind::kShuffle,
      types + common + "; min_after_dequeue: int = 0; seed: int = 0; seed2: int = 0");
  add("PriorityQueue", QueueKind::kPriority,
      "component_types: list(type) >= 0 = []; shapes: list(shape) >= 0; capacity: int = -1; container: string = ''; "
      "shared_name: string = ''");
}

void add_users(OpTable& ops, const Form& form) {
  const std::string handle = str_cat("handle: ", form.handle);
  const auto add = [&](const char* name, const std::string& inputs, const std::string& outputs,
                       const std::string& attrs, KernelFactory kernel, ShapeFn shape = shape::none) {
    OpRow row =
        queue_row(str_cat(name, form.suffix), str_cat(handle, inputs, " -> ", outputs), attrs, std::move(kernel));
    row.shape = std::move(shape);
    ops.add(std::move(row));
  };
  const std::string timeout = "; timeout_ms: int = -1";
  const std::string enqueue_attrs = "Tcomponents: list(type) >= 1" + timeout;
  add("QueueEnqueue", ", components: Tcomponents", "", enqueue_attrs, cpu::queue_enqueue_kernel());
  add("QueueEnqueueMany", ", components: Tcomponents", "", enqueue_attrs, cpu::queue_enqueue_many_kernel());

  const std::string dequeue_attrs = "component_types: list(type) >= 1" + timeout;
  const std::string components = "components: component_types";
  add("QueueDequeue", "", components, dequeue_attrs, cpu::queue_dequeue_kernel());
  add("QueueDequeueMany", ", n: int32", components, dequeue_attrs, cpu::queue_dequeue_many_kernel());
  add("QueueDequeueUpTo", ", n: int32", components, dequeue_attrs, cpu::queue_dequeue_up_to_kernel());

  add("QueueClose", "", "", "cancel_pending_enqueues: bool = false", cpu::queue_close_kernel());
  add("QueueSize", "", "size: int32", "", kernel_from(cpu::queue_size), shape::scalar);
  add("QueueIsClosed", "", "is_closed: bool", "", kernel_from(cpu::queue_is_closed), shape::scalar);
}

}  // namespace

void register_queue_ops(OpTable& ops) {
  for (const Form& form : {Form{"", "Ref(string)", internal::two_names}, Form{"V2", "resource", shape::scalar}}) {
    add_makers(ops, form);
    add_users(ops, form);
  }
}

}  // namespace tutti
