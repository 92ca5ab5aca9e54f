// Builders of random numbers. A seed of 0 together with a seed2 of 0 means: from the system's entropy. The same
// seeds give the same numbers, step after step, as in TensorFlow. They throw Error.
#pragma once

#include <cstdint>
#include <string>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"

namespace tutti {

struct Seeds {
  std::int64_t seed = 0;
  std::int64_t seed2 = 0;
};

// Numbers of [low, high).
Output random_uniform(Graph& graph, const Ints& shape, DType dtype = DType::kFloat, double low = 0, double high = 1,
                      const Seeds& seeds = {}, const std::string& name = "");
Output random_normal(Graph& graph, const Ints& shape, DType dtype = DType::kFloat, double mean = 0, double stddev = 1,
                     const Seeds& seeds = {}, const std::string& name = "");
// Normal numbers, drawn again while they are two standard deviations or more from the mean.
Output truncated_normal(Graph& graph, const Ints& shape, DType dtype = DType::kFloat, double mean = 0,
                        double stddev = 1, const Seeds& seeds = {}, const std::string& name = "");
// The rows of `value` in another order.
Output random_shuffle(Output value, const Seeds& seeds = {}, const std::string& name = "");

}  // namespace tutti
