// Synchronous replicas on whole clusters within this process: several workers, each with a graph and a session of its
// own, and variables on parameter servers.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <functional>
#include <future>
#include <thread>

#include "tests/train/train_fixture.h"
#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/process_identity.h"
#include "tutti/distributed/in_process_cluster.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/optim/adam.h"
#include "tutti/optim/momentum.h"
#include "tutti/optim/sgd.h"
#include "tutti/optim/strict_replicas.h"
#include "tutti/optim/sync_replicas.h"
#include "tutti/runtime/local_session.h"
#include "tutti/strategies/replica_device_setter.h"
#include "tutti/train/gradient_ledger.h"
#include "tutti/train/hooks/gradient_ledger_hook.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/monitored_training_session.h"
#include "tutti/train/sync_replicas_hook.h"

namespace tutti::replicas_test {

using namespace std::chrono_literals;

constexpr int kPs = 2;
constexpr int kFeatures = 5;
constexpr int kClasses = 3;
constexpr int kWords = 12;

std::unique_ptr<InProcessCluster> start_cluster(int workers) {
  InProcessClusterOptions options;
  options.workers = workers;
  options.ps = kPs;
  options.server.log = [](const std::string&) {};
  options.server.runtime.intra_op_threads = 1;
  options.server.runtime.inter_op_threads = 1;
  return InProcessCluster::start(std::move(options)).value_or_throw();
}

std::string worker_name(int index) { return str_cat("/job:worker/task:", index); }

// Numbers that look random and are the same everywhere.
double noise(std::int64_t i) { return std::sin(static_cast<double>(i) * 12.9898) * 1.7; }

Tensor noise_tensor(DType dtype, const Shape& shape, std::int64_t from) {
  Tensor result(dtype, shape);
  for (std::int64_t i = 0; i < shape.num_elements(); ++i) {
    if (dtype == DType::kDouble) {
      result.data<double>()[i] = noise(from + i);
    } else {
      result.data<float>()[i] = static_cast<float>(noise(from + i));
    }
  }
  return result;
}

// Examples begin .. begin + count of an endless data set.
struct Batch {
  Batch(DType dtype, std::int64_t begin, std::int64_t count)
      : features(noise_tensor(dtype, Shape{count, kFeatures}, begin * kFeatures)),
        answers(noise_tensor(dtype, Shape{count, kClasses}, 7777 + begin * kClasses)),
        words(DType::kInt64, Shape{count}) {
    for (std::int64_t i = 0; i < count; ++i) words.data<std::int64_t>()[i] = (begin + i) * (begin + i) % kWords;
  }
  Tensor features, answers, words;
};

// tanh(x w + b) v + table[word], mean squares.
struct Model {
  Model(Graph& graph, DType dtype, bool with_table) {
    global_step = variable(graph, Tensor::scalar(std::int64_t{0}), "global_step", false);
    w = variable(graph, noise_tensor(dtype, Shape{kFeatures, 4}, 1), "w");
    b = variable(graph, noise_tensor(dtype, Shape{4}, 50), "b");
    v = variable(graph, noise_tensor(dtype, Shape{4, kClasses}, 90), "v");
    features = placeholder(graph, dtype, PartialShape{kUnknownDim, kFeatures}, "features");
    answers = placeholder(graph, dtype, PartialShape{kUnknownDim, kClasses}, "answers");
    words = placeholder(graph, DType::kInt64, PartialShape{kUnknownDim}, "words");
    variables = {*w, *b, *v};
    Output out = matmul(tanh(matmul(features, *w) + *b), *v);
    if (with_table) {
      const Var table = variable(graph, noise_tensor(dtype, Shape{kWords, kClasses}, 300), "table");
      variables.push_back(table);
      const ScopeGuard beside = graph.colocate_with(*table.handle().node);
      out = out + op1("ResourceGather", {table.handle(), words}, {{"dtype", dtype}});
    }
    loss = reduce_mean(square(out - answers));
  }
  Feeds feeds(const Batch& batch) const {
    return {{features, batch.features}, {answers, batch.answers}, {words, batch.words}};
  }
  std::optional<Var> global_step, w, b, v;
  std::vector<Var> variables;
  Output features, answers, words, loss;
};

std::vector<Tensor> values_of(Session& session, const Model& model) {
  std::vector<TensorName> reads;
  for (const Var& variable : model.variables) reads.emplace_back(variable.read());
  return session.run({}, reads);
}

// A worker of between-graph replication.
struct Worker {
  Worker(InProcessCluster& cluster, int index, DType dtype, bool with_table)
      : graph(builtin_ops()), name(worker_name(index)) {
    scope.emplace(
        graph.device_scope(replica_device_setter({.cluster = cluster.cluster(), .worker_device = worker_name(index)})));
    model.emplace(graph, dtype, with_table);
    target = cluster.worker(index).target();
  }
  void connect_to_master() {
    initializer = global_variables_initializer(graph);
    std::vector<std::string> tasks;
    for (int i = 0; i < kPs; ++i) tasks.push_back(str_cat("/job:ps/task:", i));
    ledger.emplace(graph, tasks);
    ConnectOptions options;
    options.operation_timeout = 120s;  // so that a failing test ends
    session = connect(target, graph, options).value_or_throw();
  }
  std::map<std::string, GradientCounts> counts() { return counts_by_worker(ledger->read(*session)); }
  std::int64_t global_step() { return session->run({}, {model->global_step->read()})[0].scalar<std::int64_t>(); }
  Status ready(ReplicaSync& sync) {
    const Tensor missing = session->run({}, {sync.ready_for_local_init()})[0];
    return missing.num_elements() == 0 ? Status() : failed_precondition(missing.to_string());
  }

