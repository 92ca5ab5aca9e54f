#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "tutti/graph/passes/passes.h"
#include "tutti/graph/subgraph.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::lower_control_flow_test {

using Values = std::vector<Output>;

Output number(Graph& graph, float value) { return constant(graph, Tensor::scalar(value)); }
Output number(Graph& graph, std::int32_t value) { return constant(graph, Tensor::scalar(value)); }

Output modulo(Output x, std::int32_t n) { return add_op(x.graph(), "FloorMod", {x, number(x.graph(), n)})->output(); }

// Adds to the variable of a handle.
Node* add_to(Output handle, Output value) {
  return add_op(handle.graph(), "AssignAddVariableOp", {handle, value}, {{"dtype", value.dtype()}});
}

Output read_of(Output handle) {
  return add_op(handle.graph(), "ReadVariableOp", {handle}, {{"dtype", DType::kFloat}})->output();
}

class LowerTest : public ::testing::Test {
 protected:
  FunctionBody lowered(const Signature& signature, Lowering which = Lowering::kAll) {
    FunctionBody body = extract_subgraph(graph_, signature).value_or_throw();
    throw_if_error(lower_control_flow(body, which));
    throw_if_error(body.graph->topological_order().status());
    return body;
  }

  static std::set<std::string> ops_of(const FunctionBody& body) {
    std::set<std::string> ops;
    for (const Node* node : body.graph->nodes()) ops.insert(node->op_name());
    return ops;
  }

  // What the values are in the graph as it is; those of the lowered graph must be the same.
  std::vector<float> results(const std::vector<std::pair<Output, Tensor>>& feeds, const Values& fetches,
                             const std::vector<Node*>& targets = {}) {
    Signature signature;
    Feeds plain_feeds;
    for (const auto& [output, value] : feeds) {
      signature.feeds.push_back(output.name());
      plain_feeds.push_back({output, value});
    }
    for (const Output& fetch : fetches) signature.fetches.push_back(fetch.name());
    std::vector<NodeName> plain_targets;
    for (Node* target : targets) {
      signature.targets.push_back(target->name());
      plain_targets.push_back(target);
    }
    LocalSession plain(graph_);
    const std::vector<float> want = numbers(plain.run(plain_feeds, {fetches.begin(), fetches.end()}, plain_targets));

    FunctionBody body = lowered(signature);
    for (const Node* node : body.graph->nodes()) {
      for (const char* op : {"If", "While", "Case"}) EXPECT_FALSE(node->op_name().ends_with(op)) << node->describe();
    }
    Feeds lowered_feeds;
    for (std::size_t i = 0; i < feeds.size(); ++i) lowered_feeds.push_back({body.args[i]->output(), feeds[i].second});
    std::vector<TensorName> lowered_fetches;
    for (const Node* retval : body.retvals) lowered_fetches.push_back(retval->input(0));
    std::vector<NodeName> lowered_targets(body.targets.begin(), body.targets.end());
    LocalSession session(*body.graph);
    EXPECT_EQ(numbers(session.run(lowered_feeds, lowered_fetches, lowered_targets)), want);
    return want;
  }

  static std::vector<float> numbers(const std::vector<Tensor>& tensors) {
    std::vector<float> numbers;
    for (const Tensor& tensor : tensors) {
      numbers.push_back(tensor.dtype() == DType::kInt32 ? static_cast<float>(tensor.scalar<std::int32_t>())
                                                        : tensor.scalar<float>());
    }
    return numbers;
  }

  Graph graph_{builtin_ops()};
};

TEST_F(LowerTest, BranchesGiveWhatTheyGaveWhole) {
  Output which = placeholder(graph_, DType::kBool, PartialShape::scalar(), "which");
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  Values y = cond(
      which, {x, x * 2.0},
      [](Graph&, const Values& v) {
        return Values{v[0] + v[1], v[1]};
      },
      [](Graph& g, const Values& v) {
        return Values{number(g, 7.0f), v[0]};
      });
  for (bool taken : {true, false}) {
    const std::vector<float> got =
        results({{which, Tensor::scalar(taken)}, {x, Tensor::scalar(3.0f)}}, {y[0], y[1], y[0] + y[1]});
    EXPECT_EQ(got, taken ? (std::vector<float>{9, 6, 15}) : (std::vector<float>{7, 3, 10}));
  }
}

