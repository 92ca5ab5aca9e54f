// Functions, branches and loops in a real session, beside the slow evaluator where both can run them.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/support/graph_eval.h"
#include "tests/support/threads.h"
#include "tutti/graph/function.h"
#include "tutti/graph/gradients.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/control_flow.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::functions_test {

using testing::GraphEvaluator;

class FunctionsTest : public ::testing::Test {
 protected:
  // for (i = 0; i < n; ++i) v = sin(v * w)
  Output loop(Output n, Output v, Output w) {
    return while_loop(
        {constant(graph_, Tensor::scalar(std::int64_t{0})), n, v, w},
        [](Graph&, const std::vector<Output>& a) { return std::vector{less(a[0], a[1])}; },
        [](Graph& g, const std::vector<Output>& a) {
          Output next = a[0] + constant(g, Tensor::scalar(std::int64_t{1}));
          return std::vector{next, a[1], sin(a[2] * a[3]), a[3]};
        })[2];
  }

  // Adds up `n` floats from a queue.
  Output sum_from_queue(Output n, Node* queue) {
    return while_loop(
        {n, constant(graph_, Tensor::scalar(0.0f)), queue->output()},
        [](Graph& g, const std::vector<Output>& a) {
          return std::vector{greater(a[0], constant(g, Tensor::scalar(std::int64_t{0})))};
        },
        [](Graph& g, const std::vector<Output>& a) {
          Node* next = add_op(g, "QueueDequeueV2", {a[2]}, {{"component_types", std::vector{DType::kFloat}}});
          Output left = a[0] - constant(g, Tensor::scalar(std::int64_t{1}));
          return std::vector{left, a[1] + next->output(), a[2]};
        },
        {.shape_invariants = {PartialShape::scalar(), PartialShape(), PartialShape()}})[1];
  }
  Node* make_queue() {
    return add_op(graph_, "FIFOQueueV2", {},
                  {{"component_types", std::vector{DType::kFloat}},
                   {"shapes", std::vector{PartialShape::scalar()}},
                   {"shared_name", "queue"}});
  }

  Graph graph_{builtin_ops()};
};

TEST_F(FunctionsTest, AgreesWithTheSlowEvaluator) {
  Output n = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  Output pred = placeholder(graph_, DType::kBool, PartialShape::scalar());
  Output v = placeholder(graph_, DType::kDouble, PartialShape());
  Output w = placeholder(graph_, DType::kDouble, PartialShape());
  Output looped = loop(n, v, w);
  Output y = cond(
      pred, {looped, w}, [](Graph&, const std::vector<Output>& a) { return std::vector{a[0] * a[0] * a[1]}; },
      [](Graph&, const std::vector<Output>& a) { return std::vector{exp(a[0])}; })[0];
  std::vector<Gradient> first = gradients({y}, {v, w});
  std::vector<Gradient> second = gradients({first[1].dense()}, {v, w});
  const std::vector<Output> fetches = {y, first[0].dense(), first[1].dense(), second[0].dense(), second[1].dense()};

  LocalSession session(graph_);
  GraphEvaluator evaluator;
  for (std::int64_t times : {0, 1, 4}) {
    for (bool choice : {true, false}) {
      const Tensor start = Tensor::vector<double>({0.3, -1.5, 0.9});
      const Tensor weight = Tensor::scalar(1.25);
      std::vector<Tensor> slow = evaluator.run(
          graph_, {{n, Tensor::scalar(times)}, {pred, Tensor::scalar(choice)}, {v, start}, {w, weight}}, fetches);
      std::vector<TensorName> names(fetches.begin(), fetches.end());
      std::vector<Tensor> fast =
          session.run({{n, Tensor::scalar(times)}, {pred, Tensor::scalar(choice)}, {v, start}, {w, weight}}, names);
      for (std::size_t i = 0; i < fetches.size(); ++i) {
        ASSERT_EQ(fast[i].shape(), slow[i].shape());
        for (std::int64_t e = 0; e < fast[i].num_elements(); ++e) {
          EXPECT_NEAR(fast[i].data<double>()[e], slow[i].data<double>()[e], 1e-12) << i << " " << times << choice;
        }
      }
    }
  }
}

TEST_F(FunctionsTest, MillionIterations) {
  Output n = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  Output y = while_loop(
      {constant(graph_, Tensor::scalar(std::int64_t{0})), n},
      [](Graph&, const std::vector<Output>& a) { return std::vector{less(a[0], a[1])}; },
      [](Graph& g, const std::vector<Output>& a) {
        return std::vector{a[0] + constant(g, Tensor::scalar(std::int64_t{1})), a[1]};
      })[0];
  LocalSession session(graph_);
  EXPECT_EQ(session.run({{n, Tensor::scalar(std::int64_t{1000000})}}, {y})[0].scalar<std::int64_t>(), 1000000);
}

