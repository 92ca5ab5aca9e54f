// Rows of ops that mirror, turn around and shift along dimensions.

#include <string>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/mirror_pad.h"
#include "tutti/kernels/cpu/rearrange.h"
#include "tutti/kernels/cpu/sequences.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/array_shapes.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/internal/row_parts.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

constexpr DTypeSet kPlainOrString = kPlain | DTypeSet{DType::kString};

// The other way round than padding. A kernel checks again what is known only then.
Status mirror_pad_grad_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const PartialShape paddings, c.with_rank(1, 2));
  PartialShape shape = c.input(0);
  if (!shape.has_rank()) return {};
  if (paddings.dim(0) != kUnknownDim && paddings.dim(0) != shape.rank()) {
    return invalid_argument("paddings ", paddings, " do not fit input ", shape);
  }
  const std::optional<Tensor> value = c.constant(1);
  const bool known = value && value->shape() == Shape{shape.rank(), 2} && kIndexTypes.contains(value->dtype());
  for (int d = 0; d < shape.rank(); ++d) {
    std::int64_t dim = kUnknownDim;
    if (known && shape.dim(d) != kUnknownDim) {
      const std::int64_t before = cpu::index_at(value->raw(), value->dtype(), 2 * d);
      const std::int64_t after = cpu::index_at(value->raw(), value->dtype(), 2 * d + 1);
      if (before < 0 || after < 0 || before > shape.dim(d) || after > shape.dim(d) - before) {
        return invalid_argument("paddings ", before, " ", after, " do not fit dimension ", d, " of ", shape);
      }
      dim = shape.dim(d) - before - after;
    }
    shape.set_dim(d, dim);
  }
  c.set_output(0, std::move(shape));
  return {};
}

GradFn mirrored_back_by(const std::string& op) {
  return [op](GradContext& g) { g.set(0, op1(op, {g.grad(), g.input(1)}, {{"mode", g.attr<std::string>("mode")}})); };
}

Status reverse_sequence_shape(ShapeContext& c) {
  const PartialShape& input = c.input(0);
  TUTTI_ASSIGN_OR_RETURN(const PartialShape lengths, c.with_rank(1, 1));
  c.set_output(0, input);
  if (!input.has_rank()) return {};
  const std::int64_t batch = c.attr<std::int64_t>("batch_dim"), seq = c.attr<std::int64_t>("seq_dim");
  if (batch < 0 || batch >= input.rank()) return invalid_argument("batch_dim must be < input rank: ", batch);
  if (seq < 0 || seq >= input.rank()) return invalid_argument("seq_dim must be < input rank: ", seq);
  PartialShape output = input;
  TUTTI_ASSIGN_OR_RETURN(const PartialShape batches, PartialShape{input.dim(static_cast<int>(batch))}.merge(lengths));
  output.set_dim(static_cast<int>(batch), batches.dim(0));
  c.set_output(0, std::move(output));
  return {};
}

void reverse_sequence_grad(GradContext& g) {
  g.set(0, op1("ReverseSequence", {g.grad(), g.input(1)},
               {{"seq_dim", g.attr<std::int64_t>("seq_dim")}, {"batch_dim", g.attr<std::int64_t>("batch_dim")}}));
}

Status roll_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(PartialShape input, c.with_rank_at_least(0, 1));
  c.set_output(0, std::move(input));
  return {};
}

void roll_grad(GradContext& g) { g.set(0, op1("Roll", {g.grad(), neg(g.input(1)), g.input(2)})); }

}  // namespace

void add_sequence_ops(OpTable& ops) {
  const std::string mirror = "T: type; Tpaddings: {int32, int64} = int32; mode: {'REFLECT', 'SYMMETRIC'}";
  ops.add({.name = "MirrorPad",
           .signature = "input: T, paddings: Tpaddings -> output: T",
           .attrs = mirror,
           .shape = pad_shape,
           .grad = mirrored_back_by("MirrorPadGrad"),
           .kernels = {TUTTI_CPU(cpu::mirror_pad_kernel(), kPlainOrString | kQuantised)}});
  ops.add({.name = "MirrorPadGrad",
           .signature = "input: T, paddings: Tpaddings -> output: T",
           .attrs = mirror,
           .shape = mirror_pad_grad_shape,
           .grad = mirrored_back_by("MirrorPad"),
           .kernels = {TUTTI_CPU(cpu::mirror_pad_grad_kernel(), kNumbers)}});
  ops.add({.name = "ReverseSequence",
           .signature = "input: T, seq_lengths: Tlen -> output: T",
           .attrs = "seq_dim: int; batch_dim: int = 0; T: type; Tlen: {int32, int64} = int64",
           .shape = reverse_sequence_shape,
           .grad = reverse_sequence_grad,
           .kernels = {TUTTI_CPU(cpu::reverse_sequence_kernel(), kPlainOrString)}});
  ops.add({.name = "Roll",
           .signature = "input: T, shift: Tshift, axis: Taxis -> output: T",
           .attrs = "T: type; Tshift: {int32, int64}; Taxis: {int32, int64}",
           .shape = roll_shape,
           .grad = roll_grad,
           .kernels = {TUTTI_CPU(kernel_from(cpu::roll))}});
}

}  // namespace tutti::internal