  Graph graph;
  std::string name, target;
  std::optional<ScopeGuard> scope;
  std::optional<Model> model;
  std::optional<GradientLedgerReader> ledger;
  Node* initializer = nullptr;
  std::unique_ptr<Session> session;
};

struct SyncWorker : Worker {
  SyncWorker(InProcessCluster& cluster, int index, int aggregate, int total, DType dtype = DType::kDouble,
             bool with_table = false)
      : Worker(cluster, index, dtype, with_table),
        sync(optimizer, {.replicas_to_aggregate = aggregate, .total_num_replicas = total, .worker = name}) {
    sync.minimize(model->loss, *model->global_step);
    connect_to_master();
  }
  void train(const Batch& batch) { session->run(model->feeds(batch), {}, {sync.train()}); }
  Momentum optimizer{0.05, 0.9};
  SyncReplicas sync;
};

// The chief's thread: runs `sync` so many times.
std::thread run_syncs(Session& session, Node* sync, int times) {
  return std::thread([&session, sync, times] {
    for (int i = 0; i < times; ++i) session.run({sync});
  });
}

void run_on_threads(std::vector<std::function<void()>> bodies) {
  std::vector<std::future<void>> running;
  for (auto& body : bodies) running.push_back(std::async(std::launch::async, std::move(body)));
  for (auto& one : running) one.get();
}

// What one worker makes of the whole batches, on one machine.
std::vector<Tensor> train_alone(DType dtype, bool with_table, int steps, int batch_size) {
  Graph graph(builtin_ops());
  Model model(graph, dtype, with_table);
  Momentum optimizer(0.05, 0.9);
  Node* train = optimizer.minimize(model.loss, {}, model.global_step);
  Node* initializer = global_variables_initializer(graph);
  LocalSession session(graph);
  session.run({initializer});
  for (int step = 0; step < steps; ++step) {
    session.run(model.feeds(Batch(dtype, std::int64_t{step} * batch_size, batch_size)), {}, {train});
  }
  return values_of(session, model);
}

double element(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::kDouble ? t.data<double>()[i] : static_cast<double>(t.data<float>()[i]);
}

// Each variable within `bound` times its norm.
void expect_close(const std::vector<Tensor>& got, const std::vector<Tensor>& expected, double bound = 1e-12) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].shape(), expected[i].shape());
    ASSERT_EQ(got[i].dtype(), expected[i].dtype());
    double difference = 0, norm = 0;
    for (std::int64_t k = 0; k < got[i].num_elements(); ++k) {
      const double d = element(got[i], k) - element(expected[i], k);
      difference += d * d;
      norm += element(expected[i], k) * element(expected[i], k);
    }
    EXPECT_LE(std::sqrt(difference), bound * std::sqrt(norm)) << "variable " << i;
  }
}

void expect_many_equal_one(DType dtype, double bound) {
  const int steps = 6, batch = 4;
  for (const int workers : {1, 2, 4}) {
    SCOPED_TRACE(str_cat(workers, " workers"));
    const auto cluster = start_cluster(workers);
    std::vector<std::unique_ptr<SyncWorker>> all;
    for (int i = 0; i < workers; ++i) all.push_back(std::make_unique<SyncWorker>(*cluster, i, workers, workers, dtype));
    SyncWorker& chief = *all[0];
    EXPECT_FALSE(chief.ready(chief.sync).ok());
    chief.session->run({chief.initializer});
    ASSERT_TRUE(chief.ready(chief.sync).ok());
    chief.session->run({chief.sync.chief_init()});
    for (const auto& worker : all) {
      if (worker.get() != &chief) worker->session->run({worker->sync.local_step_init()});
    }
    Node* sync = chief.sync.sync();
    std::thread chief_thread = run_syncs(*chief.session, sync, steps);
    // No tokens to begin with, and nobody begins a step before all have a token of the last one: else a fast worker
    // could take another's token, and one that has made its steps would leave too few gradients behind.
    for (int step = 0; step < steps; ++step) {
      std::vector<std::function<void()>> bodies;
      for (int i = 0; i < workers; ++i) {
        bodies.push_back([&, i, step] {
          all[static_cast<std::size_t>(i)]->train(Batch(dtype, (step * workers + i) * batch, batch));
        });
      }
      run_on_threads(std::move(bodies));
    }
    chief_thread.join();
    EXPECT_EQ(chief.global_step(), steps);
    expect_close(values_of(*chief.session, *chief.model), train_alone(dtype, false, steps, workers * batch), bound);
    for (const auto& [name, counts] : chief.counts()) {
      EXPECT_EQ(counts, (GradientCounts{.applied = steps * 3})) << name;
    }
    EXPECT_EQ(chief.counts().size(), static_cast<std::size_t>(workers));
  }
}

