// Optimisers on parameter servers: what a cluster computes, with variables, parts and slots over its tasks, is what one
// process computes.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>

#include "tests/support/graph_eval.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/partitioned_variable.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/clipping.h"
#include "tutti/optim/delay_compensation.h"
#include "tutti/optim/ftrl.h"
#include "tutti/optim/lamb.h"
#include "tutti/optim/moving_averages.h"
#include "tutti/optim/schedules.h"
#include "tutti/optim/sgd.h"
#include "tutti/runtime/local_session.h"
#include "tutti/strategies/replica_device_setter.h"

namespace tutti::optimizer_cluster_test {

using Values = std::map<std::string, std::vector<double>>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Var& global_step)>;

Tensor counted(const Shape& shape) {
  Tensor tensor(DType::kDouble, shape);
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) tensor.data<double>()[i] = 0.1 * static_cast<double>(i + 1);
  return tensor;
}

// A table in three parts of which rows are read, some twice, a layer behind it, and averages of both.
struct Model {
  explicit Model(const MakeOptimizer& make, const DeviceFunction& devices)
      : graph(builtin_ops()), scope(graph.device_scope(devices)) {
    PartitionedVar table = partitioned_variable(graph, counted({7, 2}), "table", fixed_size_partitioner(3));
    Var w = variable(graph, counted({2, 2}), "w");
    Var step = variable(graph, Tensor::scalar(std::int64_t{0}), "global_step", false);
    ids = placeholder(graph, DType::kInt64, PartialShape{4});
    Output out = matmul(table.gather(ids), w);
    optimizer = make(step);
    Node* minimized = optimizer->apply_gradients(
        clip_by_global_norm(optimizer->compute_gradients(reduce_sum(square(out))), 2.5), step);
    std::vector<Var> averaged = table.parts();
    averaged.push_back(w);
    ExponentialMovingAverage averages(0.5);
    {
      ScopeGuard wait = graph.control_dependencies({minimized});
      train = averages.apply(averaged);
    }
    initializer = global_variables_initializer(graph);
  }

  Values run(Session& session) {
    session.run({initializer});
    for (std::int64_t t = 0; t < 4; ++t) {
      session.run({{ids, Tensor::vector<std::int64_t>({t % 7, 6, (t + 3) % 7, 6})}}, {}, {train});
    }
    Values values;
    for (const Var& variable : global_variables(graph)) {
      values[variable.name()] = testing::to_doubles(session.run({}, {variable.read()})[0]);
    }
    return values;
  }

  Graph graph;
  ScopeGuard scope;
  Output ids;
  std::unique_ptr<Optimizer> optimizer;
  Node* train = nullptr;
  Node* initializer = nullptr;
};

class OptimizerClusterTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    InProcessClusterOptions options;
    options.ps = 2;
    cluster_ = InProcessCluster::start(std::move(options)).value_or_throw().release();
  }
  static void TearDownTestSuite() {
    delete cluster_;
    cluster_ = nullptr;
  }

  static DeviceFunction devices() { return replica_device_setter({.ps_tasks = 2}); }

  static void expect_same(const MakeOptimizer& make) {
    Model local_model(make, DeviceFunction()), model(make, devices());
    LocalSession local(local_model.graph);
    const auto session = connect(cluster_->target(), model.graph).value_or_throw();
    const Values expected = local_model.run(local), got = model.run(*session);
    ASSERT_EQ(got.size(), expected.size());
    for (const auto& [name, values] : expected) {
      ASSERT_TRUE(got.contains(name)) << name;
      ASSERT_EQ(got.at(name).size(), values.size()) << name;
      for (std::size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(got.at(name)[i], values[i], 1e-12) << name << " element " << i;
      }
    }
  }

  static InProcessCluster* cluster_;
};

InProcessCluster* OptimizerClusterTest::cluster_ = nullptr;

TEST_F(OptimizerClusterTest, Adam) {
  expect_same([](const Var& step) {
    return std::make_unique<Adam>(
        exponential_decay(constant(step.handle().graph(), 0.1, DType::kDouble), step.read(), 2, 0.5));
  });
}

// Norms are over parts on both servers.
TEST_F(OptimizerClusterTest, Lamb) {
  expect_same([](const Var&) { return std::make_unique<LAMB>(0.1, 0.01); });
}

TEST_F(OptimizerClusterTest, Ftrl) {
  expect_same([](const Var&) { return std::make_unique<Ftrl>(0.1, FtrlOptions{.l1_regularization_strength = 0.01}); });
}

