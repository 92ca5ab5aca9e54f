#include "tutti/ops/host/internal/checkpoint_kernels.h"

#include <cstdio>
#include <set>
#include <vector>

#include "tutti/io/bundle_reader.h"
#include "tutti/io/bundle_writer.h"
#include "tutti/io/merge_bundles.h"
#include "tutti/io/paths.h"
#include "tutti/io/slice_file.h"
#include "tutti/io/tensor_slice.h"
#include "tutti/ops/host/internal/file_kernel.h"
#include "tutti/ops/host/variant_messages.h"

namespace tutti {

namespace {

Status check_cancelled(KernelContext& ctx) {
  return ctx.cancellation().cancelled() ? ctx.cancellation().status() : Status();
}

// Of SaveV2 and RestoreV2: a prefix, names, and a specification for each.
Status check_names(KernelContext& ctx) {
  const Shape& names = ctx.input(1).shape();
  const Shape& specs = ctx.input(2).shape();
  if (names.rank() != 1 || specs.rank() != 1) {
    return invalid_argument("Input tensor_names and shape_and_slices should be an 1-D tensors, got ", names, " and ",
                            specs, " instead.");
  }
  if (names.num_elements() != specs.num_elements()) {
    return invalid_argument("tensor_names and shape_and_slices have different number of elements: ",
                            names.num_elements(), " vs. ", specs.num_elements());
  }
  return {};
}

Status check_saved_count(std::int64_t names, int tensors) {
  if (names == tensors) return {};
  return invalid_argument("Got ", names, " tensor names but ", tensors, " tensors.");
}

// A part that is to be saved must be as large as the specification says.
Result<ShapeAndSlice> parse_saved(const std::string& spec, const Tensor& tensor) {
  TUTTI_ASSIGN_OR_RETURN(ShapeAndSlice parsed, parse_shape_and_slice(spec));
  if (parsed.slice_shape != tensor.shape()) {
    return invalid_argument("Slice in shape_and_slice specification does not match the shape of the tensor to  save: ",
                            printable(spec), ", tensor: ", tensor.shape());
  }
  return parsed;
}

Status save_v2(KernelContext& ctx, FileSystem& files) {
  constexpr int kFirstTensor = 3;
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix, single_string(ctx, 0, "prefix"));
  TUTTI_RETURN_IF_ERROR(check_names(ctx));
  const std::span<const std::string> names = strings(ctx, 1), specs = strings(ctx, 2);
  TUTTI_RETURN_IF_ERROR(check_saved_count(std::ssize(names), ctx.num_inputs() - kFirstTensor));
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<BundleWriter> writer,
                         BundleWriter::create(files, prefix, {.variants = &kVariantMessages}));
  for (std::size_t i = 0; i < names.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_cancelled(ctx));
    const Tensor& tensor = ctx.input(kFirstTensor + static_cast<int>(i));
    if (specs[i].empty()) {
      TUTTI_RETURN_IF_ERROR(writer->add(names[i], tensor));
    } else {
      TUTTI_ASSIGN_OR_RETURN(const ShapeAndSlice part, parse_saved(specs[i], tensor));
      TUTTI_RETURN_IF_ERROR(writer->add_slice(names[i], part.full_shape, part.slice, tensor));
    }
  }
  return writer->finish();
}

// --- Restoring: the same from both formats ---

Status check_restored_type(std::string_view name, DType wanted, DType stored) {
  if (wanted == stored) return {};
  return invalid_argument("tensor_name = ", printable(name), "; expected dtype ", dtype_name(wanted),
                          " does not equal original dtype ", dtype_name(stored));
}

Result<TensorSlice> parse_restored(std::string_view name, std::string_view spec, const Shape& stored) {
  TUTTI_ASSIGN_OR_RETURN(ShapeAndSlice parsed, parse_shape_and_slice(spec));
  if (parsed.full_shape != stored) {
    return invalid_argument("tensor_name = ", printable(name), "; shape in shape_and_slice spec ", parsed.full_shape,
                            " does not match the shape stored in checkpoint: ", stored);
  }
  return std::move(parsed.slice);
}

// From a BundleReader or a SliceFileReader.
template <typename Reader>
Result<Tensor> restore_one(const Reader& reader, const std::string& name, const std::string& spec, DType dtype,
                           Allocator& allocator) {
  TUTTI_ASSIGN_OR_RETURN(const auto entry, reader.find(name));
  TUTTI_RETURN_IF_ERROR(check_restored_type(name, dtype, entry.dtype));
  if (spec.empty()) return reader.read(name, allocator);
  TUTTI_ASSIGN_OR_RETURN(const TensorSlice slice, parse_restored(name, spec, entry.shape));
  return reader.read_slice(name, slice, allocator);
}

template <typename Reader>
Status restore_all(KernelContext& ctx, const Reader& reader) {
  const std::span<const std::string> names = strings(ctx, 1), specs = strings(ctx, 2);
  for (std::size_t i = 0; i < names.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_cancelled(ctx));
    const int output = static_cast<int>(i);
    TUTTI_ASSIGN_OR_RETURN(Tensor tensor,
                           restore_one(reader, names[i], specs[i], ctx.output_type(output), ctx.allocator()));
    ctx.set_output(output, std::move(tensor));
  }
  return {};
}

