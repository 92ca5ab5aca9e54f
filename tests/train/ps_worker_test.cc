#include "tutti/train/ps_worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tutti/distributed/in_process_cluster.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/optim/sgd.h"

namespace tutti::ps_worker_test {

class PSWorkerTest : public ::testing::Test {
 protected:
  PSWorkerTest() {
    InProcessClusterOptions options{.workers = 2, .ps = 1};
    options.server.log = [](const std::string&) {};
    cluster_ = InProcessCluster::start(std::move(options)).value_or_throw();
  }

  PSWorkerOptions options(int index) const {
    PSWorkerOptions options;
    options.cluster = cluster_->cluster();
    options.is_chief = index == 0;
    options.task_index = index;
    options.session.environment.log = nullptr;
    return options;
  }

  std::unique_ptr<InProcessCluster> cluster_;
};

// Adds one to a variable on the parameter server in each step.
class Counter : public PSWorker {
 public:
  Counter(PSWorkerOptions options, int steps) : PSWorker(std::move(options)), steps_(steps) {}
  ~Counter() override { finish(); }

  float value() { return session().run({}, {*count_})[0].scalar<float>(); }
  std::string variable_device() const { return count_->handle().node->requested_device(); }

  std::atomic<int> done{0};

 private:
  void build(Graph& graph) override {
    const auto scope = graph.device_scope(device());
    count_.emplace(variable(graph, Tensor::scalar<float>(0), "count"));
    add_ = count_->assign_add(constant(graph, Tensor::scalar<float>(1)));
  }
  bool step(Session& session, const RunOptions& options) override {
    session.run({add_}, options);
    return ++done != steps_;
  }

  const int steps_;
  std::optional<Var> count_;
  Node* add_ = nullptr;
};

TEST_F(PSWorkerTest, StepsEndByThemselves) {
  Counter worker(options(0), 20);
  worker.start();
  EXPECT_EQ(worker.variable_device(), "/job:ps/task:0");
  EXPECT_EQ(worker.config().master, cluster_->worker(0).target());
  EXPECT_EQ(worker.name(), "/job:worker/replica:0/task:0");
  worker.join();
  EXPECT_EQ(worker.done, 20);
  EXPECT_TRUE(worker.coordinator().should_stop());
  worker.stop();
  worker.join();
}

TEST_F(PSWorkerTest, WorkersShareVariables) {
  Counter chief(options(0), 50);
  Counter other(options(1), 30);
  chief.start();
  other.start();
  other.join();
  while (chief.done != 50) std::this_thread::yield();
  EXPECT_EQ(chief.value(), 80);
  chief.join();
}

TEST_F(PSWorkerTest, StopsBetweenSteps) {
  Counter worker(options(0), -1);
  worker.start();
  while (worker.done < 5) std::this_thread::yield();
  worker.stop();
  const int done = worker.done;
  EXPECT_GE(done, 5);
  worker.stop();
  EXPECT_EQ(worker.done, done);
}

// Takes from a queue that nobody fills.
class Waiter : public PSWorker {
 public:
  using PSWorker::PSWorker;
  ~Waiter() override { finish(); }

  std::atomic<bool> in_step{false};

 private:
  void build(Graph& graph) override {
    const auto scope = graph.device_scope("/job:ps/task:0");
    const std::vector<DType> types = {DType::kFloat};
    Node* const queue = graph.add_node({.op = "FIFOQueueV2", .attrs = {{"component_types", types}}}).value_or_throw();
    take_ = graph.add_node({.op = "QueueDequeueV2", .inputs = {queue->output()}, .attrs = {{"component_types", types}}})
                .value_or_throw();
  }
  bool step(Session& session, const RunOptions& options) override {
    in_step = true;
    session.run({take_}, options);
    return true;
  }

  Node* take_ = nullptr;
};

TEST_F(PSWorkerTest, StopsWhileAStepIsInFlight) {
  Waiter worker(options(0));
  worker.start();
  while (!worker.in_step) std::this_thread::yield();
  worker.stop();
  // The cluster has not suffered.
  Counter next(options(0), 3);
  next.start();
  next.join();
  EXPECT_EQ(next.done, 3);
}

TEST_F(PSWorkerTest, StopEndsAnothersJoin) {
  Waiter worker(options(0));
  worker.start();
  std::thread other([&] { worker.stop(); });
  worker.join();
  other.join();
}

TEST_F(PSWorkerTest, ADestroyedWorkerStops) {
  Waiter worker(options(0));
  worker.start();
}

TEST_F(PSWorkerTest, StopEndsTheWaitForTheChief) {
  Counter worker(options(1), 1);  // no chief initialises the variables
  std::thread other([&] { worker.stop(); });
  EXPECT_THROW(worker.start(), Error);
  other.join();
}

TEST_F(PSWorkerTest, WhoIsToldOfTheStartMayCallTheWorker) {
  PSWorkerOptions talkative = options(1);  // no chief initialises the variables: it waits, and says so
  Counter* starting = nullptr;
  int told = 0;
  talkative.session.environment.log = [&](const std::string&) {
    if (told++ == 0) starting->stop();
  };
  Counter worker(talkative, 1);
  starting = &worker;
  EXPECT_THROW(worker.start(), Error);
  EXPECT_GT(told, 0);
}

// A worker's server whose cluster has a parameter server that never comes.
TEST(PSWorkerStart, StopEndsTheOpeningOfASessionWhileAServerIsMissing) {
  ServerOptions lonely;
  lonely.cluster.set("ps", 0, "127.0.0.1:1");
  lonely.cluster.set("worker", 0, "127.0.0.1:0");
  lonely.job = "worker";
  lonely.task = 0;
  lonely.log = [](const std::string&) {};
  const std::unique_ptr<Server> server = Server::start(lonely).value_or_throw();
  for (const bool is_chief : {true, false}) {
    PSWorkerOptions options;
    options.cluster = lonely.cluster;
    options.is_chief = is_chief;
    options.session.master = server->target();
    options.session.max_wait_secs = 60;
    options.session.environment.log = nullptr;
    Counter worker(options, 1);
    std::thread other([&] { worker.stop(); });
    try {
      worker.start();
      ADD_FAILURE() << "there is no ps";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCancelled) << error.what();
      EXPECT_NE(std::string(error.what()).find("the worker was stopped"), std::string::npos) << error.what();
    }
    other.join();
  }
}

