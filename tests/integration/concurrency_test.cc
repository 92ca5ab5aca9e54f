// Many threads on one session. Counts are small here and large in `make soak` and `make tsan`
// (TUTTI_STRESS multiplies them).

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/state.h"
#include "tutti/runtime/local_session.h"

namespace tutti::concurrency_test {

int stress_factor() {
  const char* text = std::getenv("TUTTI_STRESS");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

void run_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

SessionOptions one_thread_a_kernel() {
  SessionOptions options;
  options.threads = {.intra_op_threads = 1, .inter_op_threads = 2};
  return options;
}

TEST(Concurrency, EightThreadsRunStepsOnOneSession) {
  const int steps = 500 * stress_factor();
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, 4}, "x");
  Var w = variable(graph, Tensor(DType::kFloat, {4, 4}), "w");
  Var count = variable(graph, Tensor::scalar(0.0f), "count");
  Output y = reduce_sum(matmul(x, w) + x);
  Node* counted = count.assign_add(constant(graph, Tensor::scalar(1.0f)));
  LocalSession session(graph, one_thread_a_kernel());
  session.run({global_variables_initializer(graph)});

  std::atomic<int> wrong{0};
  run_threads(8, [&](int thread) {
    const std::int64_t rows = 1 + thread;  // another shape, and so other sizes of memory, for each thread
    Tensor ones(DType::kFloat, {rows, 4});
    for (float& value : ones.flat<float>()) value = 1.0f;
    for (int i = 0; i < steps; ++i) {
      const float sum = session.run({{x, ones}}, {y}, {counted})[0].scalar<float>();
      if (sum != 4.0f * static_cast<float>(rows)) ++wrong;
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(session.run({}, {count})[0].scalar<float>(), 8.0f * static_cast<float>(steps)) << "an update was lost";
}

// Readers check that all elements of what they read are the same, while writers add one to all of them.
void expect_never_torn(Graph& graph, Output read, Node* add_one, Node* init) {
  const int updates = 200 * stress_factor();
  LocalSession session(graph, one_thread_a_kernel());
  session.run({init});
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!stop) {
      const Tensor seen = session.run({}, {read})[0];
      const auto values = seen.flat<float>();
      for (float value : values) torn += value != values[0];
    }
  });
  run_threads(4, [&](int) {
    for (int i = 0; i < updates; ++i) session.run({add_one});
  });
  stop = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0);
  EXPECT_EQ(session.run({}, {read})[0].flat<float>()[0], 4.0f * static_cast<float>(updates));
}

constexpr std::int64_t kElements = 20000;

TEST(Concurrency, AResourceVariableIsNeverTorn) {
  Graph graph(builtin_ops());
  Var w = variable(graph, Tensor(DType::kFloat, {kElements}), "w");
  Node* add_one = w.assign_add(ones(graph, DType::kFloat, {kElements}));
  expect_never_torn(graph, w, add_one, global_variables_initializer(graph));
}

class RefVariable : public ::testing::TestWithParam<bool> {};

TEST_P(RefVariable, IsNeverTorn) {
  Graph graph(builtin_ops());
  Output ref =
      add_op(graph, "VariableV2", {}, {{"shape", PartialShape{kElements}}, {"dtype", DType::kFloat}}, "w")->output();
  Node* init = add_op(graph, "Assign", {ref, zeros(graph, DType::kFloat, {kElements})});
  Node* add_one =
      add_op(graph, "AssignAdd", {ref, ones(graph, DType::kFloat, {kElements})}, {{"use_locking", GetParam()}});
  expect_never_torn(graph, identity(ref), add_one, init);
}
INSTANTIATE_TEST_SUITE_P(UseLocking, RefVariable, ::testing::Bool());

}  // namespace tutti::concurrency_test
