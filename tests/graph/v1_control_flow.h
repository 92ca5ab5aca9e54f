// v1 conditionals and loops as TensorFlow's clients write them, and their gradients beside numeric differences.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/graph/graph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/runtime/local_session.h"

namespace tutti::v1_test {

using Values = std::vector<Output>;

// One side of a tf.cond.
class Side {
 public:
  Side(Output pred, Output pivot, int side) : pred_(pred), pivot_(pivot), side_(side) {}
  // A value from outside.
  Output take(Output value) const { return add_op(value.graph(), "Switch", {value, pred_})->output(side_); }
  Output number(double value) const {
    ScopeGuard after = pivot_.graph().control_dependencies({pivot_.node});
    return constant(pivot_.graph(), Tensor::scalar(value));
  }

 private:
  Output pred_;
  Output pivot_;
  int side_;
};

using SideFn = std::function<Values(const Side&)>;

Values v1_cond(Output pred, const SideFn& then_fn, const SideFn& else_fn);

// The inside of a tf.while_loop.
class Turn {
 public:
  Turn(std::string frame, Output pivot) : frame_(std::move(frame)), pivot_(pivot) {}
  // A value from outside.
  Output take(Output value) const {
    return op1("Enter", {value}, {{"frame_name", frame_}, {"is_constant", true}, {"parallel_iterations", 7}});
  }
  Output number(const Tensor& value) const {
    return made([&] { return constant(pivot_.graph(), value); });
  }
  Output number(double value) const { return number(Tensor::scalar(value)); }
  // What `make` makes, constants included, in this turn.
  Output made(const std::function<Output()>& make) const {
    ScopeGuard after = pivot_.graph().control_dependencies({pivot_.node});
    return make();
  }

 private:
  std::string frame_;
  Output pivot_;
};

using CondFn = std::function<Output(const Turn&, const Values&)>;
using TurnFn = std::function<Values(const Turn&, const Values&)>;

Values v1_while(const Values& initial, const CondFn& cond_fn, const TurnFn& body_fn);
// `body_fn` of everything but the counter, `n` times.
Values repeat(Output n, const Values& initial, const TurnFn& body_fn);

class V1GradientsTest : public ::testing::Test {
 protected:
  Output x(PartialShape shape = PartialShape::scalar()) { return placeholder(graph_, DType::kDouble, shape); }
  Output count() { return placeholder(graph_, DType::kInt32, PartialShape::scalar()); }
  Output flag() { return placeholder(graph_, DType::kBool, PartialShape::scalar()); }

  std::vector<Tensor> run(const Values& fetches, const Feeds& feeds);
  // Compares gradients with central differences of the sum of ys, one after another fed element of type double.
  void expect_gradients(const Values& ys, const std::vector<std::pair<Output, Tensor>>& feeds);

  // What the error of `f` says.
  static std::string error_of(const std::function<void()>& f);
  static Tensor number(double value) { return Tensor::scalar(value); }
  static Tensor vector(const std::vector<double>& values) { return Tensor::vector<double>(values); }
  static Tensor times(std::int32_t n) { return Tensor::scalar(n); }
  static Tensor truth(bool value) { return Tensor::scalar(value); }

  Graph graph_{builtin_ops()};
};

}  // namespace tutti::v1_test
