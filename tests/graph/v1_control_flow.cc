#include "tests/graph/v1_control_flow.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "tutti/graph/gradients.h"
#include "tutti/ops/math.h"

namespace tutti::v1_test {

Values v1_cond(Output pred, const SideFn& then_fn, const SideFn& else_fn) {
  Node* pivots = add_op(pred.graph(), "Switch", {pred, pred});
  Output flag = identity(pred);
  Values sides[2];
  for (int side : {1, 0}) {
    const Side inside(flag, identity(pivots->output(side)), side);
    for (Output value : (side == 1 ? then_fn : else_fn)(inside)) sides[side].push_back(identity(value));
  }
  Values results;
  for (std::size_t i = 0; i < sides[0].size(); ++i) {
    results.push_back(add_op(pred.graph(), "Merge", {sides[0][i], sides[1][i]})->output());
  }
  return results;
}

Values v1_while(const Values& initial, const CondFn& cond_fn, const TurnFn& body_fn) {
  Graph& graph = initial[0].graph();
  const std::string frame = graph.unique_name("while_context");
  std::vector<Node*> merges;
  Values values;
  for (Output value : initial) {
    Output enter = op1("Enter", {value}, {{"frame_name", frame}, {"parallel_iterations", 7}});
    merges.push_back(graph
                         .add_exact({.op = "Merge",
                                     .name = graph.unique_name("Merge"),
                                     .inputs = {enter, Output()},
                                     .attrs = {{"T", value.dtype()}, {"N", 2}}})
                         .value_or_throw());
    values.push_back(merges.back()->output());
  }
  Output decided = op1("LoopCond", {cond_fn(Turn(frame, values[0]), values)});
  std::vector<Node*> choices;
  Values inside;
  for (Output value : values) {
    choices.push_back(add_op(graph, "Switch", {value, decided}));
    inside.push_back(identity(choices.back()->output(1)));
  }
  const Values next = body_fn(Turn(frame, inside[0]), inside);
  Values results;
  for (std::size_t i = 0; i < initial.size(); ++i) {
    throw_if_error(graph.set_input(*merges[i], 1, op1("NextIteration", {next[i]})));
    results.push_back(op1("Exit", {choices[i]->output(0)}));
  }
  return results;
}

Values repeat(Output n, const Values& initial, const TurnFn& body_fn) {
  Values all;
  {
    // In a branch, or in a loop, a constant must be too.
    ScopeGuard after = n.graph().control_dependencies({n.node});
    all.push_back(constant(n.graph(), Tensor::scalar(std::int32_t{0})));
  }
  all.insert(all.end(), initial.begin(), initial.end());
  Values results = v1_while(
      all, [&](const Turn& turn, const Values& v) { return less(v[0], turn.take(n)); },
      [&](const Turn& turn, const Values& v) {
        Values next = body_fn(turn, Values(v.begin() + 1, v.end()));
        next.insert(next.begin(), v[0] + turn.number(Tensor::scalar(std::int32_t{1})));
        return next;
      });
  results.erase(results.begin());
  return results;
}

std::vector<Tensor> V1GradientsTest::run(const Values& fetches, const Feeds& feeds) {
  LocalSession session(graph_);
  std::vector<TensorName> names;
  for (Output fetch : fetches) names.emplace_back(fetch.name());
  return session.run(feeds, names, {}, {.timeout = std::chrono::seconds(60)});
}

void V1GradientsTest::expect_gradients(const Values& ys, const std::vector<std::pair<Output, Tensor>>& feeds) {
  Values xs;
  for (const auto& [value, tensor] : feeds) {
    if (tensor.dtype() == DType::kDouble) xs.push_back(value);
  }
  const std::vector<Gradient> symbolic = gradients(ys, xs);
  Values found;
  for (const Gradient& gradient : symbolic) {
    if (gradient) found.push_back(gradient.dense());
  }
  const auto fed = [&](std::size_t which, std::int64_t element, double delta) {
    Feeds result;
    for (std::size_t i = 0; i < feeds.size(); ++i) {
      Tensor value = feeds[i].second.clone().value_or_throw();
      if (i == which) value.data<double>()[element] += delta;
      result.emplace_back(feeds[i].first.name(), value);
    }
    return result;
  };
  const std::vector<Tensor> got = run(found, fed(feeds.size(), 0, 0));
  LocalSession session(graph_);
  std::vector<TensorName> names;
  for (Output y : ys) names.emplace_back(y.name());
  const auto sum_of = [&](const Feeds& at) {
    double sum = 0;
    for (const Tensor& y : session.run(at, names)) {
      for (double value : y.flat<double>()) sum += value;
    }
    return sum;
  };
  for (std::size_t i = 0, next_x = 0, next_got = 0; i < feeds.size(); ++i) {
    const Tensor& value = feeds[i].second;
    if (value.dtype() != DType::kDouble) continue;
    const bool connected = static_cast<bool>(symbolic[next_x++]);
    if (connected) {
      ASSERT_EQ(got[next_got].shape(), value.shape());
    }
    for (std::int64_t e = 0; e < value.num_elements(); ++e) {
      constexpr double kStep = 1e-6;
      const double expected = (sum_of(fed(i, e, kStep)) - sum_of(fed(i, e, -kStep))) / (2 * kStep);
      const double g = connected ? got[next_got].data<double>()[e] : 0;
      EXPECT_NEAR(g, expected, 2e-7 * std::max(1.0, std::abs(expected))) << "feed " << i << " element " << e;
    }
    if (connected) ++next_got;
  }
}

std::string V1GradientsTest::error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tutti::v1_test
