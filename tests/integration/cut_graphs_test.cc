// Graphs cut between tasks give what they give in one piece.

#include <gtest/gtest.h>

#include <random>

#include "tests/integration/cut_cluster.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/state.h"
#include "tutti/optim/sgd.h"
#include "tutti/runtime/local_session.h"

namespace tutti::cut_graphs_test {

using testing::CutCluster;

Output enter(Output value, const std::string& frame, bool is_constant = true) {
  return op1("Enter", {value}, {{"frame_name", frame}, {"is_constant", is_constant}});
}

// The variables of a v1 loop, as a client lowers it.
class Loop {
 public:
  Loop(Graph& graph, std::string frame, const std::vector<Output>& initial) : graph_(graph), frame_(std::move(frame)) {
    for (Output value : initial) {
      merges_.push_back(graph_
                            .add_exact({.op = "Merge",
                                        .name = graph_.unique_name(frame_ + "/Merge"),
                                        .inputs = {enter(value, frame_, false), Output()},
                                        .attrs = {{"T", value.dtype()}, {"N", 2}}})
                            .value_or_throw());
    }
  }
  Output merged(int i) const { return merges_[i]->output(); }
  Output constant(Output value) const { return enter(value, frame_); }
  void set_condition(Output condition) {
    condition_ = op1("LoopCond", {condition});
    for (Node* merge : merges_) switches_.push_back(add_op(graph_, "Switch", {merge->output(), condition_}));
  }
  Output value(int i) const { return switches_[i]->output(1); }
  Output condition() const { return condition_; }
  void set_next(int i, Output value) {
    throw_if_error(graph_.set_input(*merges_[i], 1, op1("NextIteration", {value})));
  }
  Output exit(int i) const { return op1("Exit", {switches_[i]->output(0)}); }

 private:
  Graph& graph_;
  std::string frame_;
  std::vector<Node*> merges_;
  std::vector<Node*> switches_;
  Output condition_;
};

class CutGraphsTest : public ::testing::Test {
 protected:
  Output scalar(float value) { return constant(graph_, Tensor::scalar(value)); }
  ScopeGuard on(const char* job) { return graph_.device_scope(str_cat("/job:", job, "/task:0")); }
  std::vector<Tensor> cut(const Feeds& feeds, const std::vector<Output>& fetches,
                          const std::vector<Node*>& targets = {}) {
    return cluster_.run(graph_, feeds, fetches, targets).value_or_throw();
  }
  float cut_scalar(Output fetch, const Feeds& feeds = {}) { return cut(feeds, {fetch})[0].scalar<float>(); }
  int crossings(std::string_view tensor) const {
    int count = 0;
    for (const Crossing& crossing : cluster_.parts().crossings) count += crossing.tensor == tensor ? 1 : 0;
    return count;
  }

