// Loops and conditionals of v1 control flow, built node by node.

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::frame_executor_test {

Output enter(Output value, const std::string& frame, bool constant = false, int parallel = 10) {
  return op1("Enter", {value}, {{"frame_name", frame}, {"is_constant", constant}, {"parallel_iterations", parallel}});
}

// while (variable < limit) variable = body(variable), as a client lowers it. Gives the exit.
template <typename Body>
Output while_less(Graph& graph, Output initial, Output limit, const std::string& frame, Body body, int parallel = 10) {
  Output entered = enter(initial, frame, false, parallel);
  Output bound = enter(limit, frame, true, parallel);
  Node* merge = graph
                    .add_exact({.op = "Merge",
                                .name = graph.unique_name(frame + "/Merge"),
                                .inputs = {entered, Output()},
                                .attrs = {{"T", initial.dtype()}, {"N", 2}}})
                    .value_or_throw();
  Output condition = op1("LoopCond", {less(merge->output(), bound)});
  Node* branch = add_op(graph, "Switch", {merge->output(), condition});
  Output next = op1("NextIteration", {body(branch->output(1))});
  throw_if_error(graph.set_input(*merge, 1, next));
  return op1("Exit", {branch->output(0)});
}

class FrameExecutorTest : public ::testing::Test {
 protected:
  Output scalar(float value) { return constant(graph_, Tensor::scalar(value)); }
  float run(Output fetch, const Feeds& feeds = {}) {
    return LocalSession(graph_).run(feeds, {fetch})[0].scalar<float>();
  }

  Graph graph_{builtin_ops()};
};

TEST_F(FrameExecutorTest, ALoopCountsToItsLimit) {
  for (int parallel : {1, 2, 10}) {
    Output one = scalar(1);
    const std::string frame = "loop" + std::to_string(parallel);
    Output end = while_less(
        graph_, scalar(0), scalar(1000), frame, [&](Output i) { return i + enter(one, frame, true, parallel); },
        parallel);
    EXPECT_EQ(run(end), 1000.0f) << parallel;
  }
}

TEST_F(FrameExecutorTest, ALoopMayRunNoIteration) {
  Output end = while_less(graph_, scalar(5), scalar(1), "loop", [&](Output i) { return i * i; });
  EXPECT_EQ(run(end), 5.0f);
}

TEST_F(FrameExecutorTest, LoopsNest) {
  // for x < 100: { y = x; for y < x + 10: y += 3; x = y }: 0, 12, 24, ... 108
  Output three = scalar(3);
  Output ten = scalar(10);
  Output end = while_less(graph_, scalar(0), scalar(100), "outer", [&](Output x) {
    Output limit = x + enter(ten, "outer", true);
    Output inner_three = enter(three, "outer", true);
    return while_less(graph_, x, limit, "inner", [&](Output y) { return y + enter(inner_three, "inner", true); });
  });
  EXPECT_EQ(run(end), 108.0f);
}

// The largest absolute value along all axes.
Output largest(Output x, Output axes) { return op1("Max", {op1("Abs", {x}), axes}); }

// A loop over a matrix until an element reaches the limit. `axes` are all of them, outside of the loop. Gives the exit.
template <typename Body>
Output while_small(Graph& graph, Output initial, Output limit, Output axes, const std::string& frame, Body body) {
  Output entered = enter(initial, frame);
  Node* merge = graph
                    .add_exact({.op = "Merge",
                                .name = graph.unique_name(frame + "/Merge"),
                                .inputs = {entered, Output()},
                                .attrs = {{"T", DType::kFloat}, {"N", 2}}})
                    .value_or_throw();
  Output reached = largest(merge->output(), enter(axes, frame, true));
  Output go_on = op1("LoopCond", {less(reached, enter(limit, frame, true))});
  Node* branch = add_op(graph, "Switch", {merge->output(), go_on});
  throw_if_error(graph.set_input(*merge, 1, op1("NextIteration", {body(branch->output(1))})));
  return op1("Exit", {branch->output(0)});
}

// A matrix that is transposed in each iteration may be transposed before it enters.
TEST_F(FrameExecutorTest, AProductWithWhatStaysTheSameIsTheSameHoisted) {
  Output w = constant(graph_, Tensor::of<float>({2, 2}, {0, 2, -1, 1}));
  Output start = constant(graph_, Tensor::of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  Output axes = constant(graph_, Tensor::vector<std::int32_t>({0, 1}));
  Output end = while_small(graph_, start, scalar(1e6f), axes, "outer", [&](Output x) {
    Output outer_w = enter(w, "outer", true), outer_axes = enter(axes, "outer", true);
    Output limit = largest(x, outer_axes) * enter(scalar(10), "outer", true);
    return while_small(graph_, x, limit, outer_axes, "inner", [&](Output y) {
      return op1("MatMul", {y, enter(outer_w, "inner", true)}, {{"transpose_b", true}});
    });
  });
  SessionOptions plain;
  plain.passes.hoist = false;
  const Tensor wanted = LocalSession(graph_, plain).run({}, {end})[0];
  EXPECT_TRUE(bitwise_equal(LocalSession(graph_).run({}, {end})[0], wanted));
  EXPECT_GE(*std::max_element(wanted.flat<float>().begin(), wanted.flat<float>().end()), 1e5f);
}

// Where the sum lies, but never where somebody else still reads it: the start, and the sum before.
TEST_F(FrameExecutorTest, ProductsAreAddedUpInTheLoop) {
  Output x = constant(graph_, Tensor::of<float>({2, 3}, {1, 2, 3, -1, 0, 2}));
  Output start = placeholder(graph_, DType::kFloat, {3, 3}, "start");
  Output axes = constant(graph_, Tensor::vector<std::int32_t>({0, 1}));
  const auto loop = [&](const std::string& frame, auto with_sum) {
    return while_small(graph_, start, scalar(100), axes, frame, [&](Output sum) {
      Output factor = op1("Identity", {enter(x, frame, true)});
      return with_sum(sum, sum + op1("MatMul", {factor, factor}, {{"transpose_a", true}}));
    });
  };
  Output end = loop("plain", [](Output, Output next) { return next; });
  Output slower = loop("read_twice", [](Output sum, Output next) { return next + (sum - sum); });
  const Tensor first = Tensor::of<float>({3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1});
  const Tensor kept = first.clone().value_or_throw();
  // x^T x is {2, 2, 1, 2, 4, 6, 1, 6, 13}: eight of them, with the start.
  const Tensor wanted = Tensor::of<float>({3, 3}, {17, 16, 8, 16, 33, 48, 8, 48, 105});
  LocalSession session(graph_);
  for (int run = 0; run < 2; ++run) {
    const std::vector<Tensor> results = session.run({{start, first}}, {end, slower});
    for (const Tensor& result : results) EXPECT_TRUE(bitwise_equal(result, wanted)) << result.to_string();
    EXPECT_TRUE(bitwise_equal(first, kept));
  }
}

TEST_F(FrameExecutorTest, ManyNodesAreReadyAtOnce) {
  Output one = scalar(1);
  Output end = while_less(graph_, scalar(0), scalar(6000), "loop", [&](Output i) {
    std::vector<Output> same;
    for (int k = 0; k < 3000; ++k) same.push_back(op1("Identity", {enter(one, "loop", true)}));
    return i + op1("AddN", {same});
  });
  EXPECT_EQ(run(end), 6000.0f);
}

TEST_F(FrameExecutorTest, ASwitchWantsOneBool) {
  Output take = placeholder(graph_, DType::kBool, PartialShape::unknown(), "take");
  Node* branch = add_op(graph_, "Switch", {scalar(1), take});
  LocalSession session(graph_);
  const auto got = session.try_run({{take, Tensor::vector<bool>({true, false})}}, {branch->output(1)});
  EXPECT_EQ(got.status().code(), Code::kInvalidArgument);
  EXPECT_NE(got.status().message().find("[2]"), std::string::npos) << got.status().message();
}

TEST_F(FrameExecutorTest, OnlyTheTakenBranchRuns) {
  Output take = placeholder(graph_, DType::kBool, PartialShape::scalar(), "take");
  Output x = scalar(3);
  Node* branch = add_op(graph_, "Switch", {x, take});
  Output doubled = branch->output(1) * branch->output(1);
  Output negated = neg(branch->output(0));
  Node* merge = add_op(graph_, "Merge", {negated, doubled});
  EXPECT_EQ(run(merge->output(0), {{take, Tensor::scalar(true)}}), 9.0f);
  EXPECT_EQ(run(merge->output(0), {{take, Tensor::scalar(false)}}), -3.0f);
  LocalSession session(graph_);
  EXPECT_EQ(session.run({{take, Tensor::scalar(true)}}, {merge->output(1)})[0].scalar<std::int32_t>(), 1);
  auto dead = session.try_run({{take, Tensor::scalar(true)}}, {negated});
  EXPECT_EQ(dead.status().code(), Code::kInvalidArgument);
  EXPECT_NE(dead.status().message().find("not taken"), std::string::npos) << dead.status().message();
}

TEST_F(FrameExecutorTest, ALoopOnAnUntakenBranchIsDead) {
  Output take = placeholder(graph_, DType::kBool, PartialShape::scalar(), "take");
  Node* branch = add_op(graph_, "Switch", {scalar(1), take});
  Node* limit = add_op(graph_, "Switch", {scalar(50), take});
  Output looped = while_less(graph_, branch->output(1), limit->output(1), "loop", [&](Output i) { return i + i; });
  Node* merge = add_op(graph_, "Merge", {branch->output(0), looped});
  EXPECT_EQ(run(merge->output(0), {{take, Tensor::scalar(true)}}), 64.0f);
  EXPECT_EQ(run(merge->output(0), {{take, Tensor::scalar(false)}}), 1.0f);
}

TEST_F(FrameExecutorTest, AConditionalInsideALoop) {
  // Collatz from 27 with the step count capped by value: while x < 9000 alternates odd and even branches.
  Output half_c = scalar(0.5f);
  Output end = while_less(graph_, scalar(27), scalar(9000), "loop", [&](Output x) {
    Output half = enter(half_c, "loop", true);
    Output is_even = equal(floor(x * half) + floor(x * half), x);
    Node* branch = add_op(graph_, "Switch", {x, is_even});
    Output odd = branch->output(0) + branch->output(0) + branch->output(0) + op1("OnesLike", {branch->output(0)});
    Output even = branch->output(1) * enter(half_c, "loop", true);
    return add_op(graph_, "Merge", {odd, even})->output(0);
  });
  float x = 27;
  while (x < 9000) x = static_cast<int>(x) % 2 == 0 ? x / 2 : 3 * x + 1;
  EXPECT_EQ(run(end), x);
}

// Adds one to the variable; gives `value`, after that.
Output counted(Output handle, Output one, Output value) {
  Graph& graph = value.graph();
  Node* add = add_op(graph, "AssignAddVariableOp", {handle, one}, {{"dtype", DType::kFloat}});
  graph.add_control_input(*add, *value.node);
  Output after = identity(value);
  graph.add_control_input(*after.node, *add);
  return after;
}

// Cancels while the loop goes round, which `count` tells.
void expect_stops_midway(Graph& graph, Output end, const Var& count) {
  LocalSession session(graph);
  session.run({count.initializer()});
  auto rounds = [&] { return session.run({}, {count.read_again()})[0].scalar<float>(); };
  Cancellation cancellation;
  std::thread stopper([&, seen = count.read_again().name()] {
    while (session.run({}, {seen})[0].scalar<float>() < 3) {
    }
    cancellation.cancel(cancelled("enough"));
  });
  auto out = session.try_run({}, {end}, {}, {.cancellation = &cancellation});
  stopper.join();
  EXPECT_EQ(out.status().code(), Code::kCancelled);
  EXPECT_NE(out.status().message().find("enough"), std::string::npos);
  const float at_the_end = rounds();
  EXPECT_GE(at_the_end, 3);
  EXPECT_EQ(rounds(), at_the_end) << "the session is usable and the loop stands still";
}

TEST_F(FrameExecutorTest, CancellingStopsALoopMidway) {
  Var count = variable(graph_, Tensor::scalar(0.0f), "count");
  Output zero = scalar(0);
  Output one = scalar(1);
  Output end = while_less(graph_, scalar(0), scalar(1), "loop", [&](Output i) {
    Output next = i + enter(zero, "loop", true);
    return counted(enter(count.handle(), "loop", true), enter(one, "loop", true), next);
  });
  expect_stops_midway(graph_, end, count);
}

TEST_F(FrameExecutorTest, CancellingStopsAFunctionalLoopMidway) {
  Var count = variable(graph_, Tensor::scalar(0.0f), "count");
  Output end = while_loop(
      {scalar(0), count.handle()},
      [](Graph& g, const std::vector<Output>& v) { return std::vector{less(v[0], constant(g, Tensor::scalar(1.0f)))}; },
      [](Graph& g, const std::vector<Output>& v) {
        return std::vector{counted(v[1], constant(g, Tensor::scalar(1.0f)), identity(v[0])), v[1]};
      })[0];
  expect_stops_midway(graph_, end, count);
}

TEST_F(FrameExecutorTest, ALoopMayWaitInADequeue) {
  Node* queue = add_op(graph_, "FIFOQueueV2", {},
                       {{"component_types", std::vector<DType>{DType::kFloat}},
                        {"shapes", std::vector<PartialShape>{PartialShape::scalar()}}});
  Output feed = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "feed");
  Node* put = add_op(graph_, "QueueEnqueueV2", {queue->output(), feed});
  Output handle = queue->output();
  Output sum = while_less(graph_, scalar(0), scalar(10), "loop", [&](Output total) {
    Output inside = op1("Enter", {handle}, {{"frame_name", "loop"}, {"is_constant", true}});
    Node* next = add_op(graph_, "QueueDequeueV2", {inside}, {{"component_types", std::vector<DType>{DType::kFloat}}});
    graph_.add_control_input(*next, *identity(total).node);  // dead, and so not run, after the last iteration
    return total + next->output();
  });
  LocalSession session(graph_);
  std::atomic<bool> ended = false;
  float result = 0;
  session.run_async({}, {sum}, {}, {}, [&](Status status, std::vector<Tensor> values) {
    if (status.ok()) result = values[0].scalar<float>();
    ended = true;
    ended.notify_one();
  });
  for (int i = 0; i < 4; ++i) session.run({{feed, Tensor::scalar(3.0f)}}, {}, {put});
  ended.wait(false);
  EXPECT_EQ(result, 12.0f);
}

// What a graph that cannot run says, or "" when it ran.
std::string error_of(Graph& graph, const std::vector<TensorName>& fetches, const std::vector<NodeName>& targets = {}) {
  auto out = LocalSession(graph).try_run({}, fetches, targets);
  if (out.ok()) return "";
  EXPECT_EQ(out.status().code(), Code::kInvalidArgument);
  return out.status().message();
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << text

TEST_F(FrameExecutorTest, AMergeContinuesItsOwnLoopOnly) {
  // Both loops are whole but for the back edge of the first, which comes out of the second.
  Node* merge = graph_
                    .add_exact({.op = "Merge",
                                .name = "a/Merge",
                                .inputs = {enter(scalar(0), "a"), Output()},
                                .attrs = {{"T", DType::kFloat}, {"N", 2}}})
                    .value_or_throw();
  Output condition = op1("LoopCond", {less(merge->output(), enter(scalar(3), "a", true))});
  Output end = op1("Exit", {add_op(graph_, "Switch", {merge->output(), condition})->output(0)});
  Output wide = enter(scalar(1), "b");
  for (int i = 0; i < 20; ++i) wide = neg(wide);  // more nodes than loop "a" has
  throw_if_error(graph_.set_input(*merge, 1, op1("NextIteration", {wide})));
  const std::string error = error_of(graph_, {end});
  EXPECT_HAS(error, "a/Merge");
  EXPECT_HAS(error, "NextIteration");
  EXPECT_HAS(error, "loop \"a\"");
  EXPECT_HAS(error, "loop \"b\"");
}

// `value` carried into `depth` loops, one inside the other; `inside` made of it there is carried out again.
template <typename Inside>
Output nested(Output value, int depth, Inside inside) {
  for (int i = 0; i < depth; ++i) value = enter(value, "level" + std::to_string(i));
  value = inside(value);
  for (int i = 0; i < depth; ++i) value = op1("Exit", {value});
  return value;
}

TEST_F(FrameExecutorTest, LoopsNestAThousandDeepAndNoDeeper) {
  EXPECT_EQ(run(nested(scalar(2), 1000, [](Output x) { return neg(x); })), -2.0f);
  Output failing = nested(scalar(2), 1000, [](Output x) {
    return op1("CheckNumerics", {log(neg(x))}, {{"message", "all frames are open now"}});
  });
  EXPECT_HAS(error_of(graph_, {failing}), "all frames are open now");
  for (int depth : {1001, 20000}) {
    Output deep = nested(scalar(2), depth, [](Output x) { return neg(x); });
    EXPECT_HAS(error_of(graph_, {deep}), "nested more than 1000 deep") << depth;
  }
}

TEST_F(FrameExecutorTest, ATargetThatALoopNeverReachesIsAnError) {
  // The second Enter waits for a dead Exit of its own loop, which is told only when the loop ends.
  Output first = enter(scalar(1), "loop");
  Node* branch = add_op(graph_, "Switch", {first, op1("LoopCond", {less(first, first)})});
  Output never = op1("Exit", {branch->output(1)});
  Output second = op1("Enter", {never}, {{"frame_name", "loop"}});
  Output end = op1("Exit", {second});
  Node* target = add_op(graph_, "NoOp", {}, {}, "target");
  graph_.add_control_input(*target, *end.node);
  EXPECT_HAS(error_of(graph_, {}, {target}), "\"target\" never ran");
  EXPECT_HAS(error_of(graph_, {}, {target}), second.node->name());
  EXPECT_HAS(error_of(graph_, {end}), "never ran");
}

TEST_F(FrameExecutorTest, ALoopThatNeverEndsInsideALoopIsAnError) {
  Output outer = enter(scalar(1), "outer");
  Output first = op1("Enter", {outer}, {{"frame_name", "inner"}});
  Node* branch = add_op(graph_, "Switch", {first, op1("LoopCond", {less(first, first)})});
  Output never = op1("Exit", {branch->output(1)});
  Output second = op1("Enter", {never}, {{"frame_name", "inner"}});
  EXPECT_HAS(error_of(graph_, {}, {second.node}), "1 of its 2 Enters");
}

TEST_F(FrameExecutorTest, ADeadTargetIsNoError) {
  Node* branch = add_op(graph_, "Switch", {scalar(1), constant(graph_, Tensor::scalar(true))});
  Output untaken = neg(branch->output(0));
  EXPECT_EQ(error_of(graph_, {}, {untaken.node}), "");
}

// A reference variable, as v1 programs read it: whatever takes the read sees what the variable holds by then.
class ReferenceInControlFlowTest : public FrameExecutorTest {
 protected:
  ReferenceInControlFlowTest() { session_.emplace(graph_); }

  void start_at(float value) { session_->run({add_op(graph_, "Assign", {variable_, scalar(value)})}); }
  float value(Output fetch) { return session_->run({}, {fetch})[0].scalar<float>(); }
  Output reference_enter(const std::string& frame) {
    return op1("RefEnter", {variable_}, {{"frame_name", frame}, {"is_constant", true}});
  }
  // `turns` iterations, one after the other, that each run what `effect` returns. It gets a node that runs in every one
  // of them, and not in the last look at the condition.
  template <typename Effect>
  Output repeat(int turns, const std::string& frame, Effect effect) {
    Output one = scalar(1);
    return while_less(
        graph_, scalar(0), scalar(static_cast<float>(turns)), frame,
        [&](Output i) {
          Output one_in = enter(one, frame, true);
          auto after = graph_.control_dependencies({effect(op1("Identity", {i}).node)});
          return i + one_in;
        },
        /*parallel=*/1);
  }

  Output variable_ =
      add_op(graph_, "VariableV2", {}, {{"shape", PartialShape::scalar()}, {"dtype", DType::kFloat}}, "v")->output();
  Output read_ = op1("Identity", {variable_}, {}, "v/read");
  std::optional<LocalSession> session_;
};

TEST_F(ReferenceInControlFlowTest, GradientDescentInALoop) {
  Output rate = scalar(0.5f);
  Output end = repeat(4, "loop", [&](Node* turn) {
    Output rate_in = enter(rate, "loop", true), read_in = enter(read_, "loop", true);
    Output reference = reference_enter("loop");
    auto in_turn = graph_.control_dependencies({turn});
    return add_op(graph_, "AssignSub", {reference, rate_in * read_in});
  });
  start_at(16);
  EXPECT_EQ(value(end), 4.0f);
  EXPECT_EQ(value(variable_), 1.0f);  // 16, 8, 4, 2, 1
}

TEST_F(ReferenceInControlFlowTest, ATransposedProductInALoop) {
  Output w = add_op(graph_, "VariableV2", {}, {{"shape", PartialShape{2, 2}}, {"dtype", DType::kFloat}}, "w")->output();
  Output w_read = op1("Identity", {w});
  Output end = repeat(2, "loop", [&](Node* turn) {
    Output w_in = enter(w_read, "loop", true);
    Output w_reference = op1("RefEnter", {w}, {{"frame_name", "loop"}, {"is_constant", true}});
    auto in_turn = graph_.control_dependencies({turn});
    Output product = op1("MatMul", {w_in, w_in}, {{"transpose_b", true}});
    return add_op(graph_, "Assign", {w_reference, product});
  });
  session_->run({add_op(graph_, "Assign", {w, constant(graph_, Tensor::of<float>({2, 2}, {1, 1, 0, 1}))})});
  session_->run({end.node});
  // w w' is [[2 1] [1 1]], and that times its own transpose [[5 3] [3 2]].
  EXPECT_TRUE(bitwise_equal(session_->run({}, {w})[0], Tensor::of<float>({2, 2}, {5, 3, 3, 2})));
}

TEST_F(ReferenceInControlFlowTest, ABranchSeesItsOwnUpdate) {
  Output flag = constant(graph_, Tensor::scalar(true));
  Output reference = add_op(graph_, "RefSwitch", {variable_, flag})->output(1);
  Output read_in_branch = add_op(graph_, "Switch", {read_, flag})->output(1);
  Output two = add_op(graph_, "Switch", {scalar(2), flag})->output(1);
  Node* add = add_op(graph_, "AssignAdd", {reference, two});
  Output sum, handed_on;
  {
    auto after = graph_.control_dependencies({add});
    sum = read_in_branch * two;
    handed_on = op1("Identity", {read_in_branch});
  }
  Output merged =
      add_op(graph_, "Merge", {sum, add_op(graph_, "Switch", {read_, flag})->output(0)}, {{"N", 2}})->output();
  start_at(3);
  EXPECT_EQ(value(merged), 10.0f);
  EXPECT_EQ(value(handed_on), 7.0f);
}

TEST_F(ReferenceInControlFlowTest, ALoopVariableThatStartsAsAReadIsItsAlias) {
  // x = v; for 3 turns: v += 1. Nothing else changes x.
  Node* merge = graph_
                    .add_exact({.op = "Merge",
                                .name = "x",
                                .inputs = {enter(read_, "loop"), Output()},
                                .attrs = {{"T", DType::kFloat}, {"N", 2}}})
                    .value_or_throw();
  Output limit = scalar(13), one = scalar(1);
  Output go_on = op1("LoopCond", {less(merge->output(), enter(limit, "loop", true))});
  Node* branch = add_op(graph_, "Switch", {merge->output(), go_on});
  Output x = op1("Identity", {branch->output(1)});
  Output reference = reference_enter("loop"), one_in = enter(one, "loop", true);
  Node* add = nullptr;
  {
    auto after = graph_.control_dependencies({x.node});
    add = add_op(graph_, "AssignAdd", {reference, one_in});
  }
  {
    auto after = graph_.control_dependencies({add});
    throw_if_error(graph_.set_input(*merge, 1, op1("NextIteration", {op1("Identity", {x})})));
  }
  Output end = op1("Exit", {branch->output(0)});
  start_at(10);
  EXPECT_EQ(value(end), 13.0f);
  EXPECT_EQ(value(variable_), 13.0f);
}

TEST_F(ReferenceInControlFlowTest, AnUninitialisedVariableIsNamedByItsRead) {
  Output flag = constant(graph_, Tensor::scalar(true));
  Output branch = add_op(graph_, "Switch", {read_, flag})->output(1);
  try {
    value(neg(branch));
    FAIL() << "the variable has no value";
  } catch (const Error& error) {
    EXPECT_EQ(error.status().code(), Code::kFailedPrecondition);
    EXPECT_HAS(error.status().message(), "Identity \"v/read\": Attempting to use uninitialized value v");
  }
}

}  // namespace tutti::frame_executor_test
