// Gradients through v1 loops, and conditionals in them.
#include <cmath>

#include "tests/graph/v1_control_flow.h"
#include "tutti/graph/gradients.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"

namespace tutti::v1_test {

using V1LoopGradients = V1GradientsTest;

// `value` after `n` turns of `body_fn`, which sees whether the turn's number is odd, and that number.
static Output in_turns(Output n, Output value,
                       const std::function<Output(const Turn&, Output odd, Output i, Output value)>& body_fn) {
  return v1_while(
      {constant(n.graph(), Tensor::scalar(std::int32_t{0})), value},
      [&](const Turn& t, const Values& v) { return less(v[0], t.take(n)); },
      [&](const Turn& t, const Values& v) {
        Output one = t.number(Tensor::scalar(std::int32_t{1}));
        Output odd = op1("Equal", {op1("FloorMod", {v[0], one + one}), one});
        return Values{v[0] + one, body_fn(t, odd, v[0], v[1])};
      })[1];
}

// Something that has no gradient, and is not where gradients end either.
static Output without_gradient(Output value) { return op1("IgammaGradA", {value, value}); }

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
  EXPECT_EQ(enters, 5) << "counters and a list, each in both loops, and the gradient";
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

// What is asked for is many iterations away from what comes in.
TEST_F(V1LoopGradients, AChainOfVariables) {
  constexpr int kVariables = 40;
  Output n = count();
  Output first = x();
  Output near_last = x();
  Output w = x();
  Values initial(kVariables, constant(graph_, number(1)));
  initial.front() = first;
  initial[kVariables - 4] = near_last;
  Output y = repeat(n, initial, [&](const Turn& t, const Values& v) {
               const Output factor = t.take(w);
               Values next = {v[0]};
               for (int i = 1; i < kVariables; ++i) next.push_back(v[i - 1] * factor);
               return next;
             }).back();
  for (std::int32_t i : {3, kVariables - 1}) {
    expect_gradients({y}, {{n, times(i)}, {first, number(0.8)}, {near_last, number(0.7)}, {w, number(0.97)}});
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
  Output y = in_turns(n, a, [&](const Turn& t, Output odd, Output, Output v) {
    Output w1 = t.take(w);
    Output h = v1_cond(
        odd, [&](const Side& s) { return Values{s.take(v) * s.take(w1)}; },
        [&](const Side& s) { return Values{sin(s.take(v)) + s.number(0.1)}; })[0];
    return h * h;
  });
  for (std::int32_t i : {0, 1, 2, 5}) expect_gradients({y}, {{n, times(i)}, {a, number(0.8)}, {w, number(1.3)}});
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
  Output y = in_turns(n, a, [&](const Turn& t, Output odd, Output turn, Output v) {
    Output w1 = t.take(w);
    Output h = v1_cond(
        odd,
        [&](const Side& s) {
          Output w2 = s.take(w1);
          return repeat(identity(s.take(turn)), {s.take(v)},
                        [&](const Turn& u, const Values& r) { return Values{sin(r[0] * u.take(w2))}; });
        },
        [&](const Side& s) { return Values{s.take(v) + s.number(0.1)}; })[0];
    return h * h + h;
  });
  for (std::int32_t i : {0, 1, 2, 4}) expect_gradients({y}, {{n, times(i)}, {a, number(0.3)}, {w, number(1.3)}});
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

// Open Merges, and a functional loop that reads nodes of the gradients, would make the graph useless.
TEST_F(V1LoopGradients, AnErrorLeavesTheGraphAsItWas) {
  Output n = count();
  Output a = x();
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) {
    Output limit = t.number(Tensor::scalar(std::int32_t{2}));
    Output start = t.number(Tensor::scalar(std::int32_t{0}));
    Output dark = without_gradient(v[0]);
    return Values{while_loop(
        {start, limit, dark}, [](Graph&, const Values& u) { return Values{less(u[0], u[1])}; },
        [](Graph& g, const Values& u) {
          return Values{u[0] + constant(g, Tensor::scalar(std::int32_t{1})), u[1], sin(u[2])};
        })[2]};
  })[0];
  const Feeds at = {{n.name(), times(1)}, {a.name(), number(0.3)}};
  const double value = run({y}, at)[0].scalar<double>();
  const std::string before = graph_def_text(graph_);
  const int num_nodes = graph_.num_nodes();
  EXPECT_NE(error_of([&] { gradients({y}, {a}); }).find("no gradient registered for op IgammaGradA"),
            std::string::npos);
  EXPECT_EQ(graph_.num_nodes(), num_nodes);
  Graph copy(builtin_ops());
  throw_if_error(import_graph_def(export_graph_def(graph_), copy));
  EXPECT_EQ(graph_def_text(graph_).substr(0, before.find("library")), before.substr(0, before.find("library")));
  EXPECT_EQ(run({y}, at)[0].scalar<double>(), value);
}

TEST_F(V1LoopGradients, AnInvariantThatNobodyAsksFor) {
  Output n = count();
  Output a = x();
  Output w = x();
  Output y = repeat(n, {a},
                    [&](const Turn& t, const Values& v) { return Values{sin(v[0]) * without_gradient(t.take(w))}; })[0];
  Output g = gradients({y}, {a})[0].dense();
  const Feeds at = {{n.name(), times(1)}, {a.name(), number(0.3)}, {w.name(), number(2)}};
  const std::vector<Tensor> got = run({g, without_gradient(w)}, at);
  EXPECT_NEAR(got[0].scalar<double>(), got[1].scalar<double>() * std::cos(0.3), 1e-12);
  EXPECT_NE(error_of([&] { gradients({y}, {w}); }).find("no gradient registered for op IgammaGradA"),
            std::string::npos);
}

// Gradients that go past it need not understand a loop.
TEST_F(V1LoopGradients, LoopsThatAreNotOnTheWay) {
  Output a = x();
  Output enter = op1("Enter", {constant(graph_, number(2))}, {{"frame_name", "f"}});
  Output bare = op1("Exit", {enter});
  Output entered = op1("Enter", {constant(graph_, number(3))}, {{"frame_name", "g"}});
  Output decided = op1("LoopCond", {less(entered, entered)});
  Node* choice = add_op(graph_, "Switch", {entered, decided});
  Output first = op1("Exit", {choice->output(0)});
  Output second = op1("Exit", {choice->output(0)});
  Output y = a * a * bare * first * second;
  Output g = gradients({y}, {a})[0].dense();
  EXPECT_EQ(run({g}, {{a.name(), number(0.5)}})[0].scalar<double>(), 2 * 0.5 * 2 * 3 * 3);
}

TEST_F(V1LoopGradients, WithinAnIteration) {
  Output n = count();
  Output a = x();
  Output w = x();
  Output y = repeat(n, {a}, [&](const Turn& t, const Values& v) {
    Output w1 = t.take(w);
    Output h = sin(v[0] * w1);
    std::vector<Gradient> g;
    t.made([&] {
      g = gradients({h}, {v[0], w1});
      return h;
    });
    return Values{g[0].dense() + g[1].dense()};
  })[0];
  const Feeds at = {{n.name(), times(1)}, {a.name(), number(0.3)}, {w.name(), number(2)}};
  EXPECT_NEAR(run({y}, at)[0].scalar<double>(), (0.3 + 2) * std::cos(0.6), 1e-12);
}

// The same when the loop is complete already.
TEST_F(V1LoopGradients, WithinAnIterationOfACompleteLoop) {
  Output n = count();
  Output a = x();
  Output before;
  Output after;
  repeat(n, {a}, [&](const Turn&, const Values& v) {
    before = v[0];
    after = sin(before);
    return Values{after};
  });
  ScopeGuard within = graph_.control_dependencies({before.node});
  EXPECT_TRUE(gradients({after}, {before})[0]);
}

TEST_F(V1LoopGradients, AMalformedLoopElsewhere) {
  Output n = count();
  Output a = x();
  Output y = repeat(n, {a}, [&](const Turn&, const Values& v) { return Values{sin(v[0])}; })[0];
  op1("Add", {op1("Enter", {a}, {{"frame_name", "f"}}), op1("Enter", {a}, {{"frame_name", "g"}})});
  expect_gradients({y}, {{n, times(3)}, {a, number(0.8)}});
}

TEST_F(V1LoopGradients, ACustomGradientThatReadsOutsideOfTheLoop) {
  Output n = count();
  Output m = count();
  Output a = x({-1});
  Output scale = x({-1});
  Output y = repeat(n, {a}, [&](const Turn& outer, const Values& v) {
    return repeat(outer.take(m), {v[0]}, [&](const Turn&, const Values& u) { return Values{sin(u[0])}; });
  })[0];
  const GradFn custom = [&](GradContext& context) {
    Output ones = op1("Fill", {op1("Shape", {scale}), constant(graph_, number(1))});
    context.set(0, context.grad() * scale * ones);
  };
  Output g = gradients({y}, {a}, {.overrides = {{"op:Sin", custom}}})[0].dense();
  const Feeds at = {
      {n.name(), times(2)}, {m.name(), times(3)}, {a.name(), vector({0.3, 1})}, {scale.name(), vector({2, 3})}};
  const Tensor got = run({g}, at)[0];
  EXPECT_EQ(got.flat<double>()[0], 64);
  EXPECT_EQ(got.flat<double>()[1], 729);
}

// Shapes are taken in the forward loop, but not by nodes that wait for something in the backward one.
TEST_F(V1LoopGradients, ACustomGradientThatWaitsForAShape) {
  Output n = count();
  Output a = x({-1});
  Output y = repeat(n, {a}, [&](const Turn&, const Values& v) { return Values{sin(v[0])}; })[0];
  const GradFn custom = [&](GradContext& context) {
    Output twice = context.grad() + context.grad();
    ScopeGuard after = graph_.control_dependencies({twice.node});
    Output ones = op1("Fill", {op1("Shape", {context.input(0)}), constant(graph_, number(1))});
    context.set(0, twice * ones);
  };
  Output g = gradients({y}, {a}, {.overrides = {{"op:Sin", custom}}})[0].dense();
  const Tensor got = run({g}, {{n.name(), times(3)}, {a.name(), vector({0.3, 1})}})[0];
  EXPECT_EQ(got.flat<double>()[1], 8);
}

}  // namespace tutti::v1_test
