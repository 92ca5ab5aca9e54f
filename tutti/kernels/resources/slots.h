// From nodes and handles to the resources behind them.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/kernels/kernel.h"

namespace tutti {

// Who shares the resource of a node without a shared_name.
enum class Unnamed {
  kPrivate,  // nobody: it belongs to this kernel, and so to one session
  kByNode,   // nodes of that name, in all sessions of the task
};

// The slot of a node that makes a resource: attribute container (or the default one), attribute shared_name. A private
// resource is destroyed with the last holder of its slot: the kernel, or a step that still has the handle.
// kFailedPrecondition where a task has no store; kInvalidArgument for a shared_name that may be a private one.
Result<std::shared_ptr<ResourceSlot>> own_slot(const KernelInit& init, Unnamed unnamed = Unnamed::kPrivate);

// The slot behind resource input i. A handle from elsewhere is bound by its names to this task's store. Behind a
// reference input (a handle of the oldest form): the slot that it refers to.
Result<std::shared_ptr<ResourceSlot>> input_slot(KernelContext& ctx, int i);

// Empties the slot. Who waits in what it held gets kAborted. False when it was empty.
bool destroy_resource(ResourceSlot& slot);

// Gives the slot of a node that makes a resource to output 0, in the form that the op has: a reference or a handle.
class HandleOutput {
 public:
  HandleOutput(const KernelInit& init, const std::shared_ptr<ResourceSlot>& slot);
  void give(KernelContext& ctx) const;

 private:
  const std::shared_ptr<ResourceSlot> reference_;  // null: the op gives a handle
  const Tensor handle_;
};

// The types of a node that acts on a resource, to be compared with what that resource takes.
class NodeSignature {
 public:
  explicit NodeSignature(const KernelInit& init);
  // `inputs`: those behind the handle. kInvalidArgument "Signature mismatch, have: ... expected: ...".
  Status check(const std::vector<DType>& inputs, const std::vector<DType>& outputs) const;

 private:
  std::string handle_;
  std::vector<DType> inputs_;
  std::vector<DType> outputs_;
};

// The resource in `slot` as a T: kNotFound when the slot is empty, kInvalidArgument when it holds something
// else. `kind` is what a T is called: "queue".
template <typename T>
Result<std::shared_ptr<T>> resource_in(const ResourceSlot& slot, std::string_view kind) {
  std::shared_ptr<Resource> resource = slot.get();
  if (!resource) {
    return not_found("Resource ", printable(slot.container()), "/", printable(slot.name()), " (", kind,
                     ") does not exist");
  }
  auto typed = std::dynamic_pointer_cast<T>(resource);
  if (!typed) {
    return invalid_argument("Resource ", printable(slot.container()), "/", printable(slot.name()), " is not a ", kind,
                            ": ", resource->debug_string());
  }
  return typed;
}

}  // namespace tutti
