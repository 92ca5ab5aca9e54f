// Collective ops as TensorFlow's strategies write them. Groups of one work; larger ones are refused with a hint, and so
// are the forms that meet through a communicator.
#include "tutti/ops/collective_ops.h"

#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/lone_collectives.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

using cpu::GroupSizeFrom;

// As many rows as all members give together.
Status gathered_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape data, c.with_rank_at_least(0, 1));
  if (data.has_rank()) data.set_dim(0, kUnknownDim);
  c.set_output(0, std::move(data));
  return {};
}

Status received_shape(ShapeContext& c) {
  c.set_output(0, c.input_as_shape(3));
  return {};
}

OpRow collective(std::string name, std::string signature, std::string attrs, ShapeFn shape, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

constexpr const char* kReduced = "T: {bfloat16, float, half, double, int32, int64}; ";
constexpr const char* kGathered = "T: {float, half, double, int32, int64}; ";
constexpr const char* kSent = "T: {bool, float, half, double, int32, int64}; ";
constexpr const char* kMerging = "merge_op: {'Min', 'Max', 'Mul', 'Add'}; final_op: {'Id', 'Div'}; ";
constexpr const char* kHints = "communication_hint: string = 'auto'; timeout_seconds: float = 0.0";

void register_keyed_by_attrs(OpTable& ops) {
  const std::string keys = "group_size: int; group_key: int; instance_key: int; ";
  const auto add = [&](const char* name, const char* inputs, const std::string& attrs, ShapeFn shape) {
    const bool receives = *inputs == '\0';
    ops.add(collective(
        name, str_cat(inputs, " -> data: T"), attrs, std::move(shape),
        receives ? cpu::lone_receive_kernel(GroupSizeFrom::kAttr) : cpu::lone_collective_kernel(GroupSizeFrom::kAttr)));
  };
  add("CollectiveReduce", "input: T",
      kReduced + keys + kMerging + "subdiv_offsets: list(int); wait_for: list(int) = []; " + kHints, shape::unchanged);
  add("CollectiveGather", "input: T", kGathered + keys + "shape: shape; " + kHints, shape::from_attr);
  add("CollectiveBcastSend", "input: T", kSent + keys + "shape: shape; " + kHints, shape::from_attr);
  add("CollectiveBcastRecv", "", kSent + keys + "shape: shape; " + kHints, shape::from_attr);
}

void register_keyed_by_inputs(OpTable& ops) {
  const std::string keys = "group_size: int32, group_key: int32, instance_key: int32";
  const std::string ordered = "input: T, " + keys + ", ordering_token: Nordering_token * resource -> data: T";
  const std::string tokens = "; is_stateless: bool = false; Nordering_token: int >= 0 = 0";
  const std::string parts = "; max_subdivs_per_device: int = -1";
  const auto add = [&](const char* name, const std::string& signature, const std::string& attrs, ShapeFn shape) {
    ops.add(collective(name, signature, attrs, std::move(shape), cpu::lone_collective_kernel(GroupSizeFrom::kInput1)));
  };
  add("CollectiveReduceV2", ordered, std::string(kReduced) + kMerging + kHints + tokens + parts, shape::unchanged);
  add("CollectiveReduceScatterV2", ordered, std::string(kReduced) + kMerging + kHints + tokens + parts, gathered_shape);
  add("CollectiveGatherV2", ordered, std::string(kGathered) + kHints + tokens, gathered_shape);
  add("CollectiveAllToAllV2", ordered, std::string(kReduced) + kHints + tokens, shape::unchanged);
  add("CollectiveBcastSendV2", "input: T, " + keys + " -> data: T", std::string(kSent) + kHints, shape::unchanged);
  ops.add(collective("CollectiveBcastRecvV2", keys + ", shape: Tshape -> data: T",
                     std::string(kSent) + "Tshape: {int32, int64} = int32; " + kHints, received_shape,
                     cpu::lone_receive_kernel(GroupSizeFrom::kInput0)));
}

Result<std::unique_ptr<Kernel>> refuse_communicator(const KernelInit& init) {
  return unimplemented(
      init.op, " \"", printable(init.node),
      "\": Tutti has no communicators, and no collectives between tasks or devices: place variables on parameter "
      "servers (replica_device_setter) and let the replicas meet in SyncReplicasOptimizer instead");
}

Status assigned_shape(ShapeContext& c) {
  c.set_output(0, PartialShape::scalar());
  c.set_output(1, PartialShape::scalar());
  return {};
}

// A graph may hold them; running one is refused.
void register_communicators(OpTable& ops) {
  const std::string met = "input: T, communicator: resource, group_assignment: int32 -> data: T";
  const std::string reduction = "reduction: {'Min', 'Max', 'Mul', 'Add'}; ", timeout = "timeout_seconds: float = 0.0";
  const auto add = [&](const char* name, const std::string& signature, const std::string& attrs, ShapeFn shape) {
    ops.add(collective(name, signature, attrs, std::move(shape), refuse_communicator));
  };
  add("CollectiveInitializeCommunicator", "group_key: int32, rank: int32, group_size: int32 -> communicator: resource",
      kHints, shape::scalar);
  add("CollectiveReduceV3", met, kReduced + reduction + timeout, shape::unchanged);
  add("CollectiveAllToAllV3", met, kReduced + timeout, shape::unchanged);
  add("CollectiveAssignGroupV2",
      "group_assignment: int32, device_index: int32, base_key: int32 -> group_size: int32, group_key: int32", "",
      assigned_shape);
  OpRow permute = collective("CollectivePermute", "input: T, source_target_pairs: int32 -> output: T", "T: type",
                             shape::unchanged, refuse_communicator);
  permute.types = kNumbers | internal::kQuantised;
  ops.add(std::move(permute));
}

void register_nccl(OpTable& ops) {
  const std::string reduction = "reduction: {'min', 'max', 'prod', 'sum'}; ";
  ops.add(collective("NcclAllReduce", "input: T -> data: T",
                     reduction + kGathered + "num_devices: int; shared_name: string", shape::unchanged,
                     cpu::lone_collective_kernel(GroupSizeFrom::kNumDevices)));
  ops.add(collective("NcclReduce", "input: num_devices * T -> data: T", reduction + kGathered + "num_devices: int >= 1",
                     shape::all_same, cpu::lone_collective_kernel(GroupSizeFrom::kNumDevices)));
  ops.add(collective("NcclBroadcast", "input: T -> output: T", std::string(kGathered) + "shape: shape",
                     shape::from_attr, cpu::lone_collective_kernel(GroupSizeFrom::kNowhere)));
}

}  // namespace

void register_collective_ops(OpTable& ops) {
  register_keyed_by_attrs(ops);
  register_keyed_by_inputs(ops);
  register_communicators(ops);
  register_nccl(ops);
}

}  // namespace tutti
