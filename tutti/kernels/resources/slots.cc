#include "tutti/kernels/resources/slots.h"

namespace tutti {

Result<std::shared_ptr<ResourceSlot>> own_slot(const KernelInit& init) {
  if (init.services.resources == nullptr) return failed_precondition("this task keeps no resources");
  const std::string& container = init.attr<std::string>("container");
  const std::string& shared_name = init.attr<std::string>("shared_name");
  return init.services.resources->slot(
      container.empty() ? ResourceStore::kDefaultContainer : std::string_view(container),
      shared_name.empty() ? init.node : std::string_view(shared_name));
}

Result<std::shared_ptr<ResourceSlot>> input_slot(KernelContext& ctx, int i) {
  const Tensor& tensor = ctx.input(i);
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

}  // namespace tutti
