// Lookup tables. Handles are references to a string vector or (names that end in V2) resources.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/tables.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

void add_table_op(OpTable& ops, std::string name, std::string signature, std::string attrs, KernelEntry kernel,
                  ShapeFn shape = shape::none) {
  ops.add({.name = std::move(name),
           .signature = std::move(signature),
           .attrs = std::move(attrs),
           .shape = std::move(shape),
           .no_gradient = true,
           .traits = kStateful,
           .kernels = {std::move(kernel)}});
}

KernelEntry maker(KernelFactory make) {
  return TUTTI_CPU(std::move(make), DTypeSet{DType::kInt32, DType::kInt64, DType::kString}, "key_dtype");
}

constexpr const char* kMakerAttrs =
    "container: string = ''; shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype: type; "
    "value_dtype: type";
constexpr const char* kValueShape = "; value_shape: shape = []";

// Tables with references for handles have scalars for keys.
Status export_shape(ShapeContext& c) {
  c.set_output(0, {kUnknownDim});
  return {};
}

void add_form(OpTable& ops, const std::string& suffix, const std::string& type, const ShapeFn& handle_shape) {
  const std::string makes = "-> table_handle: " + type;
  add_table_op(ops, "HashTable" + suffix, makes, kMakerAttrs, maker(cpu::hash_table_kernel()), handle_shape);
  add_table_op(ops, "MutableHashTable" + suffix, makes, kMakerAttrs, maker(cpu::mutable_hash_table_kernel()),
               handle_shape);
  add_table_op(ops, "MutableHashTableOfTensors" + suffix, makes, str_cat(kMakerAttrs, kValueShape),
               maker(cpu::mutable_hash_table_of_tensors_kernel()), handle_shape);

  const std::string handle = "table_handle: " + type;
  const std::string types = "Tin: type; Tout: type";
  add_table_op(ops, "LookupTableFind" + suffix, handle + ", keys: Tin, default_value: Tout -> values: Tout", types,
               TUTTI_CPU(cpu::table_find_kernel()));
  add_table_op(ops, "LookupTableInsert" + suffix, handle + ", keys: Tin, values: Tout -> ", types,
               TUTTI_CPU(cpu::table_insert_kernel()));
  add_table_op(ops, "LookupTableImport" + suffix, handle + ", keys: Tin, values: Tout -> ", types,
               TUTTI_CPU(cpu::table_import_kernel()));
  add_table_op(ops, "LookupTableExport" + suffix, handle + " -> keys: Tkeys, values: Tvalues",
               "Tkeys: type; Tvalues: type", TUTTI_CPU(cpu::table_export_kernel()),
               suffix.empty() ? ShapeFn(export_shape) : ShapeFn(shape::none));
  add_table_op(ops, "LookupTableSize" + suffix, handle + " -> size: int64", "", TUTTI_CPU(kernel_from(cpu::table_size)),
               shape::scalar);
  add_table_op(ops, "InitializeTable" + suffix, handle + ", keys: Tkey, values: Tval -> ", "Tkey: type; Tval: type",
               TUTTI_CPU(cpu::table_initialize_kernel()));
}

}  // namespace

void register_table_ops(OpTable& ops) {
  add_form(ops, "", "Ref(string)", internal::two_names);
  add_form(ops, "V2", "resource", shape::scalar);
  add_table_op(ops, "LookupTableRemoveV2", "table_handle: resource, keys: Tin -> ", "Tin: type",
               TUTTI_CPU(cpu::table_remove_kernel()));
  // The reference form of this one lacks the deleted key, and TensorFlow has no kernel that runs it.
  add_table_op(ops, "MutableDenseHashTableV2", "empty_key: key_dtype, deleted_key: key_dtype -> table_handle: resource",
               str_cat(kMakerAttrs, kValueShape, "; initial_num_buckets: int = 131072; max_load_factor: float = 0.8"),
               maker(cpu::mutable_dense_hash_table_kernel()), shape::scalar);
}

}  // namespace tutti
