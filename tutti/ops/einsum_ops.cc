// The row of Einsum.

#include <algorithm>
#include <string>
#include <vector>

#include "tutti/graph/gradients.h"
#include "tutti/graph/shape_inference.h"
#include "tutti/kernels/cpu/einsum.h"
#include "tutti/kernels/cpu/einsum_equation.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/internal/grad_util.h"
#include "tutti/ops/internal/row_groups.h"
#include "tutti/ops/math.h"

namespace tutti::internal {
namespace {

using cpu::EinsumEquation;
using cpu::EinsumLabel;
using cpu::EinsumTerm;
using cpu::kEllipsis;

Result<EinsumEquation> equation_of(const Node& node) {
  return EinsumEquation::parse(node.attr<std::string>("equation"), static_cast<int>(node.inputs().size()));
}

Status einsum_output_shape(ShapeContext& c) {
  TUTTI_ASSIGN_OR_RETURN(const EinsumEquation equation, equation_of(c.node()));
  std::vector<PartialShape> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  TUTTI_ASSIGN_OR_RETURN(PartialShape output, cpu::einsum_shape(equation, inputs));
  c.set_output(0, std::move(output));
  return {};
}

// --- Gradient: the same sum, with the output's gradient in the place of the input that it is for. ---

bool has_label(const EinsumTerm& term, EinsumLabel label) {
  return std::find(term.begin(), term.end(), label) != term.end();
}

Output einsum_of(const std::vector<Output>& operands, const std::vector<EinsumTerm>& terms, const EinsumTerm& to) {
  std::string text;
  for (std::size_t i = 0; i < terms.size(); ++i) text += (i == 0 ? "" : ",") + cpu::to_text(terms[i]);
  return op1("Einsum", operands, {{"equation", text + "->" + cpu::to_text(to)}});
}

// The size of the dimension of x that `label` names first, as a scalar.
Output size_of_label(Output x, const EinsumTerm& term, EinsumLabel label) {
  const auto at = std::find(term.begin(), term.end(), label);
  const auto dots = std::find(term.begin(), term.end(), kEllipsis);
  Graph& graph = x.graph();
  if (at < dots) return gather(shape_of(x), constant(graph, at - term.begin(), DType::kInt32));
  return gather(shape_of(x), sub(rank(x), constant(graph, term.end() - at, DType::kInt32)));
}

// The gradient of a sum over `term` that kept only the labels of `kept`: the same value at every place along the
// others.
Output repeated_along(Output grad, const EinsumTerm& kept, const EinsumTerm& gone, const EinsumTerm& term, Output x) {
  if (gone.empty()) return grad;
  std::vector<Output> sizes;
  for (const EinsumLabel label : gone) sizes.push_back(size_of_label(x, term, label));
  Output ones = fill(Ints(stack(sizes)), scalar_like(x, 1));
  return einsum_of({grad, ones}, {kept, gone}, term);
}

struct Side {
  Output value;
  EinsumTerm term;
};

// Before sums over dimensions along which `self` was repeated. `other` may be nothing.
Output grad_of_side(Output dy, const EinsumTerm& output, const Side& self, const Side& other) {
  EinsumTerm kept, gone;
  for (const EinsumLabel label : self.term) {
    const bool known = label == kEllipsis || has_label(output, label) || has_label(other.term, label);
    EinsumTerm& to = known ? kept : gone;
    if (!has_label(to, label)) to.push_back(label);
  }
  const EinsumTerm& direct = gone.empty() ? self.term : kept;
  Output grad = other.value ? einsum_of({dy, conjugate(other.value)}, {output, other.term}, direct)
                            : einsum_of({dy}, {output}, direct);
  return repeated_along(grad, kept, gone, self.term, self.value);
}

// The dimensions of x under the dots, as a value.
Output dots_of(const Side& side) {
  const auto dots = std::find(side.term.begin(), side.term.end(), kEllipsis);
  const std::int64_t before = dots - side.term.begin(), after = side.term.end() - dots - 1;
  return strided_slice(shape_of(side.value), {before}, {-after}, {1}, {.end_mask = after == 0 ? 1 : 0});
}

bool same_known_dots(const Side& a, const Side& b) {
  const auto dims = [](const Side& side) -> std::optional<std::vector<std::int64_t>> {
    const PartialShape& shape = side.value.shape();
    if (!shape.fully_known()) return std::nullopt;
    const auto dots = std::find(side.term.begin(), side.term.end(), kEllipsis);
    return std::vector<std::int64_t>(shape.dims().begin() + (dots - side.term.begin()),
                                     shape.dims().end() - (side.term.end() - dots - 1));
  };
  const auto of_a = dims(a), of_b = dims(b);
  return of_a && of_b && *of_a == *of_b;
}

void einsum_grad(GradContext& g) {
  EinsumEquation equation = equation_of(g.node()).value_or_throw();
  if (g.num_inputs() == 1) {
    g.set(0, grad_of_side(g.grad(), equation.output, {g.input(0), equation.inputs[0]}, {}));
    return;
  }
  Side x{g.input(0), equation.inputs[0]}, y{g.input(1), equation.inputs[1]};
  const bool dots = cpu::has_ellipsis(equation.output);
  for (Side* side : {&x, &y}) {
    if (dots && !cpu::has_ellipsis(side->term)) side->term.push_back(kEllipsis);
  }
  Node* axes = nullptr;
  if (dots && !same_known_dots(x, y)) axes = add_op(g.graph(), "BroadcastGradientArgs", {dots_of(x), dots_of(y)});
  for (int i = 0; i < 2; ++i) {
    if (!g.needs(i)) continue;
    const Side& self = i == 0 ? x : y;
    Output grad = grad_of_side(g.grad(), equation.output, self, i == 0 ? y : x);
    if (axes != nullptr) {
      const auto at = std::find(self.term.begin(), self.term.end(), kEllipsis) - self.term.begin();
      Output places = add(axes->output(i), constant(g.graph(), at, DType::kInt32));
      grad = reshape(reduce_sum(grad, Ints(places)), shape_of(self.value));
    }
    g.set(i, grad);
  }
}

}  // namespace

void add_einsum_ops(OpTable& ops) {
  ops.add({.name = "Einsum",
           .signature = "inputs: N * T -> output: T",
           .attrs = "equation: string; N: int >= 1; T: type",
           .shape = einsum_output_shape,
           .grad = einsum_grad,
           .traits = kExpensive,
           .kernels = {TUTTI_CPU(cpu::einsum_kernel(), kFloats | kComplexes | kIndexTypes)}});
}

}  // namespace tutti::internal
