#include "tutti/train/queue_runner.h"

#include <chrono>
#include <future>

#include "tests/train/train_fixture.h"
#include "tutti/graph/graph_def.h"
#include "tutti/ops/builders.h"
#include "tutti/runtime/local_session.h"
#include "tutti/train/coordinator.h"

namespace tutti::queue_runner_test {

using test::thrown_by;

// A queue of five places that is filled from a counter up to a limit.
struct QueueGraph {
  explicit QueueGraph(std::int64_t limit, int threads = 1) : graph(builtin_ops()) {
    queue = add_op(graph, "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kInt64}}, {"capacity", 5}},
                   "numbers")
                ->output();
    counter.emplace(variable(graph, Tensor::scalar<std::int64_t>(0), "counter"));
    for (int i = 0; i < threads; ++i) {
      const Output next =
          add_op(graph, "ResourceCountUpTo", {counter->handle()}, {{"limit", limit}, {"T", DType::kInt64}})->output();
      enqueue.push_back(add_op(graph, "QueueEnqueueV2", {queue, next}));
    }
    dequeue =
        add_op(graph, "QueueDequeueV2", {queue}, {{"component_types", std::vector<DType>{DType::kInt64}}})->output();
    init = global_variables_initializer(graph);
  }
  Graph graph;
  Output queue;
  std::optional<Var> counter;
  std::vector<Node*> enqueue;
  Output dequeue;
  Node* init = nullptr;
};

TEST(QueueRunnerTest, FillsTheQueueAndClosesItAtTheEndOfTheInput) {
  ManualClock clock;
  QueueGraph numbers(20, 3);
  const QueueRunner runner(numbers.queue, numbers.enqueue);
  LocalSession session(numbers.graph);
  session.run({numbers.init});
  Coordinator coordinator(clock);
  runner.start(session, coordinator);
  std::int64_t sum = 0;
  const Status end = thrown_by([&] {
    while (true) sum += session.run({}, {numbers.dequeue})[0].scalar<std::int64_t>();
  });
  EXPECT_EQ(end.code(), Code::kOutOfRange) << end.to_string();
  EXPECT_EQ(sum, 20 * 19 / 2);
  EXPECT_FALSE(coordinator.should_stop());
  coordinator.request_stop();
  coordinator.join();
}

TEST(QueueRunnerTest, AStopEndsThreadsThatWaitForRoom) {
  ManualClock clock;
  QueueGraph numbers(1000);
  const QueueRunner runner(numbers.queue, numbers.enqueue);
  LocalSession session(numbers.graph);
  session.run({numbers.init});
  Coordinator coordinator(clock);
  runner.start(session, coordinator);
  EXPECT_EQ(session.run({}, {numbers.dequeue})[0].scalar<std::int64_t>(), 0);
  EXPECT_EQ(coordinator.running().size(), 2u);
  EXPECT_EQ(coordinator.running()[1], "QueueRunnerThread-numbers-close_on_stop");
  coordinator.request_stop();
  coordinator.join();
  EXPECT_TRUE(coordinator.running().empty());
}

TEST(QueueRunnerTest, AStopEndsAThreadThatWaitsForSomethingElse) {
  ManualClock clock;
  QueueGraph numbers(1000);
  const Output empty =
      add_op(numbers.graph, "FIFOQueueV2", {}, {{"component_types", std::vector<DType>{DType::kInt64}}}, "never_filled")
          ->output();
  Node* wait =
      add_op(numbers.graph, "QueueDequeueV2", {empty}, {{"component_types", std::vector<DType>{DType::kInt64}}});
  const QueueRunner runner(numbers.queue, {wait});
  LocalSession session(numbers.graph);
  Coordinator coordinator(clock);
  runner.start(session, coordinator);
  coordinator.request_stop();
  auto joined = std::async(std::launch::async, [&] { coordinator.join({std::chrono::hours(1)}); });
  while (joined.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    clock.advance(std::chrono::milliseconds(100));
  }
  joined.get();
  EXPECT_TRUE(coordinator.running().empty());
}

TEST(QueueRunnerTest, AnErrorReachesTheCoordinator) {
  ManualClock clock;
  QueueGraph numbers(20);
  const QueueRunner runner(numbers.queue, numbers.enqueue);
  LocalSession session(numbers.graph);  // not initialised
  Coordinator coordinator(clock);
  runner.start(session, coordinator);
  const Status error = thrown_by([&] { coordinator.join(); });
  EXPECT_EQ(error.code(), Code::kFailedPrecondition) << error.to_string();
  EXPECT_NE(error.message().find("queue runner \"numbers\""), std::string::npos) << error.to_string();
}

TEST(QueueRunnerTest, TheGraphRemembersRunners) {
  QueueGraph numbers(20, 2);
  QueueRunner runner(numbers.queue, numbers.enqueue);
  runner.closed_codes = {Code::kOutOfRange, Code::kCancelled};
  add_queue_runner(numbers.graph, runner);
  ASSERT_EQ(queue_runners(numbers.graph).size(), 1u);
  const QueueRunner found = queue_runners(numbers.graph)[0];
  EXPECT_EQ(found.name, "numbers");
  EXPECT_EQ(found.enqueue, runner.enqueue);
  EXPECT_EQ(found.close, runner.close);
  EXPECT_EQ(found.cancel, runner.cancel);
  EXPECT_EQ(found.closed_codes, runner.closed_codes);
  Graph copy(builtin_ops());
  EXPECT_TRUE(import_graph_def(export_graph_def(numbers.graph), copy).ok());
}

TEST(QueueRunnerTest, RefusesWhatIsNoQueue) {
  QueueGraph numbers(20);
  EXPECT_EQ(thrown_by([&] { QueueRunner(numbers.queue, {}); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([&] { QueueRunner(numbers.dequeue, numbers.enqueue); }).code(), Code::kInvalidArgument);
}

}  // namespace tutti::queue_runner_test