// What remains is the order of sums. A mean over W x B examples, in two orders, differs by less than 16 roundings (of
// 1.1e-16, or 6e-8), and six steps with momentum add up less than 20 such gradients, in values of about their size.
// Roundings go both ways: of floats 1e-6 of the norm is promised, where the worst case is 2e-5.
TEST(SyncReplicasClusterTest, ManyWorkersWithSmallBatchesEqualOneWithALargeOne) {
  expect_many_equal_one(DType::kDouble, 1e-13);
}

TEST(SyncReplicasClusterTest, ManyWorkersWithSmallBatchesEqualOneWithALargeOneInFloats) {
  expect_many_equal_one(DType::kFloat, 1e-6);
}

// behaviour.md 9.14: the tokens that are there from the beginning let workers run ahead by one.
TEST(SyncReplicasClusterTest, TokensLetWorkersBegin) {
  const auto cluster = start_cluster(2);
  SyncWorker w0(*cluster, 0, 2, 2), w1(*cluster, 1, 2, 2);
  Node* tokens = w0.sync.init_tokens();
  w0.session->run({w0.initializer});
  w0.session->run({w0.sync.chief_init()});
  w1.session->run({w1.sync.local_step_init()});
  w0.session->run({tokens});
  const Batch batch(DType::kDouble, 0, 4);
  // Two tokens, so that one worker alone makes two contributions to the first step.
  w0.train(batch);
  w0.train(batch);
  EXPECT_EQ(w0.global_step(), 0);
  w0.session->run({w0.sync.sync()});
  EXPECT_EQ(w0.global_step(), 1);
  w1.train(batch);  // computed for step 0, which is over
  EXPECT_EQ(w0.counts()[w1.name], (GradientCounts{.stale = 3}));
  EXPECT_EQ(w1.session->run({}, {w1.sync.local_step().read()})[0].scalar<std::int64_t>(), 1);
  // Closing the queue ends who waits for a token.
  w1.train(batch);
  std::future<Status> waiting = std::async(
      std::launch::async, [&] { return w1.session->try_run(w1.model->feeds(batch), {}, {w1.sync.train()}).status(); });
  w0.session->run({w0.sync.close()});
  EXPECT_EQ(waiting.get().code(), Code::kOutOfRange);
}

// behaviour.md 9.15: the gradients of the slowest come too late, and the others do not wait for them.
TEST(SyncReplicasClusterTest, BackupWorkers) {
  const auto cluster = start_cluster(3);
  std::vector<std::unique_ptr<SyncWorker>> all;
  for (int i = 0; i < 3; ++i) all.push_back(std::make_unique<SyncWorker>(*cluster, i, 2, 3));
  SyncWorker& chief = *all[0];
  SyncWorker& slow = *all[2];
  chief.session->run({chief.initializer});
  chief.session->run({chief.sync.chief_init()});
  all[1]->session->run({all[1]->sync.local_step_init()});
  slow.session->run({slow.sync.local_step_init()});
  std::thread first = run_syncs(*chief.session, chief.sync.sync(), 1);
  run_on_threads(
      {[&] { chief.train(Batch(DType::kDouble, 0, 4)); }, [&] { all[1]->train(Batch(DType::kDouble, 4, 4)); }});
  first.join();
  const std::vector<Tensor> before = values_of(*chief.session, *chief.model);
  expect_close(before, train_alone(DType::kDouble, false, 1, 8));
  slow.train(Batch(DType::kDouble, 999, 4));  // computed for step 0; it goes on with the token that was left for it
  EXPECT_EQ(slow.session->run({}, {slow.sync.local_step().read()})[0].scalar<std::int64_t>(), 1);
  const std::vector<Tensor> after = values_of(*chief.session, *chief.model);
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(bitwise_equal(before[i], after[i]));

  // Now it stands still, and the others go on.
  const int steps = 6;
  std::thread rest = run_syncs(*chief.session, chief.sync.sync(), steps - 1);
  const auto train_on = [&](SyncWorker& worker) {
    for (int i = 0; worker.global_step() < steps; ++i) worker.train(Batch(DType::kDouble, 4 * i, 4));
  };
  run_on_threads({[&] { train_on(chief); }, [&] { train_on(*all[1]); }});
  rest.join();
  EXPECT_EQ(chief.global_step(), steps);
  const auto counts = chief.counts();
  EXPECT_EQ(counts.at(slow.name), (GradientCounts{.stale = 3}));
  EXPECT_GE(counts.at(chief.name).applied + counts.at(all[1]->name).applied, 2 * 3 * steps);
}

