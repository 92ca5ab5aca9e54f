// Strings into tensors: lines of values, bytes, serialised tensors.
#include "tutti/graph/shape_inference.h"
#include "tutti/graph/tensor_bytes.h"
#include "tutti/kernels/cpu/csv.h"
#include "tutti/ops/host/host_ops.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

Status parse_tensor(KernelContext& ctx) {
  const Tensor& serialized = ctx.input(0);
  if (serialized.rank() != 0) {
    return invalid_argument("Expected `serialized` to be a scalar, got shape: ", serialized.shape());
  }
  TUTTI_ASSIGN_OR_RETURN(Tensor tensor, tensor_from_bytes(serialized.scalar<std::string>()));
  if (tensor.dtype() != ctx.output_type(0)) {
    return invalid_argument("Type mismatch between parsed tensor (", dtype_name(tensor.dtype()), ") and dtype (",
                            dtype_name(ctx.output_type(0)), ")");
  }
  ctx.set_output(0, std::move(tensor));
  return {};
}

Status serialize_tensor(KernelContext& ctx) {
  TUTTI_ASSIGN_OR_RETURN(Tensor * out, ctx.allocate_output(0, Shape{}));
  TUTTI_ASSIGN_OR_RETURN(out->data<std::string>()[0], tensor_to_bytes(ctx.input(0), StringElements::kField));
  return {};
}

Status csv_shape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    if (c.input(i).rank() > 1) {
      return invalid_argument("Shape of a default must be a length-0 or length-1 vector, or a scalar, got ",
                              c.input(i));
    }
  }
  for (int i = 0; i < c.num_outputs(); ++i) c.set_output(i, c.input(0));
  return {};
}

Status padded_raw_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 0).status());
  if (!c.input(0).has_rank()) return {};
  PartialShape out = c.input(0);
  out.append(kUnknownDim);
  c.set_output(0, std::move(out));
  return {};
}

OpRow row_of(std::string name, std::string signature, std::string attrs, ShapeFn shape, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .no_gradient = true,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

}  // namespace

void register_parse_ops(OpTable& ops) {
  ops.add(row_of("DecodeCSV", "records: string, record_defaults: OUT_TYPE -> output: OUT_TYPE",
                 "OUT_TYPE: list({float, double, int32, int64, string}) >= 1; field_delim: string = ','; "
                 "use_quote_delim: bool = true; na_value: string = ''; select_cols: list(int) = []",
                 csv_shape, cpu::decode_csv_kernel()));
  ops.add(row_of("DecodePaddedRaw", "input_bytes: string, fixed_length: int32 -> output: out_type",
                 "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, bfloat16}; "
                 "little_endian: bool = true",
                 padded_raw_shape, cpu::decode_padded_raw_kernel()));
  ops.add(row_of("ParseTensor", "serialized: string -> output: out_type", "out_type: type", shape::none,
                 kernel_from(parse_tensor)));
  ops.add(row_of("SerializeTensor", "tensor: T -> serialized: string", "T: type", shape::scalar,
                 kernel_from(serialize_tensor)));
}

}  // namespace tutti