TEST_F(LowerTest, AnyNumberMayDecide) {
  Output which = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "which");
  Output y = cond(
      which, {}, [](Graph& g, const Values&) { return Values{number(g, 1.0f)}; },
      [](Graph& g, const Values&) { return Values{number(g, 2.0f)}; })[0];
  EXPECT_EQ(results({{which, Tensor::scalar(5)}}, {y}), std::vector<float>{1});
  EXPECT_EQ(results({{which, Tensor::scalar(0)}}, {y}), std::vector<float>{2});
}

TEST_F(LowerTest, CasesOutOfRangeTakeTheLast) {
  Output index = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "index");
  Output x = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  std::vector<BodyFn> branches;
  for (float factor : {1.0f, 10.0f, 100.0f}) {
    branches.push_back([factor](Graph&, const Values& v) { return Values{v[0] * factor}; });
  }
  Output y = case_(index, {x}, branches)[0];
  const std::vector<std::pair<int, float>> wanted = {{0, 2}, {1, 20}, {2, 200}, {3, 200}, {-1, 200}};
  for (const auto& [at, want] : wanted) {
    EXPECT_EQ(results({{index, Tensor::scalar(at)}, {x, Tensor::scalar(2.0f)}}, {y}), std::vector<float>{want}) << at;
  }
  Output only = case_(index, {x}, {branches[1]}, "only")[0];
  EXPECT_EQ(results({{index, Tensor::scalar(9)}, {x, Tensor::scalar(2.0f)}}, {only}), std::vector<float>{20});
}

TEST_F(LowerTest, LoopsRunAsOften) {
  Output limit = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "limit");
  Output factor = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "factor");
  Values out = while_loop(
      {number(graph_, 0), number(graph_, 1.0f), limit, factor},
      [](Graph&, const Values& v) { return Values{less(v[0], v[2])}; },
      [](Graph& g, const Values& v) {
        return Values{v[0] + number(g, 1), v[1] * v[3], v[2], v[3]};
      });
  for (int n : {5, 0, 1, 40}) {
    const std::vector<float> got =
        results({{limit, Tensor::scalar(n)}, {factor, Tensor::scalar(1.5f)}}, {out[0], out[1], out[2], out[3]});
    EXPECT_EQ(got[0], static_cast<float>(n));
    EXPECT_EQ(got[2], static_cast<float>(n));
  }
}

// Invariants are there in every iteration, the last one included: what reads nothing else must not run then.
TEST_F(LowerTest, VariablesThatBecomeInvariants) {
  Output limit = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "limit");
  Values out = while_loop(
      {number(graph_, 0), number(graph_, 1), number(graph_, 2), limit},
      [](Graph&, const Values& v) { return Values{less(v[0], v[3])}; },
      [](Graph& g, const Values& v) {
        return Values{v[0] + number(g, 1), v[3], v[3] * v[3], v[3]};
      });
  EXPECT_EQ(results({{limit, Tensor::scalar(3)}}, {out[0], out[1], out[2]}), (std::vector<float>{3, 3, 9}));
  EXPECT_EQ(results({{limit, Tensor::scalar(0)}}, {out[0], out[1], out[2]}), (std::vector<float>{0, 1, 2}));
}

TEST_F(LowerTest, NestedInOneAnother) {
  Output limit = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "limit");
  auto below = [](Graph&, const Values& v) { return Values{less(v[0], v[2])}; };
  auto inner = [](Graph& g, const Values& v) {
    Output is_even = equal(modulo(v[0], 2), number(g, 0));
    Output total = cond(
        is_even, {v[0], v[1]}, [](Graph&, const Values& w) { return Values{w[0] + w[1]}; },
        [](Graph&, const Values& w) { return Values{w[1]}; })[0];
    return Values{v[0] + number(g, 1), total, v[2]};
  };
  auto outer = [&](Graph& g, const Values& v) {
    Output total = while_loop({number(g, 0), v[1], v[0]}, below, inner, {.name = "inner"})[1];
    return Values{v[0] + number(g, 1), total, v[2]};
  };
  Output total = while_loop({number(graph_, 0), number(graph_, 0), limit}, below, outer, {.name = "outer"})[1];
  EXPECT_EQ(results({{limit, Tensor::scalar(6)}}, {total}), std::vector<float>{0 + 0 + 0 + 2 + 2 + 6});
  EXPECT_EQ(results({{limit, Tensor::scalar(0)}}, {total}), std::vector<float>{0});
}

