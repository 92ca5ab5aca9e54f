// Drives an optimiser with given gradients and compares the variable with a rule written out by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <vector>

#include "tests/support/graph_eval.h"
#include "tutti/ops/array.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/optim/optimizer.h"

namespace tutti::testing {

using Doubles = std::vector<double>;
// Updates one element in place; called element by element, in the order of steps. `state` starts as zeros.
using Rule = std::function<void(double& w, double g, double* state)>;

class OptimizerFixture : public ::testing::Test {
 protected:
  Var make_variable(Tensor value, const std::string& name = "w") { return variable(graph_, std::move(value), name); }
  void initialize() { evaluator_.run_target(global_variables_initializer(graph_)); }
  Doubles value_of(const Var& variable) { return to_doubles(evaluator_.run(variable.read())); }

  // Four steps of dense gradients on a variable of three elements. `state_init`: what the rule's state starts as.
  void expect_dense(Optimizer& optimizer, const Rule& rule, Doubles state_init,
                    const std::optional<Var>& global_step = {}) {
    Doubles expected = {1, -2, 0.5};
    Var w = make_variable(Tensor::vector<double>(expected));
    Output g = placeholder(graph_, DType::kDouble, PartialShape{3});
    Node* train = optimizer.apply_gradients({{Gradient(g), w}}, global_step);
    initialize();
    std::vector<Doubles> state(3, state_init);
    for (int step = 0; step < 4; ++step) {
      Doubles gradient = {0.1 * (step + 1), -0.3, step % 2 ? 0.7 : -0.2};
      evaluator_.run_target(train, {{g, Tensor::vector<double>(gradient)}});
      for (int i = 0; i < 3; ++i) rule(expected[i], gradient[i], state[i].data());
    }
    expect_near(value_of(w), expected);
  }

  // Rows 2, 0, 2 of a 4x2 table, three times: row 2 gets the sum, rows 1 and 3 stay as they are (`lazy`), or
  // get zero gradients.
  void expect_sparse(Optimizer& optimizer, const Rule& rule, Doubles state_init, bool lazy = true,
                     const std::optional<Var>& global_step = {}) {
    Doubles expected = {1, 2, 3, 4, 5, 6, 7, 8};
    Var w = make_variable(Tensor::of<double>({4, 2}, expected), "table");
    Output values = placeholder(graph_, DType::kDouble, PartialShape{3, 2});
    IndexedSlices slices{values, constant(graph_, Tensor::vector<std::int32_t>({2, 0, 2})),
                         constant(graph_, Tensor::vector<std::int32_t>({4, 2}))};
    Node* train = optimizer.apply_gradients({{Gradient(slices), w}}, global_step);
    initialize();
    std::vector<Doubles> state(8, state_init);
    for (int step = 1; step <= 3; ++step) {
      Doubles rows = {0.1 * step, 0.2, 0.3, -0.4, 0.5, 0.6 * step};
      evaluator_.run_target(train, {{values, Tensor::of<double>({3, 2}, rows)}});
      Doubles dense = {rows[2], rows[3], 0, 0, rows[0] + rows[4], rows[1] + rows[5], 0, 0};
      for (int i = 0; i < 8; ++i) {
        const bool given = i < 2 || i == 4 || i == 5;
        if (given || !lazy) rule(expected[i], dense[i], state[i].data());
      }
    }
    expect_near(value_of(w), expected);
  }

  static void expect_near(const Doubles& got, const Doubles& expected) {
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-12) << "element " << i;
  }

  Graph graph_{builtin_ops()};
  GraphEvaluator evaluator_;
};

}  // namespace tutti::testing