  Graph graph_{builtin_ops()};
  CutCluster cluster_{{"ps", "worker"}};
};

TEST_F(CutGraphsTest, FeedsAndFetchesPassThroughTheClientsDevice) {
  Output x;
  Output y;
  {
    ScopeGuard scope = on("worker");
    x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
    y = x * x + scalar(1);
  }
  EXPECT_EQ(cut_scalar(y, {{x, Tensor::scalar(3.0f)}}), 10.0f);
  const Partitioning& parts = cluster_.parts();
  ASSERT_EQ(parts.parts.size(), 2u);
  EXPECT_EQ(parts.parts[0].feeds.size(), 1u);
  EXPECT_EQ(parts.parts[0].fetches.size(), 1u);
  EXPECT_TRUE(parts.parts[1].feeds.empty());
  EXPECT_EQ(crossings("x:0"), 1) << "one pair for both readers";
  // A fed tensor may be fetched, also twice.
  std::vector<Tensor> both = cut({{y, Tensor::scalar(5.0f)}, {x, Tensor::scalar(7.0f)}}, {y, x, y});
  EXPECT_EQ(both[0].scalar<float>(), 5.0f);
  EXPECT_EQ(both[1].scalar<float>(), 7.0f);
  EXPECT_EQ(both[2].scalar<float>(), 5.0f);
}

TEST_F(CutGraphsTest, VariablesOnOneTaskTrainFromAnother) {
  Graph uncut(builtin_ops());
  auto build = [](Graph& graph, bool cut_up) {
    Output x = placeholder(graph, DType::kFloat, {kUnknownDim, 2}, "x");
    Output y = placeholder(graph, DType::kFloat, {kUnknownDim, 1}, "y");
    auto make = [&](Tensor initial, const std::string& name) {
      ScopeGuard scope = graph.device_scope(cut_up ? "/job:ps/task:0" : "");
      return variable(graph, std::move(initial), name);
    };
    std::vector<Var> vars{make(Tensor::of<float>({2, 3}, {1, 2, 3, -1, -2, 1}), "w1"),
                          make(Tensor::of<float>({3}, {0.5f, 0, -0.5f}), "b1"),
                          make(Tensor::of<float>({3, 1}, {1, -1, 2}), "w2")};
    ScopeGuard scope = graph.device_scope(cut_up ? "/job:worker/task:0" : "");
    Output hidden = tanh(matmul(x, vars[0]) + vars[1]);
    Output loss = reduce_mean(square(matmul(hidden, vars[2]) - y));
    return std::make_tuple(vars, loss, SGD(0.1).minimize(loss, vars));
  };
  auto [whole, whole_loss, whole_train] = build(uncut, false);
  auto [vars, loss, train] = build(graph_, true);
  const Feeds feeds{{"x", Tensor::of<float>({3, 2}, {1, 0, 0, 1, 1, 1})},
                    {"y", Tensor::of<float>({3, 1}, {2, -3, -1})}};
  LocalSession session(uncut);
  for (const Var& v : whole) session.run({v.initializer()});
  for (const Var& v : vars) (void)cut({}, {}, {v.initializer()});
  for (int step = 0; step < 5; ++step) {
    const float expected = session.run(feeds, {whole_loss}, {whole_train})[0].scalar<float>();
    EXPECT_EQ(cut(feeds, {loss}, {train})[0].scalar<float>(), expected) << step;
  }
  for (std::size_t i = 0; i < vars.size(); ++i) {
    const Tensor expected = session.run({}, {whole[i].read()})[0];
    const Tensor got = cut({}, {vars[i].read()})[0];
    EXPECT_EQ(got.to_string(), expected.to_string());
  }
}

TEST_F(CutGraphsTest, ReferenceVariablesAreReadWhereTheyAre) {
  Node* v = nullptr;
  Node* assign = nullptr;
  {
    ScopeGuard scope = on("ps");
    v = add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kFloat}}, "v");
    assign = add_op(graph_, "Assign", {v->output(), scalar(5)});
  }
  ScopeGuard scope = on("worker");
  ScopeGuard after = graph_.control_dependencies({assign});
  Output read = neg(v->output());
  EXPECT_EQ(cut_scalar(read), -5.0f) << "read after the assignment that its reader waits for";
}

TEST_F(CutGraphsTest, ReferencesAndHandlesDoNotLeaveTheirTask) {
  Node* v = add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kFloat}}, "v");
  Node* assign = add_op(graph_, "Assign", {v->output(), scalar(5)}, {}, "assign");
  FunctionBody body = extract_subgraph(graph_, {.targets = {"assign"}}).value_or_throw();
  for (Node* node : body.graph->nodes()) {
    body.graph->set_assigned_device(*node, cluster_.device(node->name() == "v" ? 0 : 1));
  }
  const PartitionOptions options{.part_of = [](const std::string& device) { return device; },
                                 .incarnation_of = [](const std::string&) { return 1; },
                                 .client_device = cluster_.device(0)};
  Status status = partition(body, options).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("Assign \"assign\""), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("VariableV2 \"v\""), std::string::npos) << status.message();
  body.graph->set_assigned_device(*body.graph->find("assign"), "");
  status = partition(body, options).status();
  EXPECT_NE(status.message().find("was not placed"), std::string::npos) << status.message();
  (void)assign;
}

TEST_F(CutGraphsTest, ListsCross) {
  const AttrMap floats{{"element_dtype", DType::kFloat}};
  Output list;
  {
    const auto there = on("worker");
    list = op1("TensorListFromTensor",
               {constant(graph_, Tensor::of<float>({2, 1}, {3, 4})), constant(graph_, Tensor::scalar(-1))}, floats);
  }
  const auto here = on("ps");
  const Output stacked = op1("TensorListStack", {list, constant(graph_, Tensor::vector<std::int32_t>({1}))}, floats);
  EXPECT_TRUE(bitwise_equal(cut({}, {stacked})[0], Tensor::of<float>({2, 1}, {3, 4})));
  EXPECT_EQ(crossings(list.name()), 1);
}