// More contributions to a step than workers.
TEST(SyncReplicasClusterTest, FewerWorkersThanGradientsOfAStep) {
  const auto cluster = start_cluster(1);
  SyncWorker worker(*cluster, 0, 2, 1);
  EXPECT_THROW(worker.sync.init_tokens(0), Error);
  Node* tokens = worker.sync.init_tokens(1);
  worker.session->run({worker.initializer});
  worker.session->run({worker.sync.chief_init()});
  worker.session->run({tokens});
  std::thread chief_thread = run_syncs(*worker.session, worker.sync.sync(), 3);
  for (int i = 0; i < 6; ++i) worker.train(Batch(DType::kDouble, i * 4, 4));
  chief_thread.join();
  EXPECT_EQ(worker.global_step(), 3);
  expect_close(values_of(*worker.session, *worker.model), train_alone(DType::kDouble, false, 3, 8));
}

TEST(SyncReplicasClusterTest, RowsOfATable) {
  const auto cluster = start_cluster(2);
  SyncWorker w0(*cluster, 0, 2, 2, DType::kDouble, true), w1(*cluster, 1, 2, 2, DType::kDouble, true);
  w0.session->run({w0.initializer});
  w0.session->run({w0.sync.chief_init()});
  w1.session->run({w1.sync.local_step_init()});
  const Tensor before = values_of(*w0.session, *w0.model)[3];
  std::thread chief_thread = run_syncs(*w0.session, w0.sync.sync(), 1);
  Batch first(DType::kDouble, 0, 2), second(DType::kDouble, 2, 2);
  first.words = Tensor::vector<std::int64_t>({1, 4});
  second.words = Tensor::vector<std::int64_t>({4, 6});
  run_on_threads({[&] { w0.train(first); }, [&] { w1.train(second); }});
  chief_thread.join();
  const Tensor after = values_of(*w0.session, *w0.model)[3];
  for (int word = 0; word < kWords; ++word) {
    const bool same = before.data<double>()[word * kClasses] == after.data<double>()[word * kClasses];
    EXPECT_EQ(same, word != 1 && word != 4 && word != 6) << word;
  }
  EXPECT_EQ(w0.counts()[w1.name], (GradientCounts{.applied = 4}));
}

// --- Strict. ---

struct StrictWorker : Worker {
  StrictWorker(InProcessCluster& cluster, int index, int shards, std::chrono::milliseconds lease = 1h,
               bool with_table = true)
      : Worker(cluster, index, DType::kFloat, with_table),
        sync(graph, optimizer, {.num_shards = shards, .worker = name, .lease = lease}) {
    sync.minimize(model->loss, *model->global_step);
    connect_to_master();
  }
  // Shards of four examples, until the global step is reached.
  void train_until(std::int64_t last_step, int shards) {
    Tensor claim = session->run({}, {sync.claim()})[0];
    while (claim.data<std::int64_t>()[0] < last_step) claim = train(claim, shards);
  }
  Tensor train(const Tensor& claim, int shards) {
    return session->run(feeds_of(claim, shards), {sync.next_claim()}, {sync.train()})[0];
  }
  Feeds feeds_of(const Tensor& claim, int shards) const {
    const std::int64_t number = claim.data<std::int64_t>()[0] * shards + claim.data<std::int64_t>()[1];
    Feeds feeds = model->feeds(Batch(DType::kFloat, number * 4, 4));
    feeds.emplace_back(sync.claim(), claim);
    return feeds;
  }
  Adam optimizer{0.01};
  StrictReplicas sync;
};

// Trains so many steps on a fresh cluster. Gives the variables.
std::vector<Tensor> train_strictly(int workers, int shards, int steps) {
  const auto cluster = start_cluster(workers);
  std::vector<std::unique_ptr<StrictWorker>> all;
  for (int i = 0; i < workers; ++i) all.push_back(std::make_unique<StrictWorker>(*cluster, i, shards));
  StrictWorker& chief = *all[0];
  chief.session->run({chief.initializer});
  chief.session->run({chief.sync.chief_init()});
  std::thread chief_thread = run_syncs(*chief.session, chief.sync.sync(), steps);
  std::vector<std::function<void()>> bodies;
  for (int i = 0; i < workers; ++i) {
    bodies.push_back([&, i] {
      StrictWorker& worker = *all[static_cast<std::size_t>(i)];
      if (i > 0) worker.session->run({worker.sync.local_step_init()});
      worker.train_until(steps, shards);
    });
  }
  run_on_threads(std::move(bodies));
  chief_thread.join();
  EXPECT_EQ(chief.global_step(), steps);
  GradientCounts total;
  for (const auto& [name, counts] : chief.counts()) total += counts;
  EXPECT_EQ(total, (GradientCounts{.applied = std::int64_t{steps} * shards * 4}));
  return values_of(*chief.session, *chief.model);
}