// The caller's own cancellation ends it too, and is not in the way of the worker's.
TEST(PSWorkerStart, TheConnectionsOwnCancellationEndsTheOpening) {
  ServerOptions lonely;
  lonely.cluster.set("ps", 0, "127.0.0.1:1");
  lonely.cluster.set("worker", 0, "127.0.0.1:0");
  lonely.job = "worker";
  lonely.task = 0;
  lonely.log = [](const std::string&) {};
  const std::unique_ptr<Server> server = Server::start(lonely).value_or_throw();
  enum class Ended { kBefore, kByOwn, kByStop };
  for (const Ended how : {Ended::kBefore, Ended::kByOwn, Ended::kByStop}) {
    Cancellation own;
    if (how == Ended::kBefore) own.cancel(cancelled("the caller's"));
    PSWorkerOptions options;
    options.cluster = lonely.cluster;
    options.is_chief = true;
    options.session.master = server->target();
    options.session.max_wait_secs = 60;
    options.session.environment.log = nullptr;
    options.session.config.cluster.cancellation = &own;
    Counter worker(options, 1);
    std::thread other([&] {
      if (how == Ended::kByOwn) own.cancel(cancelled("the caller's"));
      if (how == Ended::kByStop) worker.stop();
    });
    try {
      worker.start();
      ADD_FAILURE() << "there is no ps";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kCancelled) << error.what();
      const char* const cause = how == Ended::kByStop ? "the worker was stopped" : "the caller's";
      EXPECT_NE(std::string(error.what()).find(cause), std::string::npos) << error.what();
    }
    other.join();
  }
}

// Its steps do not listen.
class Stubborn : public PSWorker {
 public:
  using PSWorker::PSWorker;
  ~Stubborn() override { finish(); }

  std::atomic<bool> in_step{false};
  std::atomic<bool> may_end{false};

 private:
  void build(Graph& graph) override { variable(graph, Tensor::scalar<float>(0), "v"); }
  bool step(Session&, const RunOptions&) override {
    in_step = true;
    while (!may_end) std::this_thread::yield();
    return false;
  }
};

TEST_F(PSWorkerTest, AStepThatOutlivesTheGraceIsWaitedForByTheDestructor) {
  PSWorkerOptions impatient = options(0);
  impatient.stop_grace_period = std::chrono::milliseconds(1);
  std::atomic<bool>* may_end = nullptr;
  bool waited = false;
  impatient.session.environment.log = [&](const std::string& line) {
    if (line.find("outlived the grace period") == std::string::npos) return;
    waited = true;
    *may_end = true;
  };
  {
    Stubborn worker(impatient);
    may_end = &worker.may_end;
    worker.start();
    while (!worker.in_step) std::this_thread::yield();
    try {
      worker.stop();
      ADD_FAILURE() << "the step still runs";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDeadlineExceeded) << error.what();
    }
  }
  EXPECT_TRUE(waited);
}

TEST_F(PSWorkerTest, WhoIsToldOfALateStepMayCallTheWorkerAndThrow) {
  PSWorkerOptions impatient = options(0);
  impatient.stop_grace_period = std::chrono::milliseconds(1);
  Stubborn* running = nullptr;
  int told = 0;
  impatient.session.environment.log = [&](const std::string& line) {
    if (line.find("outlived the grace period") == std::string::npos) return;
    ++told;
    EXPECT_THROW(running->stop(), Error);
    running->may_end = true;
    throw std::runtime_error("a log's own");
  };
  {
    Stubborn worker(impatient);
    running = &worker;
    worker.start();
    while (!worker.in_step) std::this_thread::yield();
  }
  EXPECT_EQ(told, 1);
}

class Failing : public PSWorker {
 public:
  Failing(PSWorkerOptions options, Status error) : PSWorker(std::move(options)), error_(std::move(error)) {}
  ~Failing() override { finish(); }

 private:
  void build(Graph& graph) override { variable(graph, Tensor::scalar<float>(0), "v"); }
  bool step(Session&, const RunOptions&) override { throw_error(error_); }
  const Status error_;
};

TEST_F(PSWorkerTest, WhatAStepThrowsIsThrownOnce) {
  Failing worker(options(0), invalid_argument("no such digit"));
  worker.start();
  try {
    worker.join();
    FAIL() << "the error is lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("no such digit"), std::string::npos);
  }
  worker.stop();
}

TEST_F(PSWorkerTest, TheEndOfTheDataIsNoError) {
  Failing worker(options(0), out_of_range("no more"));
  worker.start();
  worker.join();
}

TEST_F(PSWorkerTest, StartsOnce) {
  Counter worker(options(0), 1);
  worker.start();
  EXPECT_THROW(worker.start(), Error);
  worker.join();
  EXPECT_THROW(Counter(options(7), 1), Error);  // no such task
}

}  // namespace tutti::ps_worker_test