TEST_F(CutGraphsTest, ControlEdgesCross) {
  Var counter = [&] {
    ScopeGuard scope = on("ps");
    return variable(graph_, Tensor::scalar(0.0f), "counter");
  }();
  Output elsewhere = [&] {
    ScopeGuard scope = on("worker");
    return neg(scalar(1));
  }();
  Node* add = nullptr;
  {
    ScopeGuard scope = on("ps");
    ScopeGuard after = graph_.control_dependencies({elsewhere.node});
    add = counter.assign_add(scalar(2));
  }
  Output then = [&] {
    ScopeGuard scope = on("worker");
    ScopeGuard after = graph_.control_dependencies({add});
    return identity(scalar(1)) + identity(scalar(2));
  }();
  Output read = [&] {
    ScopeGuard scope = on("ps");
    ScopeGuard after = graph_.control_dependencies({then.node});
    return counter.read_again();
  }();
  (void)cut({}, {}, {counter.initializer()});
  EXPECT_EQ(cut_scalar(read), 2.0f);
  EXPECT_EQ(cut_scalar(read), 4.0f);
  EXPECT_EQ(crossings(str_cat("^", add->name())), 1) << "one pair for all that wait";
}

TEST_F(CutGraphsTest, UntakenBranchesCross) {
  Output take = placeholder(graph_, DType::kBool, PartialShape::scalar(), "take");
  Node* branch = add_op(graph_, "Switch", {scalar(3), take});
  Output when_true;
  Output when_false;
  {
    ScopeGuard scope = on("worker");
    when_true = branch->output(1) * branch->output(1);
    when_false = neg(branch->output(0));
  }
  Node* merge = add_op(graph_, "Merge", {when_false, when_true});
  Node* effect = nullptr;
  {
    ScopeGuard scope = on("ps");
    ScopeGuard after = graph_.control_dependencies({when_true.node});
    effect = add_op(graph_, "NoOp", {});
  }
  EXPECT_EQ(cut({{take, Tensor::scalar(true)}}, {merge->output(0)}, {effect})[0].scalar<float>(), 9.0f);
  EXPECT_EQ(cut({{take, Tensor::scalar(false)}}, {merge->output(0)}, {effect})[0].scalar<float>(), -3.0f);
  auto dead = cluster_.run(graph_, {{take, Tensor::scalar(false)}}, {when_true});
  EXPECT_EQ(dead.status().code(), Code::kInvalidArgument);
}

TEST_F(CutGraphsTest, ALoopsBodyMayBeOnAnotherTask) {
  Output two = scalar(2);
  graph_.set_requested_device(*two.node, cluster_.device(0));
  Output step = scalar(1);
  Loop loop(graph_, "loop", {scalar(0), scalar(1)});
  loop.set_condition(less(loop.merged(0), loop.constant(scalar(10))));
  loop.set_next(0, loop.value(0) + loop.constant(step));
  Output weight;
  {
    ScopeGuard scope = on("worker");
    weight = loop.constant(two);
    Output bonus = loop.value(0) * weight;
    loop.set_next(1, loop.value(1) + bonus);
  }
  float expected = 1;
  for (int i = 0; i < 10; ++i) expected += 2.0f * static_cast<float>(i);
  EXPECT_EQ(cut_scalar(loop.exit(1)), expected);
  EXPECT_EQ(crossings(two.name()), 1) << "what enters a loop crosses once, not in every iteration";
  EXPECT_EQ(crossings(loop.condition().name()), 1);
}

TEST_F(CutGraphsTest, TheConditionMayBeOnAnotherTask) {
  Loop loop(graph_, "loop", {scalar(0)});
  {
    ScopeGuard scope = on("worker");
    loop.set_condition(less(loop.merged(0), loop.constant(scalar(7))));
  }
  loop.set_next(0, loop.value(0) + loop.constant(scalar(2)));
  EXPECT_EQ(cut_scalar(loop.exit(0)), 8.0f);
}