TEST(StrictReplicasClusterTest, TheSameBitsOnAnyNumberOfWorkers) {
  const int shards = 8, steps = 5;
  const std::vector<Tensor> expected = train_strictly(1, shards, steps);
  for (const int workers : {1, 2, 4, 2, 4}) {
    const std::vector<Tensor> got = train_strictly(workers, shards, steps);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << workers << " workers, variable " << i;
    }
  }
}

TEST(StrictReplicasClusterTest, ARetryCountsOnce) {
  const auto cluster = start_cluster(1);
  StrictWorker worker(*cluster, 0, 2);
  worker.session->run({worker.initializer});
  worker.session->run({worker.sync.chief_init()});
  const Tensor first = worker.session->run({}, {worker.sync.claim()})[0];
  EXPECT_TRUE(bitwise_equal(first, Tensor::vector<std::int64_t>({0, 0})));
  const Tensor second = worker.train(first, 2);
  EXPECT_TRUE(bitwise_equal(second, Tensor::vector<std::int64_t>({0, 1})));
  // As after a step that failed on its way back: the same shard once more.
  const Feeds feeds = worker.feeds_of(first, 2);
  EXPECT_TRUE(bitwise_equal(worker.session->run(feeds, {worker.sync.next_claim()}, {worker.sync.train()})[0], second));
  EXPECT_EQ(worker.counts()[worker.name], (GradientCounts{.retried = 4})) << "nothing is taken yet";
  std::thread chief_thread = run_syncs(*worker.session, worker.sync.sync(), 1);
  const Tensor third = worker.train(second, 2);
  EXPECT_TRUE(bitwise_equal(third, Tensor::vector<std::int64_t>({1, 0})));
  chief_thread.join();
  worker.train(third, 2);
  // And of a step that is over.
  worker.session->run(feeds, {}, {worker.sync.train()});
  EXPECT_EQ(worker.counts()[worker.name], (GradientCounts{.applied = 8, .stale = 4, .retried = 4}));
}

// The worker that dies holds a shard; `die` ends it.
void expect_others_go_on(std::chrono::milliseconds lease,
                         const std::function<void(InProcessCluster&, StrictWorker&)>& die) {
  const int shards = 4, steps = 3;
  const auto cluster = start_cluster(2);
  StrictWorker chief(*cluster, 0, shards, lease);
  auto dying = std::make_unique<StrictWorker>(*cluster, 1, shards, lease);
  chief.session->run({chief.initializer});
  chief.session->run({chief.sync.chief_init()});
  std::promise<Status> presence;
  dying->session->run_async({}, {}, {dying->sync.presence()}, {},
                            [&presence](Status status, const std::vector<Tensor>&) { presence.set_value(status); });
  dying->session->run({dying->sync.local_step_init()});
  const Tensor held = dying->session->run({}, {dying->sync.claim()})[0];
  EXPECT_EQ(held.data<std::int64_t>()[1], 1);
  die(*cluster, *dying);
  std::thread chief_thread = run_syncs(*chief.session, chief.sync.sync(), steps);
  chief.train_until(steps, shards);
  chief_thread.join();
  EXPECT_EQ(chief.counts()[chief.name].applied, steps * shards * 4);
  const std::vector<Tensor> expected = train_strictly(1, shards, steps);
  const std::vector<Tensor> got = values_of(*chief.session, *chief.model);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << i;
  dying.reset();
  EXPECT_FALSE(presence.get_future().get().ok());
}

TEST(StrictReplicasClusterTest, AWorkerWhoseSessionIsClosedGivesBackItsShard) {
  expect_others_go_on(1h, [](InProcessCluster&, StrictWorker& worker) { EXPECT_TRUE(worker.session->close().ok()); });
}

TEST(StrictReplicasClusterTest, AWorkerWhoseTaskIsGoneGivesBackItsShard) {
  expect_others_go_on(1h, [](InProcessCluster& cluster, StrictWorker&) { cluster.worker(1).stop(); });
}

TEST(StrictReplicasClusterTest, AWorkerThatStandsStillLosesItsShard) {
  expect_others_go_on(20ms, [](InProcessCluster&, StrictWorker&) {});
}

// --- In monitored sessions. ---