Status restore_v2(KernelContext& ctx, FileSystem& files) {
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix, single_string(ctx, 0, "prefix"));
  TUTTI_RETURN_IF_ERROR(check_names(ctx));
  if (ctx.input(1).num_elements() != ctx.num_outputs()) {
    return invalid_argument("Got ", ctx.input(1).num_elements(), " tensor names, but ", ctx.num_outputs(),
                            " expected dtypes.");
  }
  Result<std::unique_ptr<BundleReader>> bundle = BundleReader::open(files, prefix, &kVariantMessages);
  if (bundle.ok()) return restore_all(ctx, **bundle);
  if (bundle.status().code() != Code::kNotFound) return bundle.status();
  // No index: a checkpoint of the old kind, or none.
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<SliceFileReader> old, SliceFileReader::open(files, prefix));
  return restore_all(ctx, *old);
}

// --- Merging ---

Status merge(KernelContext& ctx, FileSystem& files, bool delete_old_directories, bool allow_missing) {
  TUTTI_ASSIGN_OR_RETURN(const std::string destination, single_string(ctx, 1, "destination_prefix"));
  const std::span<const std::string> sources = strings(ctx, 0);
  TUTTI_RETURN_IF_ERROR(merge_bundles(files, sources, destination, {.allow_missing = allow_missing}));
  if (!delete_old_directories) return {};
  std::set<std::string> directories;
  for (const std::string& source : sources) directories.insert(directory_of(source));
  directories.erase(directory_of(destination));
  // One that is not empty stays, and that is no error.
  for (const std::string& directory : directories) (void)files.remove(directory);
  return {};
}

// --- The old format ---

Status save_slice_file(KernelContext& ctx, FileSystem& files, bool with_slices) {
  const int first_tensor = with_slices ? 3 : 2;
  TUTTI_ASSIGN_OR_RETURN(const std::string path, single_string(ctx, 0, "filename"));
  const std::span<const std::string> names = strings(ctx, 1);
  TUTTI_RETURN_IF_ERROR(check_saved_count(std::ssize(names), ctx.num_inputs() - first_tensor));
  if (with_slices) TUTTI_RETURN_IF_ERROR(check_names(ctx));
  SliceFileWriter writer(files, path);
  for (std::size_t i = 0; i < names.size(); ++i) {
    TUTTI_RETURN_IF_ERROR(check_cancelled(ctx));
    const Tensor& tensor = ctx.input(first_tensor + static_cast<int>(i));
    ShapeAndSlice part{tensor.shape(), TensorSlice::whole(tensor.rank()), tensor.shape()};
    if (with_slices && !strings(ctx, 2)[i].empty()) {
      TUTTI_ASSIGN_OR_RETURN(part, parse_saved(strings(ctx, 2)[i], tensor));
    }
    TUTTI_RETURN_IF_ERROR(writer.add(names[i], part.full_shape, part.slice, tensor));
  }
  return writer.finish();
}

Status restore_slice_file(KernelContext& ctx, FileSystem& files, bool with_slice) {
  TUTTI_ASSIGN_OR_RETURN(const std::string pattern, single_string(ctx, 0, "file_pattern"));
  TUTTI_ASSIGN_OR_RETURN(const std::string name, single_string(ctx, 1, "tensor_name"));
  std::string spec;
  if (with_slice) {
    TUTTI_ASSIGN_OR_RETURN(spec, single_string(ctx, 2, "shape_and_slice"));
  }
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<SliceFileReader> reader, SliceFileReader::open(files, pattern));
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, restore_one(*reader, name, spec, ctx.output_type(0), ctx.allocator()));
  ctx.set_output(0, std::move(tensor));
  return {};
}

}  // namespace

KernelFactory save_v2_kernel() { return file_kernel(save_v2); }
KernelFactory restore_v2_kernel() { return file_kernel(restore_v2); }

KernelFactory merge_v2_checkpoints_kernel() {
  return [](const KernelInit& init) {
    const bool delete_old = init.attr<bool>("delete_old_dirs");
    const bool allow_missing = init.attr<bool>("allow_missing_files");
    return file_kernel([delete_old, allow_missing](KernelContext& ctx, FileSystem& files) {
      return merge(ctx, files, delete_old, allow_missing);
    })(init);
  };
}

KernelFactory save_kernel() {
  return file_kernel([](KernelContext& ctx, FileSystem& files) { return save_slice_file(ctx, files, false); });
}
KernelFactory save_slices_kernel() {
  return file_kernel([](KernelContext& ctx, FileSystem& files) { return save_slice_file(ctx, files, true); });
}
KernelFactory restore_kernel() {
  return file_kernel([](KernelContext& ctx, FileSystem& files) { return restore_slice_file(ctx, files, false); });
}
KernelFactory restore_slice_kernel() {
  return file_kernel([](KernelContext& ctx, FileSystem& files) { return restore_slice_file(ctx, files, true); });
}

Status sharded_filename(KernelContext& ctx) {
  for (int i = 0; i < 3; ++i) {
    if (ctx.input(i).rank() != 0) return invalid_argument("ShardedFilename: input ", i, " is ", ctx.input(i).shape());
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, {}));
  out->data<std::string>()[0] = sharded_name(ctx.input(0).scalar<std::string>(), ctx.input(1).scalar<std::int32_t>(),
                                             ctx.input(2).scalar<std::int32_t>());
  return {};
}

Status sharded_filespec(KernelContext& ctx) {
  for (int i = 0; i < 2; ++i) {
    if (ctx.input(i).rank() != 0) return invalid_argument("ShardedFilespec: input ", i, " is ", ctx.input(i).shape());
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, {}));
  char count[32];
  std::snprintf(count, sizeof count, "%05d", ctx.input(1).scalar<std::int32_t>());
  // Escaped, because two of them and a dash are a trigraph.
  out->data<std::string>()[0] = str_cat(ctx.input(0).scalar<std::string>(), "-\?\?\?\?\?-of-", count);
  return {};
}

}  // namespace tutti