TEST_F(CutGraphsTest, APartMayDependOnNothingThatGoesRound) {
  // The worker squares a constant of the loop in every iteration.
  Loop loop(graph_, "loop", {scalar(0)});
  loop.set_condition(less(loop.merged(0), loop.constant(scalar(20))));
  Output squared;
  {
    ScopeGuard scope = on("worker");
    Output c = loop.constant(scalar(3));
    squared = c * c;
  }
  loop.set_next(0, loop.value(0) + squared);
  EXPECT_EQ(cut_scalar(loop.exit(0)), 27.0f);
}

TEST_F(CutGraphsTest, LoopsThatRunNoIterationOrAreNotEntered) {
  Output take = placeholder(graph_, DType::kBool, PartialShape::scalar(), "take");
  Output start = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "start");
  Node* branch = add_op(graph_, "Switch", {start, take});
  Loop loop(graph_, "loop", {branch->output(1)});
  loop.set_condition(less(loop.merged(0), loop.constant(scalar(100))));
  {
    ScopeGuard scope = on("worker");
    loop.set_next(0, loop.value(0) + loop.value(0));
  }
  Node* merge = add_op(graph_, "Merge", {branch->output(0), loop.exit(0)});
  auto run = [&](bool taken, float from) {
    return cut_scalar(merge->output(0), {{take, Tensor::scalar(taken)}, {start, Tensor::scalar(from)}});
  };
  EXPECT_EQ(run(true, 1), 128.0f);
  EXPECT_EQ(run(true, 500), 500.0f);
  EXPECT_EQ(run(false, 1), 1.0f);
}

TEST_F(CutGraphsTest, LoopsNestAcrossTasks) {
  for (const char* inner_body : {"ps", "worker"}) {
    for (const char* inner_condition : {"ps", "worker"}) {
      for (const char* outer_body : {"ps", "worker"}) {
        SCOPED_TRACE(str_cat(inner_body, " ", inner_condition, " ", outer_body));
        const std::string id = graph_.unique_name("nest");
        Loop outer(graph_, id + "outer", {scalar(0)});
        outer.set_condition(less(outer.merged(0), outer.constant(scalar(100))));
        Output x = outer.value(0);
        Output limit;
        {
          ScopeGuard scope = on(outer_body);
          limit = x + outer.constant(scalar(10));
        }
        Loop inner(graph_, id + "inner", {x});
        {
          ScopeGuard scope = on(inner_condition);
          inner.set_condition(less(inner.merged(0), inner.constant(limit)));
        }
        {
          ScopeGuard scope = on(inner_body);
          inner.set_next(0, inner.value(0) + inner.constant(outer.constant(scalar(3))));
        }
        {
          ScopeGuard scope = on(outer_body);
          outer.set_next(0, neg(neg(inner.exit(0))));
        }
        EXPECT_EQ(cut_scalar(outer.exit(0)), 108.0f);
      }
    }
  }
}

TEST_F(CutGraphsTest, BranchesInsideLoopsCross) {
  // Collatz from 27, the even branch on one task, the odd one on the other.
  Output half_c = scalar(0.5f);
  Loop loop(graph_, "loop", {scalar(27)});
  loop.set_condition(less(loop.merged(0), loop.constant(scalar(9000))));
  Output x = loop.value(0);
  Output half = loop.constant(half_c);
  Output is_even = equal(floor(x * half) + floor(x * half), x);
  Node* branch = add_op(graph_, "Switch", {x, is_even});
  Output odd;
  {
    ScopeGuard scope = on("worker");
    odd = branch->output(0) + branch->output(0) + branch->output(0) + op1("OnesLike", {branch->output(0)});
  }
  Output even = branch->output(1) * half;
  loop.set_next(0, add_op(graph_, "Merge", {odd, even})->output(0));
  float expected = 27;
  while (expected < 9000) {
    expected = static_cast<int>(expected) % 2 == 0 ? expected / 2 : 3 * expected + 1;
  }
  EXPECT_EQ(cut_scalar(loop.exit(0)), expected);
}