TEST_F(LowerTest, LoopInABranchThatIsNotTaken) {
  Output which = placeholder(graph_, DType::kBool, PartialShape::scalar(), "which");
  Output x = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "x");
  Output y = cond(
      which, {x},
      [](Graph& g, const Values& v) {
        return Values{while_loop(
            {number(g, 0), v[0]}, [](Graph&, const Values& w) { return Values{less(w[0], w[1])}; },
            [](Graph& h, const Values& w) {
              return Values{w[0] + number(h, 2), w[1]};
            })[0]};
      },
      [](Graph&, const Values& v) { return Values{v[0] * v[0]}; })[0];
  EXPECT_EQ(results({{which, Tensor::scalar(true)}, {x, Tensor::scalar(5)}}, {y}), std::vector<float>{6});
  EXPECT_EQ(results({{which, Tensor::scalar(false)}, {x, Tensor::scalar(5)}}, {y}), std::vector<float>{25});
}

class LowerStateTest : public LowerTest {
 protected:
  // The variables' values once `after` has run.
  Values reads_after(Node* after) {
    ScopeGuard guard = graph_.control_dependencies({after});
    return {a_.read_again(), b_.read_again()};
  }
  Var a_ = variable(graph_, Tensor::scalar(1.0f), "a");
  Var b_ = variable(graph_, Tensor::scalar(2.0f), "b");
};

TEST_F(LowerStateTest, OnlyTheBranchTakenChangesItsVariable) {
  Output which = placeholder(graph_, DType::kBool, PartialShape::scalar(), "which");
  Values done;
  {
    ScopeGuard guard = graph_.control_dependencies({a_.initializer(), b_.initializer()});
    // Nothing reads what the effects give; the result waits for them all the same.
    done = cond(
        which, {a_.handle(), b_.handle()},
        [](Graph& g, const Values& v) {
          add_to(v[0], number(g, 10.0f));
          return Values{number(g, 1.0f)};
        },
        [](Graph& g, const Values& v) {
          add_to(v[1], number(g, 100.0f));
          return Values{number(g, 2.0f)};
        });
  }
  const Values reads = reads_after(done[0].node);
  EXPECT_EQ(results({{which, Tensor::scalar(true)}}, {reads[0], reads[1]}), (std::vector<float>{11, 2}));
  EXPECT_EQ(results({{which, Tensor::scalar(false)}}, {reads[0], reads[1]}), (std::vector<float>{1, 102}));
  const Values later = reads_after(identity(done[0]).node);
  EXPECT_EQ(results({{which, Tensor::scalar(true)}}, {later[0], later[1]}), (std::vector<float>{11, 2}));
}

// As TensorFlow prunes branches that it has put into the graph.
TEST_F(LowerStateTest, EffectsThatNoResultNeedsDoNotHappen) {
  Output which = placeholder(graph_, DType::kBool, PartialShape::scalar(), "which");
  // A result after 10 are added to `a`, and one after 100 are added to `b`.
  const auto branch = [](float first, float second) {
    return [first, second](Graph& g, const Values& v) {
      Node* to_a = add_to(v[0], number(g, 10.0f));
      Node* to_b = add_to(v[1], number(g, 100.0f));
      Values results{number(g, first), number(g, second)};
      g.add_control_input(*results[0].node, *to_a);
      g.add_control_input(*results[1].node, *to_b);
      return results;
    };
  };
  const Values done = cond(which, {a_.handle(), b_.handle()}, branch(1, 2), branch(3, 4));
  const Output second = identity(done[1]);
  const auto run = [&](const Output& fetch, float a, float b) {
    LocalSession session(graph_);
    session.run({global_variables_initializer(graph_)});
    EXPECT_EQ(session.run({{which, Tensor::scalar(false)}}, {fetch})[0].scalar<float>(), 4);
    EXPECT_EQ(numbers(session.run({}, {a_, b_})), (std::vector<float>{a, b}));
  };
  run(second, 11, 102);  // C++ programs ask for all effects
  graph_.set_attr(*done[1].node, "_lower_using_switch_merge", true);
  run(second, 1, 102);
  run(done[1], 11, 102);  // the node itself
  Output waiting = identity(done[1]);
  graph_.add_control_input(*waiting.node, *done[1].node);
  run(waiting, 11, 102);
}

