// Gradients through v1 loops, and conditionals in them.
#include <cmath>

#include "tests/graph/v1_control_flow.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"

namespace tutti::v1_test {

using V1LoopGradients = V1GradientsTest;

TEST_F(V1LoopGradients, ALoopWithAnInvariant) {
  Output n = count();
  Output a = x({2});
  Output w = x({2});
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) { return Values{sin(v[0] * t.take(w))}; })[0];
  for (std::int32_t i : {0, 1, 5, 20}) {
    expect_gradients({y}, {{n, times(i)}, {a, vector({0.8, 1.1})}, {w, vector({1.3, 0.9})}});
  }
}

TEST_F(V1LoopGradients, TheLoopsWidthIsKept) {
  Output n = count();
  Output a = x();
  Output y = repeat(n, {a}, [&](const Turn&, const Values& v) { return Values{sin(v[0])}; })[0];
  const int first = graph_.id_limit();
  gradients({y}, {a});
  int enters = 0;
  for (int id = first; id < graph_.id_limit(); ++id) {
    const Node* node = graph_.node_by_id(id);
    if (node->op_name() != "Enter") continue;
    ++enters;
    EXPECT_EQ(node->attr<std::int64_t>("parallel_iterations"), 7);
  }
  EXPECT_GE(enters, 4) << "counters and a list, each in both loops, and the gradient";
}

TEST_F(V1LoopGradients, TwoVariablesThatChangePlaces) {
  Output n = count();
  Output a = x();
  Output b = x();
  const Values y = repeat(n, {a, b}, [&](const Turn& t, const Values& v) {
    return Values{v[1], v[0] * v[1] + t.number(0.5)};
  });
  for (std::int32_t i : {0, 1, 2, 5}) {
    const std::vector<std::pair<Output, Tensor>> feeds = {{n, times(i)}, {a, number(0.8)}, {b, number(0.7)}};
    expect_gradients({y[0]}, feeds);
    expect_gradients({y[1]}, feeds);
    expect_gradients({y[0], y[1] * y[1]}, feeds);
  }
}

TEST_F(V1LoopGradients, AVariableThatIsOnlyAddedTo) {
  Output n = count();
  Output a = x({3});
  const Values y = repeat(n, {a, reduce_sum(a)}, [&](const Turn& t, const Values& v) {
    return Values{v[0] * t.number(1.5), v[1] + t.made([&] { return reduce_sum(v[0] * v[0]); })};
  });
  for (std::int32_t i : {0, 3}) expect_gradients({y[1]}, {{n, times(i)}, {a, vector({0.8, -0.2, 0.5})}});
}

TEST_F(V1LoopGradients, ShapesThatAreNotKnown) {
  Output n = count();
  Output a = x({-1});
  Output w = placeholder(graph_, DType::kDouble, PartialShape());
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) {
    return Values{v[0] * t.take(w) + t.made([&] { return reduce_mean(v[0]); })};
  })[0];
  expect_gradients({y}, {{n, times(3)}, {a, vector({0.8, 1.1, -0.5})}, {w, number(0.7)}});
}

TEST_F(V1LoopGradients, ALoopInALoop) {
  Output n = count();
  Output m = count();
  Output a = x();
  Output w = x();
  Output y = repeat(n, {a}, [&](const Turn& outer, const Values& v) {
    Output w1 = outer.take(w);
    Output h = repeat(outer.take(m), {v[0]}, [&](const Turn& inner, const Values& u) {
      return Values{sin(u[0] * inner.take(w1)) + inner.take(v[0])};
    })[0];
    return Values{h * v[0] * outer.number(0.5)};
  })[0];
  for (std::int32_t i : {0, 1, 3}) {
    for (std::int32_t k : {0, 1, 4}) {
      expect_gradients({y}, {{n, times(i)}, {m, times(k)}, {a, number(0.8)}, {w, number(1.1)}});
    }
  }
}

// In each iteration of the outer loop the inner one runs another number of times.
TEST_F(V1LoopGradients, ThreeLoopsInOneAnother) {
  Output n = count();
  Output a = x();
  Output y = v1_while(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), a},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output h = repeat(v[0], {v[1]}, [&](const Turn& t1, const Values& u) {
          Output times2 = t1.number(Tensor::scalar(std::int32_t{2}));
          Output g = repeat(times2, {u[0]}, [&](const Turn&, const Values& s) { return Values{sin(s[0])}; })[0];
          return Values{g + u[0]};
        })[0];
        return Values{v[0] + t.number(Tensor::scalar(std::int32_t{1})), h * t.number(1.2)};
      })[1];
  for (std::int32_t i : {0, 1, 4}) expect_gradients({y}, {{n, times(i)}, {a, number(0.8)}});
}

