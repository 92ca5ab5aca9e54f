// Whole files.
#include <algorithm>
#include <new>
#include <vector>

#include "tutti/graph/shape_inference.h"
#include "tutti/io/glob.h"
#include "tutti/io/paths.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/host/internal/file_kernel.h"
#include "tutti/ops/op_table.h"

namespace tutti {

namespace {

Status check_scalar(KernelContext& ctx, int i, std::string_view name) {
  if (ctx.input(i).rank() == 0) return {};
  return invalid_argument("Input ", name, " tensor must be scalar, but had shape: ", ctx.input(i).shape());
}

Status read_file_op(KernelContext& ctx, FileSystem& files) {
  TUTTI_RETURN_IF_ERROR(check_scalar(ctx, 0, "filename"));
  const std::string& path = ctx.input(0).scalar<std::string>();
  TUTTI_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, files.open_for_read(path));
  TUTTI_ASSIGN_OR_RETURN(const FileInfo info, files.info(path));
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, {}));
  std::string& contents = out->data<std::string>()[0];
  // As much as the file says it is, like TensorFlow: a device may go on for ever.
  try {
    contents.resize(info.bytes);
  } catch (const std::exception&) {
    return resource_exhausted("\"", printable(path), "\": no memory for ", info.bytes, " bytes");
  }
  TUTTI_ASSIGN_OR_RETURN(const std::size_t count, file->read(0, contents));
  contents.resize(count);
  return {};
}

Status write_file_op(KernelContext& ctx, FileSystem& files) {
  TUTTI_RETURN_IF_ERROR(check_scalar(ctx, 0, "filename"));
  TUTTI_RETURN_IF_ERROR(check_scalar(ctx, 1, "contents"));
  const std::string& path = ctx.input(0).scalar<std::string>();
  TUTTI_RETURN_IF_ERROR(make_directory_of(files, path));
  return write_file(files, path, ctx.input(1).scalar<std::string>());
}

Status matching_files(KernelContext& ctx, FileSystem& files) {
  if (ctx.input(0).rank() > 1) {
    return invalid_argument("Input patterns tensor must be scalar or vector, but had shape: ", ctx.input(0).shape());
  }
  std::vector<std::string> found;
  for (const std::string& pattern : strings(ctx, 0)) {
    TUTTI_ASSIGN_OR_RETURN(std::vector<std::string> paths, glob(files, pattern));
    std::move(paths.begin(), paths.end(), std::back_inserter(found));
  }
  std::sort(found.begin(), found.end());
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{std::ssize(found)}));
  std::move(found.begin(), found.end(), out->data<std::string>());
  return {};
}

Status read_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  return shape::scalar(c);
}

Status write_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 0).status());
  return c.with_rank(1, 0).status();
}

Status matching_shape(ShapeContext& c) {
  if (c.input(0).rank() > 1) return invalid_argument("patterns of shape ", c.input(0), ", not a scalar or vector");
  c.set_output(0, {kUnknownDim});
  return {};
}

// All stateful, also those that only read: what they give is not in the graph, so it must not be folded into it.
OpRow file_row(std::string name, std::string signature, ShapeFn shape, FileWork work) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .shape = std::move(shape),
          .no_gradient = true,
          .traits = kStateful,
          .kernels = {TUTTI_CPU(file_kernel(std::move(work)))}};
}

}  // namespace

void register_file_ops(OpTable& ops) {
  ops.add(file_row("ReadFile", "filename: string -> contents: string", read_shape, read_file_op));
  ops.add(file_row("WriteFile", "filename: string, contents: string ->", write_shape, write_file_op));
  ops.add(file_row("MatchingFiles", "pattern: string -> filenames: string", matching_shape, matching_files));
}

}  // namespace tutti