TEST_F(OptimizerClusterTest, DelayCompensation) {
  // Owns what it wraps, as long as the model.
  class Owning : public DelayCompensation {
   public:
    explicit Owning(std::unique_ptr<SGD> inner)
        : DelayCompensation(*inner, {.adaptive = true}), inner_(std::move(inner)) {}

   private:
    std::unique_ptr<SGD> inner_;
  };
  expect_same([](const Var&) { return std::make_unique<Owning>(std::make_unique<SGD>(0.05)); });
}

// A worker with delay compensation: it pulls the weights, and later pushes a gradient that is fed.
struct DelayedWorker {
  DelayedWorker(InProcessCluster& cluster, const DelayCompensationOptions& options)
      : graph(builtin_ops()), sgd(kRate), optimizer(sgd, options) {
    ScopeGuard scope = graph.device_scope(replica_device_setter({.ps_tasks = 2}));
    w.emplace(variable(graph, Tensor::vector<double>({1, -2}), "delayed"));
    gradient = placeholder(graph, DType::kDouble, PartialShape{2});
    pull = optimizer.pull({*w});
    push = optimizer.apply_gradients({{gradient, *w}});
    initializer = global_variables_initializer(graph);
    session = connect(cluster.target(), graph).value_or_throw();
  }
  void push_gradient(const std::vector<double>& value) {
    session->run({{gradient, Tensor::vector<double>(value)}}, {}, {push});
  }

  static constexpr double kRate = 0.05;
  Graph graph;
  SGD sgd;
  DelayCompensation optimizer;
  std::optional<Var> w;
  Output gradient;
  Node* pull = nullptr;
  Node* push = nullptr;
  Node* initializer = nullptr;
  std::unique_ptr<Session> session;
};

// Another worker's update comes between a worker's pull and its push.
TEST_F(OptimizerClusterTest, DelayCompensationOfTwoWorkers) {
  for (const bool adaptive : {false, true}) {
    DelayCompensationOptions options{.worker = 0, .lambda = 0.5, .adaptive = adaptive};
    DelayedWorker slow(*cluster_, options);
    options.worker = 1;
    DelayedWorker fast(*cluster_, options);
    slow.session->run({slow.initializer});
    slow.session->run({slow.pull});
    fast.session->run({fast.pull});
    const std::vector<double> pulled = {1, -2}, first = {3, 4}, late = {-2, 5};
    fast.push_gradient(first);
    slow.push_gradient(late);
    const std::vector<double> got = testing::to_doubles(slow.session->run({}, {slow.w->read()})[0]);
    for (std::size_t i = 0; i < 2; ++i) {
      // Nobody came between the fast one's pull and its push.
      const double between = pulled[i] - DelayedWorker::kRate * first[i];
      const double mean_square = 0.95 * 0.05 * first[i] * first[i] + 0.05 * late[i] * late[i];
      const double lambda = adaptive ? 0.5 / std::sqrt(mean_square + 1e-7) : 0.5;
      const double corrected = late[i] + lambda * late[i] * late[i] * (between - pulled[i]);
      EXPECT_NEAR(got[i], between - DelayedWorker::kRate * corrected, 1e-12) << "element " << i << ", " << adaptive;
    }
  }
}

// With devices of variables only, the placer puts slots beside them by their `_class`: the value is on that task.
TEST_F(OptimizerClusterTest, SlotsAreOnTheTaskOfTheirVariable) {
  Graph graph(builtin_ops());
  std::optional<Var> w;
  {
    ScopeGuard scope = graph.device_scope("/job:ps/task:1");
    w = variable(graph, Tensor::scalar(2.0), "placed");
  }
  Adam optimizer(0.1);
  Node* train = optimizer.minimize(square(*w));
  for (const Var& slot : optimizer.slots()) graph.set_requested_device(*slot.handle().node, "");
  auto read_on = [&](int task) {
    ScopeGuard scope = graph.device_scope(str_cat("/job:ps/task:", task));
    Node* handle =
        add_op(graph, "VarHandleOp", {},
               {{"dtype", DType::kDouble}, {"shape", PartialShape::scalar()}, {"shared_name", "placed/Adam"}});
    return op1("ReadVariableOp", {handle->output()}, {{"dtype", DType::kDouble}});
  };
  Output right = read_on(1), wrong = read_on(0);
  Node* init = global_variables_initializer(graph);
  const auto session = connect(cluster_->target(), graph).value_or_throw();
  session->run({init});
  session->run({train});
  EXPECT_NEAR(testing::to_doubles(session->run({}, {right})[0])[0], 0.1 * 4, 1e-12);
  EXPECT_THROW(session->run({}, {wrong}), Error);
}

}  // namespace tutti::optimizer_cluster_test
