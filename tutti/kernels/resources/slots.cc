#include "tutti/kernels/resources/slots.h"

#include "tutti/kernels/resources/waiting_room.h"

namespace tutti {

Result<std::shared_ptr<ResourceSlot>> own_slot(const KernelInit& init, Unnamed unnamed) {
  ResourceStore* const store = init.services.resources;
  if (store == nullptr) return failed_precondition("this task keeps no resources");
  const std::string& attr = init.attr<std::string>("container");
  const std::string_view container = attr.empty() ? ResourceStore::kDefaultContainer : std::string_view(attr);
  const std::string& shared_name = init.attr<std::string>("shared_name");
  if (unnamed == Unnamed::kByNode) return store->slot(container, shared_name.empty() ? init.node : shared_name);
  if (shared_name.starts_with('_')) {
    return invalid_argument("shared_name cannot start with '_': ", printable(shared_name));
  }
  if (!shared_name.empty()) return store->slot(container, shared_name);
  std::shared_ptr<ResourceSlot> slot = store->slot(container, store->private_name(init.node));
  ResourceSlot* const pointer = slot.get();
  return std::shared_ptr<ResourceSlot>(pointer, [slot = std::move(slot)](ResourceSlot*) { slot->clear(); });
}

Result<std::shared_ptr<ResourceSlot>> input_slot(KernelContext& ctx, int i) {
  const Tensor& tensor = ctx.input(i);
  // A reference that is read as a plain input has a value, too.
  if (!tensor.has_value() && ctx.input_ref(i)) return ctx.input_ref(i);
  if (tensor.dtype() != DType::kResource || tensor.num_elements() != 1) {
    return invalid_argument("input ", i, " is not a resource handle but ", dtype_name(tensor.dtype()), " ",
                            tensor.shape());
  }
  const ResourceHandle& handle = tensor.scalar<ResourceHandle>();
  if (handle.slot()) return handle.slot();
  if (ctx.services().resources == nullptr) return failed_precondition("this task keeps no resources");
  const std::string_view task = ctx.services().task;
  if (!task.empty() && !handle.device().empty() && !handle.device().starts_with(str_cat(task, "/"))) {
    return invalid_argument("resource \"", printable(handle.name()), "\" is on ", handle.device(), ", which task ",
                            task, " cannot reach");
  }
  return ctx.services().resources->slot(
      handle.container().empty() ? ResourceStore::kDefaultContainer : std::string_view(handle.container()),
      handle.name());
}

bool destroy_resource(ResourceSlot& slot) {
  const std::shared_ptr<Resource> resource = slot.clear();
  if (auto* room = dynamic_cast<WaitingRoom*>(resource.get())) room->abandon();
  return resource != nullptr;
}

HandleOutput::HandleOutput(const KernelInit& init, const std::shared_ptr<ResourceSlot>& slot)
    : reference_(init.output_types[0].is_ref ? slot : nullptr),
      handle_(reference_ ? Tensor() : Tensor::scalar(ResourceHandle(std::string(init.device), slot))) {}

void HandleOutput::give(KernelContext& ctx) const {
  if (reference_) {
    ctx.set_output_ref(0, reference_);
  } else {
    ctx.set_output(0, handle_);
  }
}

NodeSignature::NodeSignature(const KernelInit& init) : handle_(init.input_types[0].to_string()) {
  for (const EdgeType& type : init.input_types.subspan(1)) inputs_.push_back(type.dtype);
  for (const EdgeType& type : init.output_types) outputs_.push_back(type.dtype);
}

Status NodeSignature::check(const std::vector<DType>& inputs, const std::vector<DType>& outputs) const {
  if (inputs == inputs_ && outputs == outputs_) return {};
  const auto written = [this](const std::vector<DType>& in, const std::vector<DType>& out) {
    std::vector<std::string_view> before{handle_}, after;
    for (const DType type : in) before.push_back(dtype_name(type));
    for (const DType type : out) after.push_back(dtype_name(type));
    return str_cat(str_join(before, ", "), "->", str_join(after, ", "));
  };
  return invalid_argument("Signature mismatch, have: ", written(inputs_, outputs_),
                          " expected: ", written(inputs, outputs));
}

}  // namespace tutti
