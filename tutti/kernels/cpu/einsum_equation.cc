#include "tutti/kernels/cpu/einsum_equation.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tutti::cpu {
namespace {

Result<EinsumTerm> parse_term(std::string_view text) {
  EinsumTerm term;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 3) == "...") {
      if (has_ellipsis(term)) return invalid_argument("einsum subscript '", text, "' has more than one ellipsis");
      term.push_back(kEllipsis);
      i += 2;
    } else {
      term.push_back(static_cast<unsigned char>(text[i]));
    }
  }
  return term;
}

bool contains(const EinsumTerm& term, EinsumLabel label) {
  return std::find(term.begin(), term.end(), label) != term.end();
}

Status check_output(const EinsumEquation& equation) {
  for (const EinsumLabel label : equation.output) {
    const bool known = std::any_of(equation.inputs.begin(), equation.inputs.end(),
                                   [&](const EinsumTerm& input) { return contains(input, label); });
    if (!known && label != kEllipsis) {
      return invalid_argument("einsum output subscript '", to_text({label}), "' is in no input");
    }
  }
  return {};
}

// Notes the size of a label, or checks it against the one noted.
Status note_size(std::map<EinsumLabel, std::int64_t>& sizes, EinsumLabel label, std::int64_t size, int axis,
                 const PartialShape& shape) {
  auto [it, is_new] = sizes.try_emplace(label, size);
  if (is_new || size == kUnknownDim) return {};
  if (it->second == kUnknownDim || (is_broadcast(label) && it->second == 1)) {
    it->second = size;
  } else if (it->second != size && !(is_broadcast(label) && size == 1)) {
    return invalid_argument("Expected dimension ", it->second, " at axis ", axis, " of the input shaped ", shape,
                            " but got dimension ", size);
  }
  return {};
}

}  // namespace

Result<EinsumEquation> EinsumEquation::parse(std::string_view text, int num_inputs) {
  const std::size_t arrow = text.find("->");
  if (arrow == std::string_view::npos || text.find("->", arrow + 2) != std::string_view::npos) {
    return invalid_argument("Expecting exactly one '->' in einsum equation: ", text);
  }
  EinsumEquation equation;
  std::string_view left = text.substr(0, arrow);
  for (;;) {
    const std::size_t comma = left.find(',');
    TUTTI_ASSIGN_OR_RETURN(EinsumTerm term, parse_term(left.substr(0, comma)));
    equation.inputs.push_back(std::move(term));
    if (comma == std::string_view::npos) break;
    left.remove_prefix(comma + 1);
  }
  if (equation.inputs.size() > 2) {
    return invalid_argument("Expecting 1 or 2 input subscripts in equation '", text,
                            "' but got: ", equation.inputs.size());
  }
  if (static_cast<int>(equation.inputs.size()) != num_inputs) {
    return invalid_argument("Expected ", equation.inputs.size(), " inputs but got: ", num_inputs);
  }
  TUTTI_ASSIGN_OR_RETURN(equation.output, parse_term(text.substr(arrow + 2)));
  TUTTI_RETURN_IF_ERROR(check_output(equation));
  return equation;
}

bool has_ellipsis(const EinsumTerm& term) { return contains(term, kEllipsis); }

std::string to_text(const EinsumTerm& term) {
  std::string text;
  for (const EinsumLabel label : term) {
    if (label == kEllipsis) {
      text += "...";
    } else {
      text += static_cast<char>(label);
    }
  }
  return text;
}

Result<EinsumTerm> expand_ellipsis(const EinsumTerm& term, int rank, std::string_view what) {
  const int named = static_cast<int>(term.size()) - (has_ellipsis(term) ? 1 : 0);
  if (!has_ellipsis(term) && rank != named) {
    return invalid_argument("Expected ", what, " to have rank ", named, " but got: ", rank);
  }
  if (rank < named) return invalid_argument("Expected ", what, " to have rank at least ", named, " but got: ", rank);
  EinsumTerm all;
  for (const EinsumLabel label : term) {
    if (label != kEllipsis) {
      all.push_back(label);
    } else {
      for (int i = rank - named - 1; i >= 0; --i) all.push_back(broadcast_label(i));
    }
  }
  return all;
}

EinsumTerm output_labels(const EinsumEquation& equation, int broadcast_dims) {
  EinsumTerm all;
  for (const EinsumLabel label : equation.output) {
    if (label != kEllipsis) {
      all.push_back(label);
    } else {
      for (int i = broadcast_dims - 1; i >= 0; --i) all.push_back(broadcast_label(i));
    }
  }
  return all;
}

Result<PartialShape> einsum_shape(const EinsumEquation& equation, std::span<const PartialShape> inputs) {
  std::map<EinsumLabel, std::int64_t> sizes;
  std::optional<int> broadcast_dims = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const EinsumTerm& term = equation.inputs[i];
    if (!inputs[i].has_rank()) {
      if (has_ellipsis(term)) broadcast_dims.reset();
      continue;
    }
    TUTTI_ASSIGN_OR_RETURN(const EinsumTerm labels, expand_ellipsis(term, inputs[i].rank(), str_cat("input ", i)));
    const int dots = static_cast<int>(std::count_if(labels.begin(), labels.end(), is_broadcast));
    if (broadcast_dims) broadcast_dims = std::max(*broadcast_dims, dots);
    for (int d = 0; d < inputs[i].rank(); ++d) {
      TUTTI_RETURN_IF_ERROR(note_size(sizes, labels[static_cast<std::size_t>(d)], inputs[i].dim(d), d, inputs[i]));
    }
  }
  if (!has_ellipsis(equation.output) && broadcast_dims.value_or(0) > 0) {
    return invalid_argument("Output contains ", *broadcast_dims,
                            " broadcasting dimension(s) but no ellipsis (...) was found in the output subscripts.");
  }
  if (has_ellipsis(equation.output) && !broadcast_dims) return PartialShape();
  std::vector<std::int64_t> dims;
  for (const EinsumLabel label : output_labels(equation, broadcast_dims.value_or(0))) {
    const auto it = sizes.find(label);
    dims.push_back(it == sizes.end() ? kUnknownDim : it->second);
  }
  return PartialShape::create(std::move(dims));
}

}  // namespace tutti::cpu