TEST_F(CutGraphsTest, TheGradientOfALoopCrosses) {
  // y = x^(2^n) by squaring in a loop; dy/dx by a second loop that pops what the first one pushed.
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  Output depth = constant(graph_, Tensor::scalar(std::int32_t{-1}));
  Output one = scalar(1);
  Output stack;
  {
    ScopeGuard scope = on("worker");
    stack = op1("StackV2", {depth}, {{"elem_type", DType::kFloat}, {"stack_name", "s"}});
  }
  Loop forward(graph_, "forward", {x, scalar(0)});
  forward.set_condition(less(forward.merged(1), forward.constant(scalar(3))));
  Output handle;
  Output pushed;
  {
    ScopeGuard scope = on("worker");
    handle = forward.constant(stack);
    pushed = op1("StackPushV2", {handle, forward.value(0)});
  }
  forward.set_next(0, pushed * pushed);
  Output counted = forward.value(1) + forward.constant(one);
  graph_.add_control_input(*counted.node, *pushed.node);  // so that the count is not ahead of the stack
  forward.set_next(1, counted);
  Output y = forward.exit(0);
  Output count = forward.exit(1);
  Loop backward(graph_, "backward", {count, op1("OnesLike", {y})});
  backward.set_condition(less(backward.constant(scalar(0)), backward.merged(0)));
  Output popped;
  {
    ScopeGuard scope = on("worker");
    Output back_handle = backward.constant(stack);
    ScopeGuard after = graph_.control_dependencies({identity(backward.value(0)).node});
    popped = op1("StackPopV2", {back_handle}, {{"elem_type", DType::kFloat}});
  }
  backward.set_next(0, backward.value(0) - backward.constant(one));
  backward.set_next(1, backward.value(1) * popped * backward.constant(scalar(2)));
  Output grad = backward.exit(1);
  std::vector<Tensor> out = cut({{x, Tensor::scalar(1.5f)}}, {y, grad});
  EXPECT_FLOAT_EQ(out[0].scalar<float>(), std::pow(1.5f, 8.0f));
  EXPECT_FLOAT_EQ(out[1].scalar<float>(), 8 * std::pow(1.5f, 7.0f));
}

TEST_F(CutGraphsTest, ALoopWithoutAConditionCannotBeCut) {
  Output entered = enter(scalar(1), "loop");
  Output there = [&] {
    ScopeGuard scope = on("worker");
    return neg(entered);
  }();
  Output end = op1("Exit", {there + neg(entered)});
  auto result = cluster_.run(graph_, {}, {end});
  EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
  EXPECT_NE(result.status().message().find("\"loop\" is cut between tasks but has no LoopCond"), std::string::npos)
      << result.status().message();
}

TEST_F(CutGraphsTest, PartsCarryTheFunctionsTheyReach) {
  auto twice = [](Graph&, const std::vector<Output>& args) { return std::vector<Output>{args[0] + args[0]}; };
  define_function(graph_, "twice", {DType::kFloat}, twice);
  define_function(graph_, "four_times", {DType::kFloat}, [](Graph& body, const std::vector<Output>& args) {
    return call(body, "twice", call(body, "twice", {args[0]}));
  });
  Output x = scalar(3);
  Output y = [&] {
    ScopeGuard scope = on("worker");
    return call(graph_, "four_times", {x})[0];
  }();
  EXPECT_EQ(cut_scalar(neg(y)), -12.0f);
  const Partitioning& parts = cluster_.parts();
  ASSERT_EQ(parts.parts.size(), 2u);
  EXPECT_TRUE(parts.parts[0].graph->library().names().empty());
  EXPECT_EQ(parts.parts[1].graph->library().names().size(), 2u);
}

TEST_F(CutGraphsTest, ALongChainAlternatesBetweenTasks) {
  constexpr int kNodes = 10'000;
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  Output y = x;
  for (int i = 0; i < kNodes; ++i) {
    y = neg(y);
    graph_.set_requested_device(*y.node, cluster_.device(i % 2));
  }
  EXPECT_EQ(cut_scalar(y, {{x, Tensor::scalar(2.0f)}}), 2.0f);
  EXPECT_GE(cluster_.parts().crossings.size(), static_cast<std::size_t>(kNodes - 1));
}

// Graphs drawn from a seed: arithmetic, branches, loops in loops, control edges.
class DrawnGraph {
 public:
  DrawnGraph(Graph& graph, int seed) : graph_(graph), draw_(seed) {
    x_ = placeholder(graph, DType::kFloat, PartialShape::scalar(), "x");
    std::vector<Output> values{x_, constant(graph, Tensor::scalar(0.5f))};
    extend(values, 12, 2);
    result_ = values.back();
    for (const Output& value : values) result_ = result_ + tanh(value);
  }

