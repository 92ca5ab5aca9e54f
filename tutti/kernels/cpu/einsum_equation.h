// Equations of Einsum, for its kernel, its shape rule and its gradient: "ab,bc->ac", "...ij,...jk->...ik".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/shape.h"
#include "tutti/core/status.h"

namespace tutti::cpu {

// What one dimension of an operand is called: a character, or, of those under the dots, a number.
using EinsumLabel = int;
inline constexpr EinsumLabel kEllipsis = -1;
// The dimension under the dots that lies `i` before the last of them. Dots are aligned at their ends.
constexpr EinsumLabel broadcast_label(int i) { return 256 + i; }
constexpr bool is_broadcast(EinsumLabel label) { return label >= 256; }

using EinsumTerm = std::vector<EinsumLabel>;  // at most one kEllipsis

struct EinsumEquation {
  std::vector<EinsumTerm> inputs;  // one or two
  EinsumTerm output;

  // Errors: no "->" or several, more than two inputs, other than `num_inputs` of them, dots twice in a term, an output
  // that no input has.
  static Result<EinsumEquation> parse(std::string_view text, int num_inputs);
};

bool has_ellipsis(const EinsumTerm& term);
// The term again as text.
std::string to_text(const EinsumTerm& term);
// The term with dots spelled out for an operand of `rank` dimensions. `what` names it in errors.
Result<EinsumTerm> expand_ellipsis(const EinsumTerm& term, int rank, std::string_view what);

// The dimensions of the output, given the shapes of the inputs; of what is not known, kUnknownDim, or no rank. Errors:
// ranks that do not fit, sizes of one label that differ, dots that the output lacks.
Result<PartialShape> einsum_shape(const EinsumEquation& equation, std::span<const PartialShape> inputs);
// The output's labels with the dots spelled out as `broadcast_dims` dimensions.
EinsumTerm output_labels(const EinsumEquation& equation, int broadcast_dims);

}  // namespace tutti::cpu
