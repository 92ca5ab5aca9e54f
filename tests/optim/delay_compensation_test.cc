// DC-ASGD against the formula, worker by worker, in plain double.
#include "tutti/optim/delay_compensation.h"

#include <random>

#include "tests/optim/optimizer_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/sgd.h"

namespace tutti::delay_compensation_test {

using testing::Doubles;

constexpr double kRate = 0.1, kLambda = 0.7;
constexpr int kWorkers = 3, kSize = 4;

class DelayCompensationTest : public testing::OptimizerFixture {
 protected:
  // What a worker does to shared weights: a pull, and a push of a gradient that is fed.
  struct Worker {
    Node* pull;
    Node* push;
  };

  std::vector<Worker> make_workers(const Var& w, Output g, DelayCompensationOptions options) {
    std::vector<Worker> workers;
    for (int k = 0; k < kWorkers; ++k) {
      options.worker = k;
      inner_.push_back(std::make_unique<SGD>(kRate));
      optimizers_.push_back(std::make_unique<DelayCompensation>(*inner_.back(), options));
      Node* pull = optimizers_.back()->pull({w});
      workers.push_back({pull, optimizers_.back()->apply_gradients({{Gradient(g), w}})});
    }
    return workers;
  }

  static Doubles draw(std::mt19937& engine, std::size_t size) {
    Doubles values(size);
    for (double& x : values) x = std::uniform_real_distribution<double>(-1, 1)(engine);
    return values;
  }

