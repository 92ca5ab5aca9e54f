// Optimisers whose step of an element depends on the whole layer, against a rule for the layer written out by hand.
#pragma once

#include <cmath>
#include <functional>

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/partitioned_variable.h"

namespace tutti::testing {

inline double norm(const Doubles& x) {
  double squares = 0;
  for (double element : x) squares += element * element;
  return std::sqrt(squares);
}

// Updates a layer in place.
using LayerRule = std::function<void(Doubles& w, const Doubles& g)>;

class LayerFixture : public OptimizerFixture {
 protected:
  static Doubles gradient_at(int step) { return {0.1 * (step + 1), -0.3, step % 2 ? 0.7 : -0.2, 0.05, -0.6, 0.4}; }

  // Four steps of dense gradients on a variable of six elements.
  void expect_layer(Optimizer& optimizer, Doubles start, const LayerRule& rule) {
    Var w = make_variable(Tensor::vector<double>(start));
    Output g = placeholder(graph_, DType::kDouble, PartialShape{6});
    Node* train = optimizer.apply_gradients({{Gradient(g), w}});
    initialize();
    for (int step = 0; step < 4; ++step) {
      evaluator_.run_target(train, {{g, Tensor::vector<double>(gradient_at(step))}});
      rule(start, gradient_at(step));
    }
    expect_near(value_of(w), start);
  }

  // The same on a variable in two parts.
  void expect_parts(Optimizer& optimizer, Doubles start, const LayerRule& rule) {
    PartitionedVar w = partitioned_variable(graph_, Tensor::vector<double>(start), "w", fixed_size_partitioner(2));
    Output g = placeholder(graph_, DType::kDouble, PartialShape{6});
    Node* train = optimizer.minimize(op1("Sum", {op1("Mul", {w, g}), constant(graph_, 0, DType::kInt32)}));
    initialize();
    for (int step = 0; step < 4; ++step) {
      evaluator_.run_target(train, {{g, Tensor::vector<double>(gradient_at(step))}});
      rule(start, gradient_at(step));
    }
    expect_near(to_doubles(evaluator_.run(w.read())), start);
  }

  // Rows 2, 0, 2 of a 4x2 table, three times.
  void expect_rows(Optimizer& optimizer, const LayerRule& rule) {
    Doubles expected = {1, 2, 3, 4, 5, 6, 7, 8};
    Var w = make_variable(Tensor::of<double>({4, 2}, expected), "table");
    Output values = placeholder(graph_, DType::kDouble, PartialShape{3, 2});
    IndexedSlices slices{values, constant(graph_, Tensor::vector<std::int32_t>({2, 0, 2})),
                         constant(graph_, Tensor::vector<std::int32_t>({4, 2}))};
    Node* train = optimizer.apply_gradients({{Gradient(slices), w}});
    initialize();
    for (int step = 1; step <= 3; ++step) {
      const Doubles rows = {0.1 * step, 0.2, 0.3, -0.4, 0.5, 0.6 * step};
      evaluator_.run_target(train, {{values, Tensor::of<double>({3, 2}, rows)}});
      rule(expected, {rows[2], rows[3], 0, 0, rows[0] + rows[4], rows[1] + rows[5], 0, 0});
    }
    expect_near(value_of(w), expected);
  }
};

}  // namespace tutti::testing
