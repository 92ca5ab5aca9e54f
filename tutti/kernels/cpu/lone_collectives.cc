#include "tutti/kernels/cpu/lone_collectives.h"

#include <string>

#include "tutti/kernels/cpu/element.h"

namespace tutti::cpu {
namespace {

class LoneCollective : public Kernel {
 public:
  LoneCollective(const KernelInit& init, GroupSizeFrom from, bool receives)
      : op_(init.op), node_(init.node), from_(from), receives_(receives) {
    if (from == GroupSizeFrom::kAttr) size_ = init.attr<std::int64_t>("group_size");
    if (from == GroupSizeFrom::kNumDevices) size_ = init.attr<std::int64_t>("num_devices");
    if (init.attrs.find("shape") != init.attrs.end()) promised_ = init.attr<PartialShape>("shape");
  }

  Status compute(KernelContext& ctx) override {
    std::int64_t size = size_;
    if (from_ == GroupSizeFrom::kInput0 || from_ == GroupSizeFrom::kInput1) {
      TUTTI_ASSIGN_OR_RETURN(size,
                             read_scalar_integer(ctx.input(from_ == GroupSizeFrom::kInput0 ? 0 : 1), "group_size"));
    }
    if (size < 1) return invalid_argument(op_, " \"", node_, "\": group_size must be positive, got ", size);
    if (size > 1) {
      return unimplemented(
          op_, " \"", node_, "\": a group of ", size,
          " members. Tutti has no collectives between tasks or devices: place variables on parameter "
          "servers (replica_device_setter) and let the replicas meet in SyncReplicasOptimizer instead");
    }
    if (receives_) return internal_error(op_, " \"", node_, "\": nobody sends in a group of one");
    // Others have counted on the attribute already.
    if (!promised_.compatible_with(ctx.input(0).shape())) {
      return invalid_argument(op_, " \"", node_, "\": the input has shape ", ctx.input(0).shape(), ", not ", promised_);
    }
    ctx.set_output(0, ctx.input(0));
    return {};
  }

 private:
  const std::string op_;
  const std::string node_;
  const GroupSizeFrom from_;
  const bool receives_;
  std::int64_t size_ = 1;
  PartialShape promised_ = PartialShape::unknown();
};

KernelFactory lone_factory(GroupSizeFrom from, bool receives) {
  return [from, receives](const KernelInit& init) -> Result<std::unique_ptr<Kernel>> {
    return std::unique_ptr<Kernel>(std::make_unique<LoneCollective>(init, from, receives));
  };
}

}  // namespace

KernelFactory lone_collective_kernel(GroupSizeFrom from) { return lone_factory(from, false); }
KernelFactory lone_receive_kernel(GroupSizeFrom from) { return lone_factory(from, true); }

}  // namespace tutti::cpu
