// The op table: the only place where an op's name meets its functions. One row an op:
//
//   ops.add({.name = "Softsign", .signature = "features: T -> activations: T", .attrs = "T: type",
//            .types = kFloats, .shape = shape::unchanged, .grad = softsign_grad, .traits = kElementwise,
//            .kernels = {TUTTI_CPU(kernel_from(softsign))}});
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/graph/op_def.h"
#include "tutti/kernels/kernel.h"

namespace tutti {

inline constexpr std::string_view kCpu = "CPU";
inline constexpr std::string_view kGpu = "GPU";

struct KernelEntry {
  std::string device_type;
  KernelFactory make;
  // Only for nodes whose attribute `type_attr` is in `types`. Ignored by ops without that attribute.
  DTypeSet types = DTypeSet::all();
  std::string type_attr = "T";
};

#define TUTTI_CPU(...) \
  ::tutti::KernelEntry { std::string(::tutti::kCpu), __VA_ARGS__ }

struct OpRow {
  std::string name;
  std::string signature;             // see graph/op_def.h
  std::string attrs = "";            // likewise
  DTypeSet types = DTypeSet::all();  // what attribute "T" may be
  ShapeFn shape = nullptr;
  GradFn grad = nullptr;
  bool no_gradient = false;
  unsigned traits = kNoTraits;
  std::vector<KernelEntry> kernels = {};  // best first
};

// Filled once, then constant and shared between graphs and sessions.
class OpTable {
 public:
  OpTable() : registry_(std::make_shared<OpRegistry>()) {}

  // Aborts on bad notation or a taken name: rows are program text.
  void add(OpRow row);

  std::shared_ptr<const OpRegistry> registry() const { return registry_; }
  // The best kernel for a node of this op with these attributes on that type of device; null when there is none.
  const KernelEntry* find_kernel(std::string_view op, const AttrMap& attrs, std::string_view device_type) const;
  const std::vector<KernelEntry>& kernels(std::string_view op) const;

 private:
  std::shared_ptr<OpRegistry> registry_;
  std::map<std::string, std::vector<KernelEntry>, std::less<>> kernels_;
};

// Calls register_*_ops of every family.
void register_all_ops(OpTable& table);
// All of Tutti's own ops. To add your own: make an OpTable, register_all_ops, add your rows.
std::shared_ptr<const OpTable> builtin_ops();

// The families, one source file each.
void register_array_ops(OpTable& ops);      // shapes, slices, gathers, concatenation
void register_math_ops(OpTable& ops);       // element-wise arithmetic and comparison
void register_reduction_ops(OpTable& ops);  // Sum, Mean, ArgMax, ...
void register_matmul_ops(OpTable& ops);
void register_fused_ops(OpTable& ops);  // what the fusing pass makes
void register_nn_ops(OpTable& ops);     // activations, bias, softmax, cross-entropy
void register_conv_ops(OpTable& ops);
void register_pool_ops(OpTable& ops);
void register_normalisation_ops(OpTable& ops);  // batch normalisation, LRN
void register_variable_ops(OpTable& ops);       // reference and resource variables
void register_training_ops(OpTable& ops);       // Apply*, ResourceApply*
void register_random_ops(OpTable& ops);
void register_control_flow_ops(OpTable& ops);  // Switch ... NextIteration
void register_function_ops(OpTable& ops);      // If, While, Case, PartitionedCall, _Arg, _Retval
void register_list_ops(OpTable& ops);          // TensorList*, Stack*
void register_optional_ops(OpTable& ops);      // what gradients of branches pass around
void register_queue_ops(OpTable& ops);
void register_staging_ops(OpTable& ops);
void register_client_function_ops(OpTable& ops);
void register_accumulator_ops(OpTable& ops);  // gradients of many workers, taken as one
void register_table_ops(OpTable& ops);        // lookup tables
void register_table_file_ops(OpTable& ops);   // lookup tables filled from files
void register_string_ops(OpTable& ops);
void register_summary_ops(OpTable& ops);
void register_boundary_ops(OpTable& ops);  // _Send, _Recv, Placeholder, Const, NoOp, Identity

}  // namespace tutti
