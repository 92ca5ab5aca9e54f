// Gradients through v1 conditionals.
#include <cmath>

#include "tests/graph/v1_control_flow.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"

namespace tutti::v1_test {

using V1CondGradients = V1GradientsTest;

TEST_F(V1CondGradients, EitherSide) {
  Output p = flag();
  Output a = x();
  Output b = x();
  Output y = v1_cond(
      p, [&](const Side& s) { return Values{sin(s.take(a)) * s.take(b)}; },
      [&](const Side& s) { return Values{exp(s.take(a)) + s.take(b) * s.take(b) * s.number(3)}; })[0];
  for (bool taken : {true, false}) expect_gradients({y * y}, {{p, truth(taken)}, {a, number(0.3)}, {b, number(-1.2)}});
}

TEST_F(V1CondGradients, ASideThatDoesNotUseX) {
  Output p = flag();
  Output a = x({-1});
  Output y = v1_cond(
      p, [&](const Side& s) { return Values{reduce_sum(sin(s.take(a)))}; },
      [&](const Side& s) { return Values{s.number(2)}; })[0];
  for (bool taken : {true, false}) expect_gradients({y}, {{p, truth(taken)}, {a, vector({0.1, 0.2, 3})}});
}

TEST_F(V1CondGradients, NestedConditionals) {
  Output p = flag();
  Output q = flag();
  Output a = x();
  Output y = v1_cond(
      p,
      [&](const Side& s) {
        Output inner = s.take(a);
        Output r = v1_cond(
            s.take(q), [&](const Side& t) { return Values{sin(t.take(inner)) * t.take(inner)}; },
            [&](const Side& t) { return Values{t.number(7)}; })[0];
        return Values{r * inner};
      },
      [&](const Side& s) { return Values{exp(s.take(a))}; })[0];
  Output z = y * y + a;
  for (bool outer : {true, false}) {
    for (bool inner : {true, false}) {
      expect_gradients({z}, {{p, truth(outer)}, {q, truth(inner)}, {a, number(0.7)}});
    }
  }
}

TEST_F(V1CondGradients, TwoResultsOfOneConditional) {
  Output p = flag();
  Output a = x();
  const Values y = v1_cond(
      p,
      [&](const Side& s) {
        return Values{sin(s.take(a)), s.take(a)};
      },
      [&](const Side& s) {
        return Values{s.number(1), exp(s.take(a))};
      });
  for (bool taken : {true, false}) {
    expect_gradients({y[0], y[1] * y[0]}, {{p, truth(taken)}, {a, number(0.4)}});
    expect_gradients({y[1]}, {{p, truth(taken)}, {a, number(0.4)}});
  }
}

// What nobody took has no gradient, and the gradient says so with zeros.
TEST_F(V1CondGradients, AValueInsideOfABranch) {
  Output p = flag();
  Output a = x();
  Output curved;
  Output straight;
  v1_cond(
      p,
      [&](const Side& s) {
        curved = sin(s.take(a));
        straight = s.take(a) + s.number(2);
        return Values{curved * straight};
      },
      [&](const Side& s) { return Values{s.take(a)}; });
  const Values found = {gradients({curved}, {a})[0].dense(), gradients({straight}, {a})[0].dense()};
  const Feeds at = {{p.name(), truth(true)}, {a.name(), number(0.3)}};
  EXPECT_NEAR(run(found, at)[0].scalar<double>(), std::cos(0.3), 1e-12);
  EXPECT_EQ(run(found, at)[1].scalar<double>(), 1);
  for (const Tensor& zero : run(found, {{p.name(), truth(false)}, {a.name(), number(0.3)}})) {
    EXPECT_EQ(zero.scalar<double>(), 0);
  }
}

TEST_F(V1CondGradients, SecondDerivativeOfAConditional) {
  Output p = flag();
  Output a = x();
  Output y = v1_cond(
      p, [&](const Side& s) { return Values{sin(s.take(a)) * s.take(a)}; },
      [&](const Side& s) { return Values{exp(s.take(a) * s.number(2))}; })[0];
  Output slope = gradients({y * y}, {a})[0].dense();
  Output curve = gradients({slope}, {a})[0].dense();
  for (bool taken : {true, false}) {
    expect_gradients({slope}, {{p, truth(taken)}, {a, number(0.3)}});
    expect_gradients({curve}, {{p, truth(taken)}, {a, number(0.3)}});
  }
}

// As what Case is lowered to: one Switch for each input, with conditions of their own.
TEST_F(V1CondGradients, AMergeOfMoreThanTwo) {
  Output k = count();
  Output a = x();
  Values sides;
  for (std::int32_t i = 0; i < 3; ++i) {
    Output mine = op1("Equal", {k, constant(graph_, Tensor::scalar(i))});
    Output value = add_op(graph_, "Switch", {a, mine})->output(1);
    sides.push_back(i == 0 ? sin(value) : i == 1 ? exp(value) : value * value * value);
  }
  Output y = add_op(graph_, "Merge", sides)->output();
  for (std::int32_t i = 0; i < 3; ++i) expect_gradients({y * a}, {{k, times(i)}, {a, number(0.6)}});
}

TEST_F(V1CondGradients, AVariableThatBothSidesRead) {
  Var w = variable(graph_, vector({0.5, 2}), "w");
  Output p = flag();
  Output handle = w.handle();
  const auto read = [](Output h) { return op1("ReadVariableOp", {h}, {{"dtype", DType::kDouble}}); };
  Output y = v1_cond(
      p, [&](const Side& s) { return Values{reduce_sum(sin(read(s.take(handle))))}; },
      [&](const Side& s) { return Values{reduce_sum(read(s.take(handle)) * s.number(3))}; })[0];
  Output g = gradients({y}, {handle})[0].dense();
  LocalSession session(graph_);
  session.run({}, {}, {NodeName(w.initializer()->name())});
  const auto at = [&](bool taken) { return session.run({{p.name(), truth(taken)}}, {TensorName(g.name())})[0]; };
  EXPECT_NEAR(at(true).flat<double>()[1], std::cos(2.0), 1e-12);
  EXPECT_EQ(at(false).flat<double>()[1], 3);
}

TEST_F(V1CondGradients, ABranchThatReadsOutsideOfIt) {
  Output p = flag();
  Output a = x();
  Output y = v1_cond(
      p,
      [&](const Side& s) {
        return Values{op1("Mul", {s.number(2), a}, {}, "direct")};
      },
      [&](const Side& s) { return Values{s.number(1)}; })[0];
  EXPECT_NE(
      error_of([&] { gradients({y}, {a}); }).find("gradients: Mul \"direct\", in a branch of v1 control flow, reads"),
      std::string::npos);
}

TEST_F(V1CondGradients, BesideAMalformedLoop) {
  Output p = flag();
  Output a = x();
  Output y = v1_cond(
      p, [&](const Side& s) { return Values{sin(s.take(a))}; }, [&](const Side& s) { return Values{s.take(a)}; })[0];
  op1("Add", {op1("Enter", {a}, {{"frame_name", "f"}}), a});
  for (bool taken : {true, false}) expect_gradients({y}, {{p, truth(taken)}, {a, number(0.3)}});
}

TEST_F(V1CondGradients, InAFunction) {
  define_function(graph_, "chooses", {DType::kDouble}, [](Graph& g, const Values& args) {
    Output p = constant(g, Tensor::scalar(true));
    return v1_cond(
        p, [&](const Side& s) { return Values{sin(s.take(args[0]))}; },
        [&](const Side& s) { return Values{s.take(args[0])}; });
  });
  Output a = x();
  Output y = call(graph_, "chooses", {a})[0];
  EXPECT_NE(error_of([&] { gradients({y}, {a}); }).find("gradients: function chooses has v1 control flow"),
            std::string::npos);
}

}  // namespace tutti::v1_test
