#include "tutti/optim/internal/whole_norms.h"

#include "tutti/ops/math.h"
#include "tutti/ops/slice_info.h"

namespace tutti {
namespace {

std::string whole_of(const Var& variable) {
  const std::optional<SliceInfo> part = slice_info(variable);
  return part ? part->full_name : variable.name();
}

}  // namespace

void WholeNorms::add(const Var& variable, Output value) {
  squares_[whole_of(variable)].push_back(reduce_sum(square(value)));
}

Output WholeNorms::norm_of(const Var& variable) {
  const std::string whole = whole_of(variable);
  auto it = norms_.find(whole);
  if (it != norms_.end()) return it->second;
  const std::vector<Output>& squares = squares_.at(whole);
  return norms_[whole] = sqrt(squares.size() == 1 ? squares[0] : add_n(squares));
}

Output ratio_or_one(Output weights, Output steps, Output ratio) {
  Output zero = zeros_like(weights);
  return where(logical_and(greater(weights, zero), greater(steps, zero)), ratio, ones_like(weights));
}

}  // namespace tutti