TEST_F(V1LoopGradients, AConditionalInALoop) {
  Output n = count();
  Output a = x();
  Output w = x();
  const Values y = v1_while(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), a},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output one = t.number(Tensor::scalar(std::int32_t{1}));
        Output odd = op1("Equal", {op1("FloorMod", {v[0], one + one}), one});
        Output w1 = t.take(w);
        Output h = v1_cond(
            odd, [&](const Side& s) { return Values{s.take(v[1]) * s.take(w1)}; },
            [&](const Side& s) { return Values{sin(s.take(v[1])) + s.number(0.1)}; })[0];
        return Values{v[0] + one, h * h};
      });
  for (std::int32_t i : {0, 1, 2, 5}) expect_gradients({y[1]}, {{n, times(i)}, {a, number(0.8)}, {w, number(1.3)}});
}

TEST_F(V1LoopGradients, NestedConditionalsInALoop) {
  Output n = count();
  Output a = x({-1});
  Output w = x({-1});
  const Values y = v1_while(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), a},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output one = t.number(Tensor::scalar(std::int32_t{1}));
        Output three = one + one + one;
        Output rest = op1("FloorMod", {v[0], three});
        Output w1 = t.take(w);
        Output h = v1_cond(
            op1("Equal", {rest, one}), [&](const Side& s) { return Values{s.take(v[1]) * s.take(w1)}; },
            [&](const Side& s) {
              Output inner = s.take(v[1]);
              Output w2 = s.take(w1);
              return v1_cond(
                  greater(s.take(rest), s.take(one)),
                  [&](const Side& u) { return Values{sin(u.take(inner)) * u.take(w2) * u.take(w2)}; },
                  [&](const Side& u) { return Values{u.take(inner) * u.number(0.9)}; });
            })[0];
        return Values{v[0] + one, h};
      });
  for (std::int32_t i : {0, 1, 2, 3, 7}) {
    expect_gradients({y[1]}, {{n, times(i)}, {a, vector({0.8, 0.4})}, {w, vector({1.3, 0.7})}});
  }
}

TEST_F(V1LoopGradients, ALoopInAConditional) {
  Output p = flag();
  Output n = count();
  Output a = x();
  Output w = x();
  Output y = v1_cond(
      p,
      [&](const Side& s) {
        Output w1 = s.take(w);
        return repeat(identity(s.take(n)), {s.take(a)},
                      [&](const Turn& t, const Values& v) { return Values{sin(v[0] * t.take(w1))}; });
      },
      [&](const Side& s) { return Values{s.take(a) * s.number(2)}; })[0];
  for (bool taken : {true, false}) {
    for (std::int32_t i : {0, 3}) {
      expect_gradients({y * y}, {{p, truth(taken)}, {n, times(i)}, {a, number(0.8)}, {w, number(1.3)}});
    }
  }
}

TEST_F(V1LoopGradients, ALoopInAConditionalInALoop) {
  Output n = count();
  Output a = x();
  Output w = x();
  const Values y = v1_while(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), a},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output one = t.number(Tensor::scalar(std::int32_t{1}));
        Output odd = op1("Equal", {op1("FloorMod", {v[0], one + one}), one});
        Output w1 = t.take(w);
        Output h = v1_cond(
            odd,
            [&](const Side& s) {
              Output w2 = s.take(w1);
              return repeat(identity(s.take(v[0])), {s.take(v[1])},
                            [&](const Turn& u, const Values& r) { return Values{sin(r[0] * u.take(w2))}; });
            },
            [&](const Side& s) { return Values{s.take(v[1]) + s.number(0.1)}; })[0];
        return Values{v[0] + one, h * h + h};
      });
  for (std::int32_t i : {0, 1, 2, 4}) expect_gradients({y[1]}, {{n, times(i)}, {a, number(0.3)}, {w, number(1.3)}});
}

TEST_F(V1LoopGradients, SecondDerivativeOfALoop) {
  Output n = count();
  Output a = x();
  Output w = x();
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) { return Values{sin(v[0] * t.take(w))}; })[0];
  const std::vector<Gradient> slopes = gradients({y}, {a, w});
  for (std::int32_t i : {0, 1, 4}) {
    const std::vector<std::pair<Output, Tensor>> feeds = {{n, times(i)}, {a, number(0.8)}, {w, number(1.3)}};
    expect_gradients({slopes[0].dense()}, feeds);
    expect_gradients({slopes[0].dense(), slopes[1].dense() * slopes[1].dense()}, feeds);
  }
}

