// Strings: joining, cutting, searching, hashing, and strings from and to numbers.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/strings.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

// Scalars go with any shape; the others agree.
Status join_shape(ShapeContext& c) {
  PartialShape shape = PartialShape::scalar();
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& in = c.input(i);
    if (!in.has_rank()) return {};
    if (in.rank() == 0) continue;
    if (shape.rank() == 0) {
      shape = in;
    } else {
      TUTTI_ASSIGN_OR_RETURN(shape, shape.merge(in));
    }
  }
  c.set_output(0, shape);
  return {};
}

Status split_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.with_rank(0, 1).status());
  TUTTI_RETURN_IF_ERROR(c.with_rank(1, 0).status());
  c.set_output(0, PartialShape{kUnknownDim, 2});
  c.set_output(1, PartialShape{kUnknownDim});
  c.set_output(2, PartialShape{2});
  return {};
}

// Inputs after the first are scalars.
Status pattern_shape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) TUTTI_RETURN_IF_ERROR(c.with_rank(i, 0).status());
  return shape::unchanged(c);
}

Status substr_shape(ShapeContext& c) {
  TUTTI_RETURN_IF_ERROR(c.input(1).merge(c.input(2)).status());
  return shape::broadcast(c);
}

Status decode_raw_shape(ShapeContext& c) {
  if (!c.input(0).has_rank()) return {};
  PartialShape out = c.input(0);
  out.append(kUnknownDim);
  c.set_output(0, out);
  return {};
}

OpRow string_row(std::string name, std::string signature, std::string attrs, ShapeFn shape, KernelFactory kernel) {
  return {.name = std::move(name),
          .signature = std::move(signature),
          .attrs = std::move(attrs),
          .shape = std::move(shape),
          .no_gradient = true,
          .kernels = {TUTTI_CPU(std::move(kernel))}};
}

void add_basics(OpTable& ops) {
  const std::string unit = "unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'";
  ops.add(string_row("StringJoin", "inputs: N * string -> output: string", "N: int >= 0; separator: string = ''",
                     join_shape, cpu::string_join_kernel()));
  ops.add(string_row("ReduceJoin", "inputs: string, reduction_indices: int32 -> output: string",
                     "keep_dims: bool = false; separator: string = ''", shape::reduction, cpu::reduce_join_kernel()));
  ops.add(string_row("StringLower", "input: string -> output: string", "encoding: string = ''", shape::unchanged,
                     cpu::string_case_kernel(false)));
  ops.add(string_row("StringUpper", "input: string -> output: string", "encoding: string = ''", shape::unchanged,
                     cpu::string_case_kernel(true)));
  ops.add(string_row("StringStrip", "input: string -> output: string", "", shape::unchanged,
                     kernel_from(cpu::string_strip)));
  ops.add(string_row("StringLength", "input: string -> output: int32", unit, shape::unchanged,
                     cpu::string_length_kernel()));
  ops.add(string_row("Substr", "input: string, pos: T, len: T -> output: string", "T: {int32, int64}; " + unit,
                     substr_shape, cpu::substr_kernel()));
  ops.add(string_row("StringSplit", "input: string, delimiter: string -> indices: int64, values: string, shape: int64",
                     "skip_empty: bool = true", split_shape, cpu::string_split_kernel()));
  ops.add(string_row("StringSplitV2", "input: string, sep: string -> indices: int64, values: string, shape: int64",
                     "maxsplit: int = -1", split_shape, cpu::string_split_v2_kernel()));
}

void add_patterns(OpTable& ops) {
  ops.add(string_row("RegexFullMatch", "input: string, pattern: string -> output: bool", "", pattern_shape,
                     cpu::regex_full_match_kernel()));
  ops.add(string_row("StaticRegexFullMatch", "input: string -> output: bool", "pattern: string", shape::unchanged,
                     cpu::static_regex_full_match_kernel()));
  ops.add(string_row("RegexReplace", "input: string, pattern: string, rewrite: string -> output: string",
                     "replace_global: bool = true", pattern_shape, cpu::regex_replace_kernel()));
  ops.add(string_row("StaticRegexReplace", "input: string -> output: string",
                     "pattern: string; rewrite: string; replace_global: bool = true", shape::unchanged,
                     cpu::static_regex_replace_kernel()));
}

void add_hashes(OpTable& ops) {
  ops.add(string_row("StringToHashBucketFast", "input: string -> output: int64", "num_buckets: int >= 1",
                     shape::unchanged, cpu::hash_bucket_fast_kernel()));
  ops.add(string_row("StringToHashBucketStrong", "input: string -> output: int64",
                     "num_buckets: int >= 1; key: list(int)", shape::unchanged, cpu::hash_bucket_strong_kernel()));
  ops.add(string_row("StringToHashBucket", "string_tensor: string -> output: int64", "num_buckets: int >= 1",
                     shape::unchanged, cpu::hash_bucket_kernel()));
}

void add_conversions(OpTable& ops) {
  OpRow as_string = string_row("AsString", "input: T -> output: string",
                               "T: type; precision: int = -1; scientific: bool = false; shortest: bool = false; "
                               "width: int = -1; fill: string = ''",
                               shape::unchanged, cpu::as_string_kernel());
  as_string.types = kPlain | DTypeSet{DType::kString};
  ops.add(std::move(as_string));
  ops.add(string_row("StringToNumber", "string_tensor: string -> output: out_type",
                     "out_type: {float, double, int32, int64} = float", shape::unchanged,
                     kernel_from(cpu::string_to_number)));
  ops.add(string_row("StringFormat", "inputs: T -> output: string",
                     "T: list(type) >= 0; template: string = '%s'; placeholder: string = '%s'; summarize: int = 3",
                     shape::scalar, cpu::string_format_kernel()));
  ops.add(string_row("EncodeBase64", "input: string -> output: string", "pad: bool = false", shape::unchanged,
                     cpu::encode_base64_kernel()));
  ops.add(string_row("DecodeBase64", "input: string -> output: string", "", shape::unchanged,
                     kernel_from(cpu::decode_base64)));
  ops.add(string_row("DecodeRaw", "bytes: string -> output: out_type",
                     "out_type: {half, float, double, int32, uint16, uint8, int16, int8, int64, complex64, complex128, "
                     "bool, bfloat16}; little_endian: bool = true",
                     decode_raw_shape, cpu::decode_raw_kernel()));
}

}  // namespace

void register_string_ops(OpTable& ops) {
  add_basics(ops);
  add_patterns(ops);
  add_hashes(ops);
  add_conversions(ops);
}

}  // namespace tutti
