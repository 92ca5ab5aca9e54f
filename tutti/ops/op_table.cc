#include "tutti/ops/op_table.h"

#include <utility>

#include "tutti/kernels/cpu/fused_elementwise.h"
#include "tutti/ops/collective_ops.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/image_ops.h"
#include "tutti/ops/internal/families.h"
#include "tutti/ops/internal/sparse_families.h"

namespace tutti {
namespace {

DTypeSet both(DTypeSet a, DTypeSet b) {
  DTypeSet result;
  result.bits = a.bits & b.bits;
  return result;
}

void restrict_types(OpDef& op, DTypeSet types) {
  for (AttrDef& attr : op.attrs) {
    if (attr.name == "T") attr.allowed_types = both(attr.allowed_types, types);
  }
}

bool takes(const KernelEntry& entry, const AttrMap& attrs) {
  auto it = attrs.find(entry.type_attr);
  if (it == attrs.end()) return true;
  const DType* dtype = it->second.get<DType>();
  return dtype == nullptr || entry.types.contains(*dtype);
}

}  // namespace

void OpTable::add(OpRow row) {
  Result<OpDef> parsed = parse_op_def(row.name, row.signature, row.attrs);
  TUTTI_CHECK(parsed.ok(), parsed.status());
  OpDef op = *std::move(parsed);
  restrict_types(op, row.types);
  op.shape = std::move(row.shape);
  op.grad = std::move(row.grad);
  op.no_gradient = row.no_gradient;
  op.traits = row.traits | (cpu::is_fusable(row.name) ? kFusable : kNoTraits);
  Status added = registry_->add(std::move(op));
  TUTTI_CHECK(added.ok(), added);
  kernels_[row.name] = std::move(row.kernels);
}

const KernelEntry* OpTable::find_kernel(std::string_view op, const AttrMap& attrs, std::string_view device_type) const {
  for (const KernelEntry& entry : kernels(op)) {
    if (entry.device_type == device_type && takes(entry, attrs)) return &entry;
  }
  return nullptr;
}

const std::vector<KernelEntry>& OpTable::kernels(std::string_view op) const {
  static const std::vector<KernelEntry> none;
  auto it = kernels_.find(op);
  return it == kernels_.end() ? none : it->second;
}

void register_all_ops(OpTable& table) {
  register_array_ops(table);
  internal::add_segment_ops(table);
  internal::add_sparse_ops(table);
  internal::add_ragged_ops(table);
  internal::add_random_law_ops(table);
  register_math_ops(table);
  register_reduction_ops(table);
  register_matmul_ops(table);
  register_nn_ops(table);
  register_conv_ops(table);
  register_pool_ops(table);
  register_normalisation_ops(table);
  register_fused_ops(table);
  register_variable_ops(table);
  register_training_ops(table);
  register_random_ops(table);
  register_control_flow_ops(table);
  register_function_ops(table);
  register_list_ops(table);
  register_recurrent_ops(table);
  register_list_part_ops(table);
  register_optional_ops(table);
  register_queue_ops(table);
  register_staging_ops(table);
  register_client_function_ops(table);
  register_checkpoint_ops(table);
  register_file_ops(table);
  register_accumulator_ops(table);
  register_table_ops(table);
  register_table_file_ops(table);
  register_boundary_ops(table);
  register_string_ops(table);
  register_summary_ops(table);
  register_image_ops(table);
  register_image_file_ops(table);
  register_parse_example_ops(table);
  register_audio_ops(table);
  register_parse_ops(table);
  register_parse_sequence_ops(table);
  register_reader_ops(table);
  register_collective_ops(table);
}

std::shared_ptr<const OpTable> builtin_ops() {
  static const std::shared_ptr<const OpTable> table = [] {
    auto all = std::make_shared<OpTable>();
    register_all_ops(*all);
    return all;
  }();
  return table;
}

}  // namespace tutti
