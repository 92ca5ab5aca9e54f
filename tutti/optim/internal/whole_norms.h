// Norms of values that belong to variables. Of a partitioned variable the norm is that of the whole, so that a layer is
// scaled alike however it is cut.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tutti/ops/state.h"

namespace tutti {

class WholeNorms {
 public:
  // Notes the value of a variable or of a part. REQUIRES: before the first norm_of it.
  void add(const Var& variable, Output value);
  // Of the values of the variable, or of all parts that were added.
  Output norm_of(const Var& variable);

 private:
  std::map<std::string, std::vector<Output>> squares_;  // sums of squares, by the name of the whole
  std::map<std::string, Output> norms_;
};

// `ratio` where both norms are positive, else one.
Output ratio_or_one(Output weights, Output steps, Output ratio);

}  // namespace tutti