  std::vector<std::unique_ptr<Optimizer>> inner_;
  std::vector<std::unique_ptr<DelayCompensation>> optimizers_;
};

// Forty pulls and pushes of three workers in any order.
TEST_F(DelayCompensationTest, FollowsTheFormulaWhateverTheDelays) {
  std::mt19937 engine(11);
  Doubles w = draw(engine, kSize);
  Var variable = make_variable(Tensor::vector<double>(w));
  Output g = placeholder(graph_, DType::kDouble, PartialShape{kSize});
  const std::vector<Worker> workers = make_workers(variable, g, {.lambda = kLambda});
  initialize();
  std::vector<Doubles> backup(kWorkers, w);
  for (const Worker& worker : workers) evaluator_.run_target(worker.pull);
  for (int i = 0; i < 40; ++i) {
    const int k = static_cast<int>(engine() % kWorkers);
    if (engine() % 4 == 0) {
      evaluator_.run_target(workers[k].pull);
      backup[k] = w;
      continue;
    }
    const Doubles gradient = draw(engine, kSize);
    evaluator_.run_target(workers[k].push, {{g, Tensor::vector<double>(gradient)}});
    for (int j = 0; j < kSize; ++j) {
      const double late = gradient[j] + kLambda * gradient[j] * gradient[j] * (w[j] - backup[k][j]);
      w[j] -= kRate * late;
    }
    backup[k] = w;
    const Doubles got = value_of(variable);
    for (int j = 0; j < kSize; ++j) ASSERT_NEAR(got[j], w[j], 1e-14) << "event " << i << ", element " << j;
  }
}

TEST_F(DelayCompensationTest, TheAdaptiveFormSharesItsMeanSquare) {
  std::mt19937 engine(12);
  Doubles w = draw(engine, kSize), mean(kSize);
  Var variable = make_variable(Tensor::vector<double>(w));
  Output g = placeholder(graph_, DType::kDouble, PartialShape{kSize});
  // One worker is one graph in life; here one optimiser stands for two by its order of pulls.
  SGD inner(kRate);
  DelayCompensation optimizer(inner, {.lambda = kLambda, .adaptive = true, .decay = 0.9, .epsilon = 1e-3});
  Node* pull = optimizer.pull({variable});
  Node* push = optimizer.apply_gradients({{Gradient(g), variable}});
  Output fed = placeholder(graph_, DType::kDouble, PartialShape{kSize});
  Node* others = variable.assign_add(fed);
  initialize();
  for (int i = 0; i < 10; ++i) {
    evaluator_.run_target(pull);
    const Doubles backup = w, moved = draw(engine, kSize), gradient = draw(engine, kSize);
    evaluator_.run_target(others, {{fed, Tensor::vector<double>(moved)}});
    evaluator_.run_target(push, {{g, Tensor::vector<double>(gradient)}});
    for (int j = 0; j < kSize; ++j) {
      w[j] += moved[j];
      mean[j] = 0.9 * mean[j] + 0.1 * gradient[j] * gradient[j];
      const double lambda = kLambda / std::sqrt(mean[j] + 1e-3);
      w[j] -= kRate * (gradient[j] + lambda * gradient[j] * gradient[j] * (w[j] - backup[j]));
    }
    expect_near(value_of(variable), w);
  }
  EXPECT_NE(graph_.find("w/DelayCompensation"), nullptr);
}

// Rows 2, 0, 2: the square is that of the sum.
TEST_F(DelayCompensationTest, RepeatedRows) {
  for (bool adaptive : {false, true}) {
    Graph graph(builtin_ops());
    testing::GraphEvaluator evaluator;
    Doubles w = {1, 2, 3, 4};
    Var table = variable(graph, Tensor::of<double>({4, 1}, w), "table");
    IndexedSlices rows{constant(graph, Tensor::of<double>({3, 1}, {0.5, 2, 0.25})),
                       constant(graph, Tensor::vector<std::int32_t>({2, 0, 2})),
                       constant(graph, Tensor::vector<std::int32_t>({4, 1}))};
    SGD inner(kRate);
    DelayCompensation optimizer(inner, {.lambda = kLambda, .adaptive = adaptive, .decay = 0.5, .epsilon = 0});
    Node* pull = optimizer.pull({table});
    Node* push = optimizer.apply_gradients({{Gradient(rows), table}});
    Node* others = table.assign_add(constant(graph, Tensor::of<double>({4, 1}, {1, 1, -2, 1})));
    evaluator.run_target(global_variables_initializer(graph));
    evaluator.run_target(pull);
    evaluator.run_target(others);
    evaluator.run_target(push);
    const auto late = [&](double g, double change) {
      const double lambda = adaptive ? kLambda / std::sqrt(0.5 * g * g) : kLambda;
      return g + lambda * g * g * change;
    };
    expect_near(testing::to_doubles(evaluator.run(table.read())),
                {2 - kRate * late(2, 1), 3, 1 - kRate * late(0.75, -2), 5});
  }
}

// In one step nothing comes between: what is left is the plain optimiser.
TEST_F(DelayCompensationTest, WithoutDelayItIsTheInnerOptimizer) {
  Var w = make_variable(Tensor::vector<double>({3, -4}));
  Var plain = make_variable(Tensor::vector<double>({3, -4}), "plain");
  Var step = variable(graph_, Tensor::scalar(std::int64_t{0}), "global_step", false);
  Momentum inner(0.1, 0.9), other(0.1, 0.9);
  DelayCompensation optimizer(inner, {.worker = 5, .lambda = 10});
  Output axis = constant(graph_, 0, DType::kInt32);
  Node* train = optimizer.minimize(op1("Sum", {op1("Square", {w}), axis}), {w}, step);
  Node* reference = other.minimize(op1("Sum", {op1("Square", {plain}), axis}), {plain});
  initialize();
  for (int i = 0; i < 3; ++i) {
    evaluator_.run_target(train);
    evaluator_.run_target(reference);
  }
  EXPECT_EQ(value_of(w), value_of(plain));
  EXPECT_EQ(value_of(step), Doubles{3});
  EXPECT_EQ(optimizer.slots().size(), 1u);
  EXPECT_EQ(optimizer.get_slot(w, "momentum")->name(), "w/Momentum");
}

TEST_F(DelayCompensationTest, BackupsLieBesideTheirVariablesAndAreNobodysBusiness) {
  Var w = make_variable(Tensor::scalar(1.0));
  SGD inner(0.1);
  DelayCompensation optimizer(inner, {.worker = 2});
  const std::size_t before = global_variables(graph_).size();
  optimizer.pull({w});
  EXPECT_EQ(global_variables(graph_).size(), before);
  Node* backup = graph_.find("w/DelayCompensation/worker_2");
  ASSERT_NE(backup, nullptr);
  EXPECT_EQ(backup->attr<std::vector<std::string>>("_class"), std::vector<std::string>{"loc:@w"});
  EXPECT_EQ(backup->attr<std::string>("shared_name"), backup->name());
}

TEST_F(DelayCompensationTest, APushBeforeAnyPullFails) {
  Var w = make_variable(Tensor::scalar(1.0));
  SGD inner(0.1);
  DelayCompensation optimizer(inner);
  Node* push = optimizer.apply_gradients({{Gradient(constant(graph_, Tensor::scalar(1.0))), w}});
  initialize();
  EXPECT_THROW(evaluator_.run_target(push), Error);
  EXPECT_THROW(DelayCompensation(inner, {.worker = -1}), Error);
  EXPECT_THROW(optimizer.pull({}), Error);
}

}  // namespace tutti::delay_compensation_test
