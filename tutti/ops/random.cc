#include "tutti/ops/random.h"

#include "tutti/ops/builders.h"

namespace tutti {

namespace {

AttrMap seed_attrs(const Seeds& seeds) { return {{"seed", seeds.seed}, {"seed2", seeds.seed2}}; }

// scale * random + shift, leaving out what changes nothing.
Output draw(Graph& graph, const char* op, const Ints& shape, DType dtype, double scale, double shift,
            const Seeds& seeds, const std::string& name) {
  AttrMap attrs = seed_attrs(seeds);
  attrs.emplace("dtype", dtype);
  const bool scaled = scale != 1.0;
  const bool shifted = shift != 0.0;
  Output value = add_op(graph, op, {shape.in(graph)}, std::move(attrs), scaled || shifted ? "" : name)->output();
  if (scaled) value = op1("Mul", {value, constant(graph, scale, dtype)}, {}, shifted ? "" : name);
  if (shifted) value = op1("AddV2", {value, constant(graph, shift, dtype)}, {}, name);
  return value;
}

}  // namespace

Output random_uniform(Graph& graph, const Ints& shape, DType dtype, double low, double high, const Seeds& seeds,
                      const std::string& name) {
  return draw(graph, "RandomUniform", shape, dtype, high - low, low, seeds, name);
}

Output random_normal(Graph& graph, const Ints& shape, DType dtype, double mean, double stddev, const Seeds& seeds,
                     const std::string& name) {
  return draw(graph, "RandomStandardNormal", shape, dtype, stddev, mean, seeds, name);
}

Output truncated_normal(Graph& graph, const Ints& shape, DType dtype, double mean, double stddev, const Seeds& seeds,
                        const std::string& name) {
  return draw(graph, "TruncatedNormal", shape, dtype, stddev, mean, seeds, name);
}

Output random_shuffle(Output value, const Seeds& seeds, const std::string& name) {
  return op1("RandomShuffle", {value}, seed_attrs(seeds), name);
}

}  // namespace tutti
