// Many threads on one session. TUTTI_STRESS multiplies the counts: `make soak` sets it to 20, which is 10,000 steps on
// each of 8 threads, and runs this plainly and then under the thread sanitizer. `make tsan` alone takes the small
// counts.

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/linalg.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/state.h"
#include "tutti/optim/adam.h"
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

SessionOptions two_threads_a_kernel() {
  SessionOptions options;
  options.threads = {.intra_op_threads = 2, .inter_op_threads = 2};
  return options;
}

Tensor filled(const Shape& shape, float (*value)(std::int64_t)) {
  Tensor tensor(DType::kFloat, shape);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) tensor.flat<float>()[i] = value(i);
  return tensor;
}

// Learns the sum of four numbers.
TEST(Concurrency, EightThreadsTrainOnOneSession) {
  const int steps = 500 * stress_factor();
  Graph graph(builtin_ops());
  Output x = placeholder(graph, DType::kFloat, {-1, 4}, "x");
  auto weights = [](std::int64_t i) { return 0.5f * std::sin(static_cast<float>(i + 1)); };
  Var w1 = variable(graph, filled({4, 16}, weights), "w1");
  Var b1 = variable(graph, Tensor(DType::kFloat, {16}), "b1");
  Var w2 = variable(graph, filled({16, 1}, weights), "w2");
  Output hidden = nn::relu(nn::bias_add(matmul(x, w1), b1));
  Output wanted = reduce_sum(x, {{1}, true});
  Output loss = reduce_mean(square(matmul(hidden, w2) - wanted));
  Output total = reduce_sum(wanted);
  Node* train = Adam(0.001).minimize(loss);
  Var count = variable(graph, Tensor::scalar(0.0f), "count", false);
  Node* counted = count.assign_add(constant(graph, Tensor::scalar(1.0f)));
  LocalSession session(graph, two_threads_a_kernel());
  session.run({global_variables_initializer(graph)});
  // Another shape, and so other sizes of memory, for each thread.
  auto batch = [](int thread) {
    return filled({1 + thread, 4}, [](std::int64_t i) { return static_cast<float>(i % 3); });
  };
  auto sum_of = [](const Tensor& values) {
    float sum = 0;
    for (float value : values.flat<float>()) sum += value;
    return sum;
  };
  const float first_loss = session.run({{x, batch(7)}}, {loss})[0].scalar<float>();
  std::atomic<int> wrong{0};
  run_threads(8, [&](int thread) {
    const Tensor fed = batch(thread);
    const float sum = sum_of(fed);
    for (int i = 0; i < steps; ++i) {
      const std::vector<Tensor> out = session.run({{x, fed}}, {total, loss}, {train, counted});
      if (out[0].scalar<float>() != sum || !std::isfinite(out[1].scalar<float>())) ++wrong;
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(session.run({}, {count})[0].scalar<float>(), 8.0f * static_cast<float>(steps)) << "an update was lost";
  EXPECT_LT(session.run({{x, batch(7)}}, {loss})[0].scalar<float>(), 0.5f * first_loss);
}

constexpr std::int64_t kElements = 20000;

// An update that adds one to every element, by this op; of ApplyAdam, that moves all elements alike.
struct Update {
  std::string op;  // of a reference; of a resource another name
  bool resource;
  bool use_locking;
};

// A variable, what gives it its value, and slots for its optimiser.
class UpdatedVariable {
 public:
  explicit UpdatedVariable(const Update& update) : update_(update) {
    ref_ = state("w");
    read_ = update.resource ? op1("ReadVariableOp", {ref_}, {{"dtype", DType::kFloat}}) : identity(ref_);
    node_ = add_update();
  }
  Graph& graph() { return graph_; }
  Output read() const { return read_; }
  Node* update() const { return node_; }
  const std::vector<NodeName>& initializers() const { return initializers_; }

 private:
  Output state(const std::string& name) {
    AttrMap attrs{{"shape", PartialShape{kElements}}, {"dtype", DType::kFloat}};
    if (update_.resource) attrs["shared_name"] = name;
    Output ref = add_op(graph_, update_.resource ? "VarHandleOp" : "VariableV2", {}, std::move(attrs), name)->output();
    initializers_.emplace_back(add_op(graph_, update_.resource ? "AssignVariableOp" : "Assign",
                                      {ref, zeros(graph_, DType::kFloat, {kElements})}));
    return ref;
  }
  Output number(float value) { return constant(graph_, Tensor::scalar(value)); }
  Node* add_update() {
    Output ones = tutti::ones(graph_, DType::kFloat, {kElements});
    if (update_.op == "AssignAdd") {
      return update_.resource ? add_op(graph_, "AssignAddVariableOp", {ref_, ones})
                              : add_op(graph_, "AssignAdd", {ref_, ones}, {{"use_locking", update_.use_locking}});
    }
    const std::string op = (update_.resource ? "Resource" : "") + update_.op;
    if (update_.op == "ScatterAdd") {
      Tensor rows(DType::kInt32, {kElements});
      for (std::int32_t i = 0; i < kElements; ++i) rows.flat<std::int32_t>()[i] = i;
      return add_op(graph_, op, {ref_, constant(graph_, rows), ones},
                    update_.resource ? AttrMap() : AttrMap{{"use_locking", update_.use_locking}});
    }
    const AttrMap attrs{{"use_locking", update_.use_locking}};
    if (update_.op == "ApplyGradientDescent") return add_op(graph_, op, {ref_, number(-1), ones}, attrs);
    return add_op(graph_, op,
                  {ref_, state("m"), state("v"), number(0.9f), number(0.99f), number(0.1f), number(0.9f), number(0.99f),
                   number(1e-8f), ones},
                  attrs);
  }

  const Update update_;
  Graph graph_{builtin_ops()};
  std::vector<NodeName> initializers_;
  Output ref_;
  Output read_;
  Node* node_ = nullptr;
};

class TornVariable : public ::testing::TestWithParam<Update> {};

// A reader checks that all elements of what it reads are the same, while writers change all of them alike.
TEST_P(TornVariable, IsNeverSeen) {
  const int updates = 200 * stress_factor();
  UpdatedVariable variable(GetParam());
  LocalSession session(variable.graph(), two_threads_a_kernel());
  session.run(variable.initializers());
  std::atomic<bool> stop{false};
  std::atomic<int> torn{0};
  std::thread reader([&] {
    while (!stop) {
      const Tensor seen = session.run({}, {variable.read()})[0];
      const auto values = seen.flat<float>();
      for (float value : values) torn += value != values[0];
    }
  });
  run_threads(4, [&](int) {
    for (int i = 0; i < updates; ++i) session.run({variable.update()});
  });
  stop = true;
  reader.join();
  EXPECT_EQ(torn.load(), 0);
  const Tensor last = session.run({}, {variable.read()})[0];
  for (float value : last.flat<float>()) ASSERT_EQ(value, last.flat<float>()[0]);
  if (GetParam().op == "ApplyAdam") {
    EXPECT_LT(last.flat<float>()[0], 0.0f);
  } else {
    EXPECT_EQ(last.flat<float>()[0], 4.0f * static_cast<float>(updates)) << "an update was lost";
  }
}

std::vector<Update> all_updates() {
  std::vector<Update> updates;
  for (const char* op : {"AssignAdd", "ApplyGradientDescent", "ApplyAdam", "ScatterAdd"}) {
    for (bool resource : {false, true}) {
      for (bool use_locking : {false, true}) {
        const bool has_attr = !resource || std::string(op).starts_with("Apply");
        if (has_attr || !use_locking) updates.push_back({op, resource, use_locking});
      }
    }
  }
  return updates;
}
INSTANTIATE_TEST_SUITE_P(Updates, TornVariable, ::testing::ValuesIn(all_updates()), [](const auto& info) {
  return info.param.op + (info.param.resource ? "Resource" : "Ref") + (info.param.use_locking ? "Locked" : "");
});

// Pieces of a batch begin and end anywhere in it, also within the run of products that share an operand.
TEST(Concurrency, ProductsOfABatchRunSideBySide) {
  const auto number = [](std::int64_t i) { return static_cast<float>(i * 7 % 23 - 11); };  // sums are exact
  constexpr std::int64_t kRows = 41, kInner = 60, kColumns = 50;
  for (const auto& [outer_x, outer_y] : {std::pair<Shape, Shape>{{7, 5}, {7, 5}}, {{7, 1}, {5}}, {{35}, {1}}}) {
    const auto with = [](const Shape& outer, std::int64_t rows, std::int64_t columns) {
      std::vector<std::int64_t> dims(outer.dims().begin(), outer.dims().end());
      dims.insert(dims.end(), {rows, columns});
      return Shape::create(dims).value_or_throw();
    };
    const Tensor x = filled(with(outer_x, kRows, kInner), number), y = filled(with(outer_y, kInner, kColumns), number);
    Graph graph(builtin_ops());
    Output product = batch_matmul(constant(graph, x), constant(graph, y));
    SessionOptions options;
    options.threads = {.intra_op_threads = 3, .inter_op_threads = 1};
    options.passes.fold_constants = false;
    const Tensor got = LocalSession(graph, options).run({}, {product})[0];
    ASSERT_EQ(got.num_elements(), 35 * kRows * kColumns);
    for (std::int64_t p = 0; p < 35; ++p) {
      const std::int64_t in_x = outer_x.num_elements() == 7 ? p / 5 : p;
      const std::int64_t in_y = p % outer_y.num_elements();
      for (std::int64_t i = 0; i < kRows * kColumns; ++i) {
        float sum = 0;
        for (std::int64_t k = 0; k < kInner; ++k) {
          sum += x.flat<float>()[(in_x * kRows + i / kColumns) * kInner + k] *
                 y.flat<float>()[(in_y * kInner + k) * kColumns + i % kColumns];
        }
        ASSERT_EQ(got.flat<float>()[p * kRows * kColumns + i], sum) << str_cat(outer_x, " ", outer_y, ": ", p, " ", i);
      }
    }
  }
}

}  // namespace tutti::concurrency_test