TEST_F(LowerStateTest, LoopsChangeVariablesInOrder) {
  Output limit = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "limit");
  Values out;
  {
    ScopeGuard guard = graph_.control_dependencies({a_.initializer(), b_.initializer()});
    out = while_loop(
        {number(graph_, 0), limit, a_.handle()}, [](Graph&, const Values& v) { return Values{less(v[0], v[1])}; },
        [](Graph& g, const Values& v) {
          add_to(v[2], read_of(v[2]));  // doubles it
          return Values{v[0] + number(g, 1), v[1], v[2]};
        });
  }
  const Values reads = reads_after(out[0].node);
  EXPECT_EQ(results({{limit, Tensor::scalar(7)}}, {reads[0]}), std::vector<float>{128});
  EXPECT_EQ(results({{limit, Tensor::scalar(0)}}, {reads[0]}), std::vector<float>{1});
}

TEST_F(LowerStateTest, LoopOfInvariantsOnly) {
  Node* loop;
  {
    ScopeGuard guard = graph_.control_dependencies({a_.initializer(), b_.initializer()});
    loop = while_loop(
               {a_.handle()}, [](Graph& g, const Values& v) { return Values{less(read_of(v[0]), number(g, 50.0f))}; },
               [](Graph& g, const Values& v) {
                 add_to(v[0], number(g, 3.0f));
                 return Values{v[0]};
               })[0]
               .node;
  }
  const Values reads = reads_after(loop);
  EXPECT_EQ(results({}, {reads[0]}), std::vector<float>{52});
}

TEST_F(LowerStateTest, StateInALoopsBranch) {
  Output limit = placeholder(graph_, DType::kInt32, PartialShape::scalar(), "limit");
  Values out;
  {
    ScopeGuard guard = graph_.control_dependencies({a_.initializer(), b_.initializer()});
    out = while_loop(
        {number(graph_, 0), limit, a_.handle(), b_.handle()},
        [](Graph&, const Values& v) { return Values{less(v[0], v[1])}; },
        [](Graph& g, const Values& v) {
          cond(
              equal(modulo(v[0], 3), number(g, 0)), {v[2], v[3]},
              [](Graph& h, const Values& w) {
                add_to(w[0], number(h, 1.0f));
                return Values{number(h, 0.0f)};
              },
              [](Graph& h, const Values& w) {
                add_to(w[1], number(h, 1.0f));
                return Values{number(h, 0.0f)};
              });
          return Values{v[0] + number(g, 1), v[1], v[2], v[3]};
        });
  }
  const Values reads = reads_after(out[0].node);
  EXPECT_EQ(results({{limit, Tensor::scalar(10)}}, {reads[0], reads[1]}), (std::vector<float>{5, 8}));
}

// ---- Which, and where ----

class LowerDevicesTest : public LowerTest {
 protected:
  LowerDevicesTest() {
    which_ = placeholder(graph_, DType::kBool, PartialShape::scalar(), "which");
    x_ = placeholder(graph_, DType::kFloat, PartialShape::scalar(), "x");
  }
  // A branch on `there`, in a node on `here`.
  FunctionBody branches(const std::string& here, const std::string& there) {
    ScopeGuard guard = graph_.device_scope(here);
    Output y = cond(
        which_, {x_},
        [&](Graph& g, const Values& v) {
          ScopeGuard inside = g.device_scope(there);
          return Values{add_op(g, "Neg", {v[0]}, {}, "there")->output()};
        },
        [&](Graph& g, const Values& v) { return Values{add_op(g, "Neg", {v[0]}, {}, "open")->output()}; }, "c")[0];
    return lowered({.feeds = {which_.name(), x_.name()}, .fetches = {y.name()}}, Lowering::kAcrossTasks);
  }
  Output which_;
  Output x_;
};