MonitoredTrainingSessionOptions monitored(const Worker& worker, ReplicaSync& sync, bool is_chief, int last_step) {
  MonitoredTrainingSessionOptions options;
  options.master = worker.target;
  options.is_chief = is_chief;
  options.hooks = {SyncReplicasHook(sync, is_chief), StopAtStepHook({.last_step = last_step})};
  options.environment.log = nullptr;
  options.config.cluster.operation_timeout = 120s;
  return options;
}

TEST(SyncReplicasClusterTest, MonitoredSessions) {
  const int steps = 20;
  const auto cluster = start_cluster(2);
  test::Lines log;
  std::vector<std::unique_ptr<SyncWorker>> all;
  for (int i = 0; i < 2; ++i) all.push_back(std::make_unique<SyncWorker>(*cluster, i, 2, 2));
  const auto train = [&](int i) {
    SyncWorker& worker = *all[static_cast<std::size_t>(i)];
    MonitoredTrainingSessionOptions options = monitored(worker, worker.sync, i == 0, steps);
    if (i == 0) {
      options.environment.log = log.sink();
      options.chief_only_hooks = {
          GradientLedgerHook({.devices = {"/job:ps/task:0", "/job:ps/task:1"}, .every_n_steps = 5})};
    }
    MonitoredTrainingSession session(worker.graph, options);
    int number = 0;
    session.loop([&] {
      session.run(worker.model->feeds(Batch(DType::kDouble, 4 * (2 * number++ + i), 4)), {}, {worker.sync.train()});
    });
  };
  run_on_threads({[&] { train(1); }, [&] { train(0); }});
  EXPECT_GE(all[0]->global_step(), steps);
  const auto counts = all[0]->counts();
  EXPECT_GE(counts.at(all[0]->name).applied, 1);
  // The chief's, at 5 steps' distance and at the end, when its last gradient has come.
  const std::string said = "Gradients of " + all[0]->name + " at step ";
  std::vector<std::string> lines = log.all();
  std::erase_if(lines, [&](const std::string& line) { return !line.starts_with(said); });
  ASSERT_GE(lines.size(), 2u);
  EXPECT_NE(lines.back().find(str_cat(": ", counts.at(all[0]->name).applied, " applied, ",
                                      counts.at(all[0]->name).stale, " stale, 0 retried")),
            std::string::npos)
      << lines.back();
}

// The chief fails once the other worker has joined in, which then waits for it, and learns of that.
template <typename SomeWorker, typename Step>
void expect_chiefs_error_at_worker(SomeWorker& chief, SomeWorker& worker, const Step& step) {
  Status heard;
  std::atomic<bool> joined = false;
  const auto lead = [&] {
    MonitoredTrainingSession session(chief.graph, monitored(chief, chief.sync, true, 1'000'000));
    session.loop([&] {
      if (joined) throw_error(invalid_argument("no such digit: 11"));
      step(session, chief);
    });
  };
  const auto follow = [&] {
    MonitoredTrainingSession session(worker.graph, monitored(worker, worker.sync, false, 1'000'000));
    session.loop([&] {
      step(session, worker);
      joined = true;
    });
  };
  run_on_threads({[&] { EXPECT_THROW(lead(), Error); },
                  [&] {
                    try {
                      follow();
                    } catch (const Error& error) {
                      heard = error.status();
                    }
                  }});
  EXPECT_EQ(heard.code(), Code::kCancelled) << heard.to_string();
  EXPECT_NE(heard.message().find(str_cat("the chief (", describe_this_process(), ", master grpc://")),
            std::string::npos)
      << heard.to_string();
  EXPECT_NE(heard.message().find("no such digit: 11"), std::string::npos) << heard.to_string();
}

TEST(SyncReplicasClusterTest, WorkersHearOfAChiefThatFails) {
  const auto cluster = start_cluster(2);
  SyncWorker chief(*cluster, 0, 2, 2), worker(*cluster, 1, 2, 2);
  expect_chiefs_error_at_worker(chief, worker, [](MonitoredTrainingSession& session, SyncWorker& who) {
    session.run(who.model->feeds(Batch(DType::kDouble, 0, 4)), {}, {who.sync.train()});
  });
}

TEST(StrictReplicasClusterTest, WorkersHearOfAChiefThatFails) {
  const auto cluster = start_cluster(2);
  StrictWorker chief(*cluster, 0, 2, 1h), worker(*cluster, 1, 2, 1h);
  expect_chiefs_error_at_worker(chief, worker, [](MonitoredTrainingSession& session, StrictWorker& who) {
    session.run(who.model->feeds(Batch(DType::kFloat, 0, 4)), {}, {who.sync.train()});
  });
}

// Calls back when there is a session, before the hooks that come after it.
struct CreatedHook : SessionRunHook {
  explicit CreatedHook(std::function<void()> body) : body(std::move(body)) {}
  void after_create_session(Session&, Coordinator&) override { body(); }
  std::function<void()> body;
};

Status status_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.status();
  }
  return {};
}