  Output x() const { return x_; }
  Output result() const { return result_; }
  void spread(const CutCluster& cluster, std::size_t tasks) {
    for (Node* node : graph_.nodes()) graph_.set_requested_device(*node, cluster.device(draw_() % tasks));
  }

 private:
  Output pick(const std::vector<Output>& values) { return values[draw_() % values.size()]; }

  // Adds values made from those that are there, all in the same place of the same loop.
  void extend(std::vector<Output>& values, int count, int depth) {
    for (int i = 0; i < count; ++i) {
      switch (draw_() % (depth > 0 ? 6 : 3)) {
        case 0:
          values.push_back(tanh(pick(values) + pick(values)));
          break;
        case 1:
          values.push_back(sin(pick(values) * pick(values)));
          break;
        case 2: {
          Output value = neg(pick(values));
          Node* before = pick(values).node;
          if (before->op_name() != "Switch") graph_.add_control_input(*value.node, *before);
          values.push_back(value);
          break;
        }
        case 3:
        case 4:
          values.push_back(branch(values, depth - 1));
          break;
        default:
          values.push_back(loop(values, depth - 1));
          break;
      }
    }
  }

  Output branch(const std::vector<Output>& values, int depth) {
    Output pred = less(pick(values), pick(values));
    std::vector<Output> sides[2];
    for (int i = 0; i < 2; ++i) {
      Node* from = add_op(graph_, "Switch", {pick(values), pred});
      Node* other = add_op(graph_, "Switch", {pick(values), pred});
      for (int side = 0; side < 2; ++side) {
        sides[side].push_back(from->output(side));
        sides[side].push_back(other->output(side));
      }
    }
    for (auto& side : sides) {
      extend(side, 2, depth);
      side.push_back(neg(side.back()));
    }
    return add_op(graph_, "Merge", {sides[0].back(), sides[1].back()})->output(0);
  }

  Output loop(const std::vector<Output>& values, int depth) {
    Output start = pick(values);
    Output zero = start - start;
    Output limit =
        zero + cast(floor(abs(tanh(pick(values))) * (op1("OnesLike", {start}) * scale(start, 4))), start.dtype());
    Loop loop(graph_, graph_.unique_name("frame"), {zero, start});
    loop.set_condition(less(loop.merged(0), loop.constant(limit)));
    loop.set_next(0, loop.value(0) + op1("OnesLike", {loop.value(0)}));
    std::vector<Output> inside{loop.value(1), loop.value(0), loop.constant(pick(values))};
    extend(inside, 3, depth);
    loop.set_next(1, tanh(inside.back() + loop.value(1)));
    return loop.exit(draw_() % 2);
  }

  // `factor` in the place of `like`.
  Output scale(Output like, int factor) {
    Output one = op1("OnesLike", {like});
    Output sum = one;
    for (int i = 1; i < factor; ++i) sum = sum + one;
    return sum;
  }

  Graph& graph_;
  std::mt19937 draw_;
  Output x_;
  Output result_;
};

TEST(CutDrawnGraphsTest, GiveWhatTheyGiveInOnePiece) {
  int crossings = 0;
  for (int seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    Graph graph(builtin_ops());
    DrawnGraph drawn(graph, seed);
    const Feeds feeds{{drawn.x(), Tensor::scalar(0.1f * static_cast<float>(seed % 17) - 0.7f)}};
    auto whole =
        LocalSession(graph).try_run(feeds, {drawn.result()}, {}, {.timeout = std::chrono::milliseconds(60'000)});
    ASSERT_TRUE(whole.ok()) << whole.status().to_string();
    const float expected = (*whole)[0].scalar<float>();
    CutCluster cluster({"a", "b", "c"});
    for (int spread = 0; spread < 2; ++spread) {
      drawn.spread(cluster, 3);
      auto got = cluster.run(graph, feeds, {drawn.result()});
      ASSERT_TRUE(got.ok()) << got.status().to_string();
      EXPECT_EQ((*got)[0].scalar<float>(), expected);
      crossings += static_cast<int>(cluster.parts().crossings.size());
    }
  }
  EXPECT_GT(crossings, 1000);
}

}  // namespace tutti::cut_graphs_test
