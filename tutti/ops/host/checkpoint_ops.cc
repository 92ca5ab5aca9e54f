// Savers: checkpoints in tensor bundles (V2) and in single files (the old kind).
#include "tutti/graph/shape_inference.h"
#include "tutti/io/tensor_slice.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/host/internal/checkpoint_kernels.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

OpRow saver_row(std::string name, std::string signature, std::string attrs, ShapeFn shape, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .no_gradient = true,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

Status all_scalars(ShapeContext& c) {
  for (int i = 0; i < c.num_inputs(); ++i) TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
  return {};
}

Status scalars_to_scalar(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(all_scalars(c));
  return shape::scalar(c);
}

// Input 0 is a scalar; inputs 1 to `vectors` are vectors of one length, which is `count` where both are known.
Status check_names(ShapeContext& c, int vectors, int count) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  PartialShape names{kUnknownDim};
  for (int i = 1; i <= vectors; ++i) {
    TUTTI_ASSIGN_OR_RETURN(const PartialShape one, c.with_rank(i, 1));
    TUTTI_ASSIGN_OR_RETURN(names, names.merge(one));
  }
  if (names.dim(0) != kUnknownDim && names.dim(0) != count) {
    return invalid_argument("Got ", names.dim(0), " tensor names but ", count, " tensors.");
  }
  return {};
}

Status save_shape(ShapeContext& c) { return check_names(c, 1, c.num_inputs() - 2); }
Status save_slices_shape(ShapeContext& c) { return check_names(c, 2, c.num_inputs() - 3); }

// What the specification says, when it is known and says anything.
Status set_restored(ShapeContext& c, int output, const std::string& spec) {
  if (spec.empty()) return {};
  TUTTI_ASSIGN_OR_RETURN(const ShapeAndSlice parsed, parse_shape_and_slice(spec));
  c.set_output(output, parsed.slice_shape);
  return {};
}

Status restore_v2_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(check_names(c, 2, c.num_outputs()));
  const std::optional<Tensor> specs = c.constant(2);
  if (!specs) return {};
  if (specs->num_elements() != c.num_outputs()) {
    return invalid_argument("The number of shape_and_slice doesn't match tensor outputs.");
  }
  for (int i = 0; i < c.num_outputs(); ++i) {
    TUTTI_RETURN_IF_ERROR(set_restored(c, i, specs->flat<std::string>()[static_cast<std::size_t>(i)]));
  }
  return {};
}

Status restore_slice_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(all_scalars(c));
  const std::optional<Tensor> spec = c.constant(2);
  return spec ? set_restored(c, 0, spec->scalar<std::string>()) : Status();
}

Status merge_checkpoints_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  return c.with_rank(1, 0).status();
}

// What a Saver puts before its reads of resource variables, so that they are not copied. Ours never are.
Status disable_copy_on_read(KernelContext&) { return {}; }

OpRow name_row(std::string name, std::string signature, KernelFn kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .shape = scalars_to_scalar,
          .no_gradient = true,
          .kernels = {TUTTI_CPU(kernel_from(kernel))}};
}

}  // namespace

void register_checkpoint_ops(OpTable& ops) {
  ops.add(saver_row("SaveV2", "prefix: string, tensor_names: string, shape_and_slices: string, tensors: dtypes ->",
                    "dtypes: list(type) >= 1", save_slices_shape, save_v2_kernel()));
  ops.add(saver_row("RestoreV2", "prefix: string, tensor_names: string, shape_and_slices: string -> tensors: dtypes",
                    "dtypes: list(type) >= 1", restore_v2_shape, restore_v2_kernel()));
  ops.add(saver_row("MergeV2Checkpoints", "checkpoint_prefixes: string, destination_prefix: string ->",
                    "delete_old_dirs: bool = true; allow_missing_files: bool = false", merge_checkpoints_shape,
                    merge_v2_checkpoints_kernel()));
  ops.add(name_row("ShardedFilename", "basename: string, shard: int32, num_shards: int32 -> filename: string",
                   sharded_filename));
  ops.add(name_row("ShardedFilespec", "basename: string, num_shards: int32 -> filename: string", sharded_filespec));

  ops.add(saver_row("DisableCopyOnRead", "resource: resource ->", "", shape::none, kernel_from(disable_copy_on_read)));

  ops.add(saver_row("Save", "filename: string, tensor_names: string, data: T ->", "T: list(type) >= 1", save_shape,
                    save_kernel()));
  ops.add(saver_row("SaveSlices", "filename: string, tensor_names: string, shapes_and_slices: string, data: T ->",
                    "T: list(type) >= 1", save_slices_shape, save_slices_kernel()));
  const std::string restore_attrs = "dt: type; preferred_shard: int = -1";
  ops.add(saver_row("Restore", "file_pattern: string, tensor_name: string -> tensor: dt", restore_attrs, all_scalars,
                    restore_kernel()));
  ops.add(saver_row("RestoreSlice", "file_pattern: string, tensor_name: string, shape_and_slice: string -> tensor: dt",
                    restore_attrs, restore_slice_shape, restore_slice_kernel()));
}

}  // namespace tutti