TEST_F(FunctionsTest, CancellingALongLoopLeavesTheSessionUsable) {
  Output n = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  Var turns = variable(graph_, Tensor::scalar(std::int64_t{0}), "turns");
  Output left = while_loop(
      {n, turns.handle()},
      [](Graph& g, const std::vector<Output>& a) {
        return std::vector{greater(a[0], constant(g, Tensor::scalar(std::int64_t{0})))};
      },
      [](Graph& g, const std::vector<Output>& a) {
        Output one = constant(g, Tensor::scalar(std::int64_t{1}));
        Node* count = add_op(g, "AssignAddVariableOp", {a[1], one}, {});
        auto after = g.control_dependencies({count});
        return std::vector{a[0] - one, identity(a[1])};
      })[0];
  LocalSession session(graph_);
  session.run({turns.initializer()});
  Cancellation cancellation;
  std::thread stopper([&] {
    while (session.run({}, {turns.read()})[0].scalar<std::int64_t>() < 10) std::this_thread::yield();
    cancellation.cancel(cancelled("enough"));
  });
  auto endless =
      session.try_run({{n, Tensor::scalar(std::int64_t{1} << 60)}}, {left}, {}, {.cancellation = &cancellation});
  stopper.join();
  EXPECT_EQ(endless.status().code(), Code::kCancelled);
  EXPECT_NE(endless.status().message().find("enough"), std::string::npos) << endless.status().message();
  EXPECT_EQ(session.run({{n, Tensor::scalar(std::int64_t{3})}}, {left})[0].scalar<std::int64_t>(), 0);
}

TEST_F(FunctionsTest, LoopThatDequeues) {
  Node* queue = make_queue();
  Output n = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  Output values = placeholder(graph_, DType::kFloat, {-1});
  Node* put = add_op(graph_, "QueueEnqueueManyV2", {queue->output(), values}, {});
  Output sum = sum_from_queue(n, queue);
  LocalSession session(graph_);
  // All there already: every iteration ends at once, and none may take stack.
  const std::int64_t many = 20000;
  Tensor ones(DType::kFloat, Shape{many});
  for (float& one : ones.flat<float>()) one = 1;
  session.run({{values, ones}}, {}, {put});
  EXPECT_EQ(session.run({{n, Tensor::scalar(many)}}, {sum})[0].scalar<float>(), 20000);

  // Not there yet: the loop waits in the middle, holding no thread.
  std::atomic<bool> ended = false;
  float result = 0;
  const int threads_before = test::count_threads();
  session.run_async({{n, Tensor::scalar(std::int64_t{3})}}, {sum}, {}, {}, [&](Status status, std::vector<Tensor> out) {
    EXPECT_TRUE(status.ok()) << status.to_string();
    result = out[0].scalar<float>();
    ended = true;
    ended.notify_one();
  });
  EXPECT_EQ(test::count_threads(), threads_before);
  EXPECT_FALSE(ended);
  for (float value : {1.0f, 2.0f, 4.0f}) session.run({{values, Tensor::vector<float>({value})}}, {}, {put});
  ended.wait(false);
  EXPECT_EQ(result, 7);
}

TEST_F(FunctionsTest, CancellingALoopThatWaits) {
  Output sum = sum_from_queue(constant(graph_, Tensor::scalar(std::int64_t{2})), make_queue());
  LocalSession session(graph_);
  auto out = session.try_run({}, {sum}, {}, {.timeout = std::chrono::milliseconds(20)});
  EXPECT_EQ(out.status().code(), Code::kDeadlineExceeded) << out.status().to_string();
}

// f(x) = x <= 1 ? x : f(x - 1) + f(x - 2)
TEST_F(FunctionsTest, RecursiveFunction) {
  auto call_f = [](Graph& g, Output x) {
    return add_op(g, "PartitionedCall", {x}, {{"Tout", std::vector{DType::kInt64}}, {"f", FunctionRef{"f", nullptr}}})
        ->output();
  };
  auto number = [](Graph& g, std::int64_t value) { return constant(g, Tensor::scalar(value)); };
  define_function(graph_, "f", {DType::kInt64}, [&](Graph& g, const std::vector<Output>& args) {
    return cond(
        op1("LessEqual", {args[0], number(g, 1)}), args, [](Graph&, const std::vector<Output>& a) { return a; },
        [&](Graph& inner, const std::vector<Output>& a) {
          return std::vector{call_f(inner, a[0] - number(inner, 1)) + call_f(inner, a[0] - number(inner, 2))};
        });
  });
  Output x = placeholder(graph_, DType::kInt64, PartialShape::scalar());
  Output y = call_f(graph_, x);
  LocalSession session(graph_);
  EXPECT_EQ(session.run({{x, Tensor::scalar(std::int64_t{15})}}, {y})[0].scalar<std::int64_t>(), 610);
}

TEST_F(FunctionsTest, EndlessRecursionIsAnError) {
  FunctionBody body = make_function_body(graph_, {DType::kDouble});
  AttrMap attrs = {{"Tout", std::vector{DType::kDouble}}, {"f", FunctionRef{"f", nullptr}}};
  set_results(body, {add_op(*body.graph, "PartitionedCall", {body.args[0]->output()}, attrs)->output()});
  ASSERT_TRUE(graph_.library().add("f", body).ok());
  Output y = add_op(graph_, "PartitionedCall", {constant(graph_, Tensor::scalar(1.0))}, attrs)->output();
  Output other = constant(graph_, Tensor::scalar(2.0)) * 3.0;
  LocalSession session(graph_);
  auto out = session.try_run({}, {y});
  EXPECT_EQ(out.status().code(), Code::kResourceExhausted) << out.status().to_string();
  EXPECT_NE(out.status().message().find("nested deeper"), std::string::npos);
  EXPECT_EQ(session.run({}, {other})[0].scalar<double>(), 6);
}

}  // namespace tutti::functions_test