TEST_F(V1LoopGradients, RowsOfATableThatStaysTheSame) {
  Output n = count();
  Output table = x({4, 2});
  Output a = x({2});
  const Values y = v1_while(
      {constant(graph_, Tensor::scalar(std::int32_t{0})), a},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output one = t.number(Tensor::scalar(std::int32_t{1}));
        Output axis = t.number(Tensor::scalar(std::int32_t{0}));
        Output row = op1("GatherV2", {t.take(table), op1("FloorMod", {v[0], one + one + one}), axis});
        return Values{v[0] + one, sin(v[1] * row)};
      });
  Tensor rows = vector({0.1, 0.9, 1.2, 0.3, 0.4, 1.4, 0.6, 0.7}).reshaped(Shape{4, 2});
  for (std::int32_t i : {0, 4}) expect_gradients({y[1]}, {{n, times(i)}, {table, rows}, {a, vector({0.5, 0.9})}});
}

// A loop of the other kind inside: its gradient changes the forward loop.
TEST_F(V1LoopGradients, FunctionsInALoop) {
  Output n = count();
  Output a = x();
  Output w = x();
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) {
    Output limit = t.number(Tensor::scalar(std::int32_t{3}));
    Output start = t.number(Tensor::scalar(std::int32_t{0}));
    Output h = while_loop(
        {start, limit, v[0], t.take(w)}, [](Graph&, const Values& u) { return Values{less(u[0], u[1])}; },
        [](Graph& g, const Values& u) {
          return Values{u[0] + constant(g, Tensor::scalar(std::int32_t{1})), u[1], sin(u[2] * u[3]), u[3]};
        })[2];
    return Values{h + v[0]};
  })[0];
  for (std::int32_t i : {0, 1, 3}) expect_gradients({y}, {{n, times(i)}, {a, number(0.8)}, {w, number(1.3)}});
}

// What gradients() makes in a scope that waits for something must not wait for it inside of loops.
TEST_F(V1LoopGradients, WithControlDependencies) {
  Output n = count();
  Output a = x();
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) { return Values{sin(v[0]) * t.number(3)}; })[0];
  ScopeGuard after = graph_.control_dependencies({y.node});
  expect_gradients({y}, {{n, times(3)}, {a, number(0.8)}});
}

TEST_F(V1LoopGradients, WhatStopsGradients) {
  Output n = count();
  Output a = x();
  Output y = repeat(n, {a}, [&](const Turn&, const Values& v) {
    return Values{op1("Cast", {op1("Cast", {v[0]}, {{"DstT", DType::kInt32}})}, {{"DstT", DType::kDouble}})};
  })[0];
  Output b = x();
  EXPECT_FALSE(gradients({y}, {b})[0]);
  Output g = gradients({y}, {a})[0].dense();
  const auto at = [&](std::int32_t i) {
    return run({g}, {{n.name(), times(i)}, {a.name(), number(0.3)}})[0].scalar<double>();
  };
  EXPECT_EQ(at(0), 1);
  EXPECT_EQ(at(2), 0);
  EXPECT_FALSE(gradients({y}, {a}, {.stop_gradients = {y}})[0]);
}

TEST_F(V1LoopGradients, InsideOfALoop) {
  Output n = count();
  Output a = x();
  Output inside;
  Output y = repeat(n, {a}, [&](const Turn&, const Values& v) {
    inside = op1("Sin", {v[0]}, {}, "inside");
    return Values{inside};
  })[0];
  const std::string expected = "gradients: Sin \"inside\" is inside of a v1 loop";
  EXPECT_NE(error_of([&] { gradients({inside}, {a}); }).find(expected), std::string::npos);
  EXPECT_NE(error_of([&] { gradients({y}, {inside}); }).find(expected), std::string::npos);
}

TEST_F(V1LoopGradients, LoopsThatClientsDoNotWrite) {
  Output a = x();
  Output enter = op1("Enter", {a}, {{"frame_name", "f"}}, "e");
  Output leave = op1("Exit", {sin(enter)}, {}, "out");
  EXPECT_NE(
      error_of([&] { gradients({leave}, {a}); }).find("Exit \"out\", in a v1 loop, leaves a loop that has no LoopCond"),
      std::string::npos);

  Output entered = op1("Enter", {a}, {{"frame_name", "g"}}, "e2");
  Output decided = op1("LoopCond", {less(entered, entered)});
  Output out = op1("Exit", {add_op(graph_, "Switch", {entered, decided})->output(0)});
  EXPECT_NE(
      error_of([&] { gradients({out}, {a}); }).find("Enter \"e2\", in a v1 loop, is not constant and not read by"),
      std::string::npos);
}

}  // namespace tutti::v1_test