TEST_F(LowerDevicesTest, BodiesKeepTheirsAndTakeTheCallsOtherwise) {
  FunctionBody body = branches("/job:worker/task:1", "/job:ps/task:0");
  ASSERT_NE(body.graph->find("c/then/there"), nullptr);
  EXPECT_EQ(body.graph->find("c/then/there")->requested_device(), "/job:ps/task:0");
  EXPECT_EQ(body.graph->find("c/else/open")->requested_device(), "/job:worker/task:1");
  EXPECT_EQ(body.graph->find("c"), nullptr);
}

TEST_F(LowerDevicesTest, WhatStaysInItsTaskStaysWhole) {
  EXPECT_TRUE(ops_of(branches("/job:worker/task:1", "/device:CPU:0")).contains("StatelessIf"));
  EXPECT_TRUE(ops_of(branches("/job:worker/task:1", "/job:worker/task:1/device:CPU:0")).contains("StatelessIf"));
  EXPECT_TRUE(ops_of(branches("", "")).contains("StatelessIf"));
  EXPECT_FALSE(ops_of(branches("/job:worker/task:1", "/job:worker/task:2")).contains("StatelessIf"));
  EXPECT_FALSE(ops_of(branches("", "/job:worker/task:2")).contains("StatelessIf"));
}

TEST_F(LowerDevicesTest, HandlesOfOtherTasks) {
  auto use = [&](const std::string& here, const std::string& name) {
    Output handle;
    {
      ScopeGuard guard = graph_.device_scope("/job:ps/task:0");
      handle = variable(graph_, Tensor::scalar(1.0f), name).handle();
    }
    ScopeGuard guard = graph_.device_scope(here);
    Output y = cond(
        which_, {handle}, [](Graph&, const Values& v) { return Values{read_of(v[0])}; },
        [](Graph& g, const Values&) { return Values{number(g, 0.0f)}; })[0];
    return ops_of(lowered({.feeds = {which_.name()}, .fetches = {y.name()}}, Lowering::kAcrossTasks));
  };
  EXPECT_TRUE(use("/job:worker/task:0", "away").contains("Switch"));
  EXPECT_FALSE(use("/job:ps/task:0", "at_home").contains("Switch"));
}

TEST_F(LowerDevicesTest, FunctionsThatCallThemselvesEnd) {
  auto zero = [](Graph& g, const Values&) { return Values{number(g, 0.0f)}; };
  define_function(graph_, "stop", {DType::kFloat}, zero);
  define_function(graph_, "again", {DType::kFloat}, [](Graph& g, const Values& v) {
    return Values{add_op(g, "StatelessIf", {less(v[0], number(g, 0.0f)), v[0]},
                         {{"Tin", std::vector<DType>{DType::kFloat}},
                          {"Tout", std::vector<DType>{DType::kFloat}},
                          {"then_branch", FunctionRef{"stop", nullptr}},
                          {"else_branch", FunctionRef{"again", nullptr}}})
                      ->output()};
  });
  Output y = add_op(graph_, "StatelessIf", {which_, x_},
                    {{"Tin", std::vector<DType>{DType::kFloat}},
                     {"Tout", std::vector<DType>{DType::kFloat}},
                     {"then_branch", FunctionRef{"stop", nullptr}},
                     {"else_branch", FunctionRef{"again", nullptr}}})
                 ->output();
  const std::set<std::string> ops = ops_of(lowered({.feeds = {which_.name(), x_.name()}, .fetches = {y.name()}}));
  EXPECT_TRUE(ops.contains("StatelessIf"));
  EXPECT_TRUE(ops.contains("Merge"));
}

}  // namespace tutti::lower_control_flow_test
