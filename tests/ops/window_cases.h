// Random inputs and attributes for convolutions, pools and normalisations, whose inputs depend on each other.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/attr_value.h"
#include "tutti/core/tensor.h"

namespace tutti::cases {

// Where random values come from.
struct Draw {
  std::function<Tensor(DType, const Shape&)> tensor;
  std::function<std::int64_t(std::int64_t low, std::int64_t high)> integer;
};

struct WindowCase {
  std::vector<Tensor> inputs;
  AttrMap attrs;
};

// Nothing when the op is none of these. Some cases are wrong on purpose: their references refuse them.
std::optional<WindowCase> window_case(const std::string& op, DType dtype, int round, const Draw& draw);

}  // namespace tutti::cases
