// Optional values: TensorFlow's gradients of If and Case pass a branch's intermediates as these.
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/optional.h"
#include "tutti/ops/op_table.h"

namespace tutti {
namespace {

Status get_value_shape(ShapeContext& c) {
  const auto& shapes = c.attr<std::vector<PartialShape>>("output_shapes");
  for (int i = 0; i < c.num_outputs() && i < static_cast<int>(shapes.size()); ++i) {
    c.set_output(i, shapes[static_cast<std::size_t>(i)]);
  }
  return {};
}

}  // namespace

void register_optional_ops(OpTable& ops) {
  ops.add({.name = "OptionalNone",
           .signature = "-> optional: variant",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::optional_none))}});
  ops.add({.name = "OptionalFromValue",
           .signature = "components: Toutput_types -> optional: variant",
           .attrs = "Toutput_types: list(type) >= 1",
           .shape = shape::scalar,
           .kernels = {TUTTI_CPU(kernel_from(cpu::optional_from_value))}});
  ops.add({.name = "OptionalHasValue",
           .signature = "optional: variant -> has_value: bool",
           .shape = shape::scalar,
           .no_gradient = true,
           .kernels = {TUTTI_CPU(kernel_from(cpu::optional_has_value))}});
  ops.add({.name = "OptionalGetValue",
           .signature = "optional: variant -> components: output_types",
           .attrs = "output_types: list(type) >= 1; output_shapes: list(shape) >= 1",
           .shape = get_value_shape,
           .kernels = {TUTTI_CPU(cpu::optional_get_value_kernel())}});
}

}  // namespace tutti