Status train_in(SyncWorker& who, const MonitoredTrainingSessionOptions& options) {
  return status_of([&] {
    MonitoredTrainingSession session(who.graph, options);
    session.loop([&] { session.run(who.model->feeds(Batch(DType::kDouble, 0, 4)), {}, {who.sync.train()}); });
  });
}

// Its disk is full when it writes the first checkpoint, before anything of the synchronisation has begun.
TEST(SyncReplicasClusterTest, WorkersHearOfAChiefThatFailsWhileItsSessionIsMade) {
  const auto cluster = start_cluster(2);
  SyncWorker chief(*cluster, 0, 2, 2), worker(*cluster, 1, 2, 2);
  std::atomic<bool> joined = false;
  MonitoredTrainingSessionOptions leads = monitored(chief, chief.sync, true, 1'000'000);
  leads.hooks.insert(leads.hooks.begin(), Hook(CreatedHook([&] {
                       const auto limit = std::chrono::steady_clock::now() + 120s;
                       while (!joined && std::chrono::steady_clock::now() < limit) std::this_thread::sleep_for(1ms);
                       EXPECT_TRUE(joined);
                       throw_error(resource_exhausted("no space left on device"));
                     })));
  MonitoredTrainingSessionOptions follows = monitored(worker, worker.sync, false, 1'000'000);
  follows.hooks.push_back(CreatedHook([&] { joined = true; }));
  Status failed, heard;
  run_on_threads({[&] { failed = train_in(chief, leads); }, [&] { heard = train_in(worker, follows); }});
  EXPECT_EQ(failed, resource_exhausted("no space left on device"));
  EXPECT_EQ(heard.code(), Code::kCancelled) << heard.to_string();
  EXPECT_NE(heard.message().find("no space left on device"), std::string::npos) << heard.to_string();
}

TEST(SyncReplicasClusterTest, AWorkerThatComesAfterTheChiefHasFailedDoesNotWaitForEver) {
  const auto cluster = start_cluster(2);
  SyncWorker chief(*cluster, 0, 2, 2), worker(*cluster, 1, 2, 2);
  MonitoredTrainingSessionOptions leads = monitored(chief, chief.sync, true, 1'000'000);
  leads.hooks.push_back(CreatedHook([] { throw_error(invalid_argument("no such digit: 11")); }));
  EXPECT_EQ(train_in(chief, leads).code(), Code::kInvalidArgument);

  const auto clock = std::make_shared<ManualClock>();
  std::atomic<bool> there = false;
  MonitoredTrainingSessionOptions follows = monitored(worker, worker.sync, false, 1'000'000);
  follows.environment.clock = clock;
  follows.hooks.insert(follows.hooks.begin(), Hook(CreatedHook([&] { there = true; })));
  std::future<Status> heard = std::async(std::launch::async, [&] { return train_in(worker, follows); });
  while (heard.wait_for(1ms) != std::future_status::ready) clock->advance(there ? 1s : 10ms);
  const Status status = heard.get();
  EXPECT_EQ(status.code(), Code::kCancelled) << status.to_string();
  EXPECT_NE(status.message().find("no such digit: 11"), std::string::npos) << status.to_string();
}

TEST(StrictReplicasClusterTest, ACancellationEndsTheWaitForTheChief) {
  const auto cluster = start_cluster(2);
  StrictWorker chief(*cluster, 0, 2), worker(*cluster, 1, 2);
  chief.session->run({chief.initializer});  // and no more: there is nothing to claim
  Cancellation cancellation;
  std::atomic<bool> there = false;
  MonitoredTrainingSessionOptions options = monitored(worker, worker.sync, false, 10);
  options.config.cluster.operation_timeout = 0s;  // which would end the wait too
  options.environment.cancellation = &cancellation;
  options.hooks.insert(options.hooks.begin(), Hook(CreatedHook([&] { there = true; })));
  std::future<Status> ended = std::async(
      std::launch::async, [&] { return status_of([&] { MonitoredTrainingSession(worker.graph, options); }); });
  while (!there && ended.wait_for(1ms) != std::future_status::ready) continue;
  EXPECT_TRUE(there);
  cancellation.cancel(cancelled("enough"));
  if (ended.wait_for(120s) != std::future_status::ready) {
    ADD_FAILURE() << "it still waits";
    chief.session->run({chief.sync.chief_init()});
  }
  EXPECT_EQ(ended.get(), cancelled("enough"));
}

// What an earlier chief has left behind is no news to a worker that comes later, if another chief comes too.
TEST(SyncReplicasClusterTest, AJobIsStartedAgainAfterItsChiefFailed) {
  const auto cluster = start_cluster(2);
  for (const bool fails : {true, false}) {
    SyncWorker chief(*cluster, 0, 2, 2), worker(*cluster, 1, 2, 2);
    const auto train = [&](SyncWorker& who, bool is_chief) {
      MonitoredTrainingSession session(who.graph, monitored(who, who.sync, is_chief, fails ? 1'000'000 : 5));
      session.loop([&] {
        session.run(who.model->feeds(Batch(DType::kDouble, 0, 4)), {}, {who.sync.train()});
        if (is_chief && fails) throw_error(invalid_argument("no such digit: 11"));
      });
    };
    if (fails) {
      EXPECT_THROW(train(chief, true), Error);
    } else {
      run_on_threads({[&] { train(worker, false); }, [&] { train(chief, true); }});
      EXPECT_GE(chief.global_step(), 5);
    }
  }
}

// The chief waits for a token that nobody gives: what applies gradients has failed.
TEST(SyncReplicasClusterTest, AChiefWhoseGradientsCannotBeAppliedEnds) {
  const auto cluster = start_cluster(1);
  Worker chief(*cluster, 0, DType::kDouble, false);
  Momentum optimizer{0.05, 0.9};
  const auto refuse = [&]() -> Node* {
    const Output nan = constant(chief.graph, Tensor::scalar(std::nan("")));
    return op1("CheckNumerics", {nan}, {{"message", std::string("refused")}}).node;
  };
  SyncReplicas sync(optimizer, {.replicas_to_aggregate = 2, .total_num_replicas = 1, .variable_averages = refuse});
  sync.minimize(chief.model->loss, *chief.model->global_step);
  MonitoredTrainingSessionOptions options = monitored(chief, sync, true, 1'000'000);
  options.config.cluster.operation_timeout = 0s;  // which would end the wait too
  try {
    MonitoredTrainingSession session(chief.graph, options);
    session.loop([&] { session.run(chief.model->feeds(Batch(DType::kDouble, 0, 4)), {}, {sync.train()}); });
    ADD_FAILURE() << "it ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument) << error.what();
    EXPECT_NE(std::string(error.what()).find("refused"), std::string::npos) << error.what();
  }
}

TEST(StrictReplicasClusterTest, MonitoredSessionsGiveTheSameBits) {
  const int steps = 4, shards = 6;
  const std::vector<Tensor> expected = train_strictly(1, shards, steps);
  const auto cluster = start_cluster(2);
  std::vector<std::unique_ptr<StrictWorker>> all;
  for (int i = 0; i < 2; ++i) all.push_back(std::make_unique<StrictWorker>(*cluster, i, shards));
  const auto train = [&](int i) {
    StrictWorker& worker = *all[static_cast<std::size_t>(i)];
    MonitoredTrainingSession session(worker.graph, monitored(worker, worker.sync, i == 0, steps));
    Tensor claim =
        session.run_step_fn([&](StepContext& context) { return context.session().run({}, {worker.sync.claim()})[0]; });
    session.loop([&] {
      claim = session.run(worker.feeds_of(claim, shards), {worker.sync.next_claim()}, {worker.sync.train()})[0];
    });
  };
  run_on_threads({[&] { train(1); }, [&] { train(0); }});
  EXPECT_EQ(all[0]->global_step(), steps);
  const std::vector<Tensor> got = values_of(*all[0]->session, *all[0]->model);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(bitwise_equal(got[i], expected[i])) << i;
}

TEST(StrictReplicasClusterTest, AWorkerThatComesAfterTheEndHasNothingToDo) {
  const auto cluster = start_cluster(2);
  StrictWorker chief(*cluster, 0, 2), late(*cluster, 1, 2);
  {
    MonitoredTrainingSession session(chief.graph, monitored(chief, chief.sync, true, 2));
    session.loop([&] { session.run(chief.model->feeds(Batch(DType::kFloat, 0, 4)), {}, {chief.sync.train()}); });
  }
  MonitoredTrainingSession session(late.graph, monitored(late, late.sync, false, 2));
  EXPECT_TRUE(session.should_stop());
  session.loop([] { FAIL() << "training has ended"; });
  EXPECT_TRUE(session.closed());
}

TEST(StrictReplicasClusterTest, Closing) {
  const auto cluster = start_cluster(2);
  StrictWorker chief(*cluster, 0, 1), other(*cluster, 1, 1);
  chief.session->run({chief.initializer});
  chief.session->run({chief.sync.chief_init()});
  std::future<Status> waiting = std::async(
      std::launch::async, [&] { return other.session->try_run({}, {}, {other.sync.local_step_init()}).status(); });
  chief.session->run({chief.sync.close()});
  const Status ended = waiting.get();
  EXPECT_EQ(ended.code(), Code::kOutOfRange) << ended.to_string();
  // A chief that comes again goes on from the global step.
  chief.session->run({chief.sync.chief_init()});
  EXPECT_TRUE(bitwise_equal(chief.session->run({}, {chief.sync.claim()})[0], Tensor::vector<std::int64_t>({0, 0})));
}

}  // namespace tutti::replicas_test
