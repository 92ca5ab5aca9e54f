#include "tutti/distributed/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "tests/distributed/test_workers.h"
#include "tutti/distributed/derived_status.h"

namespace tutti::worker_test {

using testing::Answer;
using testing::device_name;
using testing::key_of;
using testing::PartGraph;
using testing::task_name;
using testing::TestWorkers;

bool contains(const Status& status, std::string_view text) { return status.message().find(text) != std::string::npos; }

float fetched(const RunGraphReply& reply, const std::string& key) {
  for (const auto& [name, value] : reply.recvs) {
    if (name == key) return value.scalar<float>();
  }
  ADD_FAILURE() << key << " is not in the reply";
  return 0;
}

// Task 1 sends 7, task 0 doubles it and gives it to the client.
class TwoWorkersTest : public ::testing::Test {
 protected:
  TwoWorkersTest() {
    PartGraph sender(1);
    sender.send(sender.scalar(7), 0, "seven");
    sender_ = workers_.add(1, sender);
    PartGraph receiver(0);
    receiver.send(receiver.recv(1, "seven") * receiver.scalar(2), 0, "double:0");
    receiver_ = workers_.add(0, receiver);
  }

  TestWorkers workers_{2};
  std::string sender_;
  std::string receiver_;
  const std::string result_ = key_of(0, 0, "double:0");
};

TEST_F(TwoWorkersTest, ValuesArriveWhicheverSideIsFirst) {
  for (std::int64_t step = 1; step <= 20; ++step) {
    const bool receiver_first = step % 2 == 0;
    Answer<RunGraphReply> received;
    Answer<RunGraphReply> sent;
    if (receiver_first) received = workers_.run(0, receiver_, step, {result_});
    sent = workers_.run(1, sender_, step);
    if (!receiver_first) received = workers_.run(0, receiver_, step, {result_});
    EXPECT_TRUE(sent.value().recvs.empty());
    EXPECT_EQ(fetched(received.value(), result_), 14.0f);
    workers_.cleanup(0, step);
    workers_.cleanup(1, step);
  }
}

TEST_F(TwoWorkersTest, ManyStepsAtATimeDoNotMeet) {
  PartGraph echo(1);
  echo.send(echo.recv(0, "there") + echo.scalar(1), 0, "back");
  const std::string echoing = workers_.add(1, echo);
  PartGraph asker(0);
  asker.send(asker.recv(0, "x:0"), 1, "there");
  asker.send(asker.recv(1, "back") * asker.scalar(10), 0, "y:0");
  const std::string asking = workers_.add(0, asker);
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        const std::int64_t step = t * 1000 + i + 1;
        RunGraphRequest request = workers_.request(asking, step, {key_of(0, 0, "y:0")});
        request.sends = {{key_of(0, 0, "x:0"), Tensor::scalar(static_cast<float>(step))}};
        auto asked = workers_.run(0, std::move(request));
        auto echoed = workers_.run(1, echoing, step);
        const float expected = (static_cast<float>(step) + 1) * 10;
        if (fetched(asked.value(), key_of(0, 0, "y:0")) != expected) ++wrong;
        echoed.value();
        workers_.cleanup(0, step);
        workers_.cleanup(1, step);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(TwoWorkersTest, AnErrorReachesTheTaskThatWaits) {
  PartGraph failing(1);
  Output bad = op1("CheckNumerics", {failing.scalar(NAN)}, {{"message", "look here"}}, "layer/check");
  failing.send(bad, 0, "seven");
  const std::string graph = workers_.add(1, failing);
  auto waits = workers_.run(0, receiver_, 5, {result_});
  EXPECT_FALSE(waits.is_there());
  const Status cause = workers_.run(1, graph, 5).status();
  EXPECT_EQ(cause.code(), Code::kInvalidArgument);
  EXPECT_TRUE(cause.message().starts_with("CheckNumerics \"layer/check\": look here")) << cause.to_string();
  EXPECT_TRUE(cause.message().ends_with("\n\t [[{{node layer/check}}]]")) << cause.to_string();
  EXPECT_FALSE(is_derived(cause));

  const Status derived = waits.status();
  EXPECT_EQ(derived.code(), Code::kInvalidArgument);
  EXPECT_TRUE(is_derived(derived));
  EXPECT_TRUE(contains(derived, str_cat("From ", task_name(1), ":\n", cause.message()))) << derived.to_string();
  EXPECT_FALSE(contains(without_derived_mark(derived), "Derived"));

  auto late = workers_.recv(1, 5, key_of(1, 0, "seven"));
  EXPECT_TRUE(is_derived(late.status())) << "also who asks later";
}

TEST_F(TwoWorkersTest, DeadValuesTravel) {
  PartGraph branching(1);
  Node* branch =
      add_op(branching.graph(), "Switch", {branching.scalar(7), constant(branching.graph(), Tensor::scalar(true))});
  branching.send(identity(branch->output(0)), 0, "seven");
  const std::string graph = workers_.add(1, branching);
  auto received = workers_.run(0, receiver_, 1, {result_});
  workers_.run(1, graph, 1).value();
  const Status status = received.status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "not taken")) << status.to_string();
}

TEST_F(TwoWorkersTest, ACancelledStepEndsAndWhoWaitedIsMissed) {
  Cancellation cancellation;
  auto waits = workers_.run(0, workers_.request(receiver_, 5, {result_}), {.cancellation = &cancellation});
  EXPECT_FALSE(waits.is_there());
  cancellation.cancel(cancelled("nobody wants it"));
  const Status status = waits.status();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_TRUE(contains(status, "nobody wants it")) << status.to_string();
  // The sender knows of the step through the call that waited: it gives it up, but not before the cause may have come.
  auto asks = workers_.recv(1, 5, key_of(1, 0, "other"));
  workers_.clock().advance(std::chrono::milliseconds(999));
  EXPECT_FALSE(asks.is_there());
  workers_.clock().advance(std::chrono::milliseconds(1));
  EXPECT_EQ(asks.status().code(), Code::kAborted);
  EXPECT_EQ(workers_.run(1, sender_, 5).status().code(), Code::kAborted);
}

TEST_F(TwoWorkersTest, CallsHaveDeadlines) {
  const TimePoint soon = workers_.clock().now() + std::chrono::seconds(1);
  auto run = workers_.run(0, workers_.request(receiver_, 5), {.deadline = soon});
  auto recv = workers_.recv(1, 6, key_of(1, 0, "never"), {.deadline = soon});
  EXPECT_FALSE(run.is_there());
  EXPECT_FALSE(recv.is_there());
  workers_.clock().advance(std::chrono::seconds(1));
  EXPECT_EQ(run.status().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(recv.status().code(), Code::kDeadlineExceeded);
}

TEST_F(TwoWorkersTest, CleaningUpEndsWhatWaits) {
  auto run = workers_.run(0, receiver_, 5, {result_});
  auto recv = workers_.recv(0, 5, key_of(0, 1, "never"));
  workers_.cleanup(0, 5);
  EXPECT_EQ(run.status().code(), Code::kAborted);
  const Status status = recv.status();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "step 5 was cleaned up")) << status.to_string();
}

TEST_F(TwoWorkersTest, WhatComesAfterTheEndIsRefusedForAWhile) {
  workers_.run(1, sender_, 5).value();
  workers_.cleanup(1, 5);
  workers_.cleanup(1, 6);  // overtook the messages of its step
  for (std::int64_t step : {5, 6}) {
    const Status run = workers_.run(1, sender_, step).status();
    EXPECT_EQ(run.code(), Code::kAborted);
    EXPECT_TRUE(contains(run, str_cat("step ", step, " has ended"))) << run.to_string();
    EXPECT_EQ(workers_.recv(1, step, key_of(1, 0, "seven")).status().code(), Code::kAborted);
  }
  workers_.clock().advance(std::chrono::seconds(59));
  EXPECT_EQ(workers_.run(1, sender_, 5).status().code(), Code::kAborted);
  workers_.clock().advance(std::chrono::seconds(1));
  EXPECT_TRUE(workers_.run(1, sender_, 5).status().ok());
}

TEST_F(TwoWorkersTest, KeysAreChecked) {
  EXPECT_EQ(workers_.recv(1, 1, "nonsense").status().code(), Code::kInvalidArgument);
  const Status elsewhere = workers_.recv(1, 1, key_of(0, 1, "x")).status();
  EXPECT_EQ(elsewhere.code(), Code::kAborted);
  EXPECT_TRUE(contains(elsewhere, device_name(0)) && contains(elsewhere, task_name(1))) << elsewhere.to_string();
  RendezvousKey key = RendezvousKey::parse(key_of(1, 0, "seven")).value_or_throw();
  key.send_incarnation = 555;
  const Status another_life = workers_.recv(1, 1, key.to_string()).status();
  EXPECT_EQ(another_life.code(), Code::kAborted);
  EXPECT_TRUE(contains(another_life, "555") && contains(another_life, "101")) << another_life.to_string();
}

TEST_F(TwoWorkersTest, UnknownHandlesAreAborted) {
  RunGraphRequest request = workers_.request(sender_, 1);
  request.session_handle = "other";
  Status status = workers_.run(1, request).status();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "other") && contains(status, task_name(1))) << status.to_string();
  status = workers_.run(1, "nothing", 1).status();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "nothing")) << status.to_string();
  EXPECT_EQ(workers_.try_register(1, "", "other").status().code(), Code::kAborted);
  Answer<EmptyMessage> deregistered;
  workers_.worker(1).deregister_graph(
      {.session_handle = "s", .create_worker_session_called = true, .graph_handle = sender_}, {}, deregistered.done());
  EXPECT_TRUE(deregistered.status().ok());
  EXPECT_EQ(workers_.run(1, sender_, 1).status().code(), Code::kAborted);
}

TEST_F(TwoWorkersTest, ARequestThatComesTwiceIsRefused) {
  RunGraphRequest request = workers_.request(sender_, 1);
  request.request_id = 11;
  EXPECT_TRUE(workers_.run(1, request).status().ok());
  request.step_id = 2;
  EXPECT_EQ(workers_.run(1, request).status().code(), Code::kAborted);
  EXPECT_TRUE(workers_.recv(1, 1, key_of(1, 0, "seven"), {}, 11).status().ok()) << "each method has its own";
  EXPECT_EQ(workers_.recv(1, 1, key_of(1, 0, "seven"), {}, 11).status().code(), Code::kAborted);
  EXPECT_EQ(workers_.run(1, sender_, 1).status().code(), Code::kAborted) << "a step is started once";
}

TEST_F(TwoWorkersTest, AMasterThatWasStartedAnewEndsItsOldSessions) {
  auto waits = workers_.run(0, receiver_, 5, {result_});
  EXPECT_TRUE(workers_.create_session(0, "s", 1).ok()) << "the same again";
  EXPECT_EQ(workers_.create_session(0, "s", 2).code(), Code::kAlreadyExists);
  EXPECT_TRUE(workers_.create_session(0, "second", 1).ok());
  EXPECT_FALSE(waits.is_there());
  EXPECT_TRUE(workers_.create_session(0, "new", 2).ok());
  const Status status = waits.status();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "started anew")) << status.to_string();
  EXPECT_EQ(workers_.run(0, receiver_, 6).status().code(), Code::kAborted);
  EXPECT_TRUE(workers_.try_register(0, "", "new").ok());
}

TEST_F(TwoWorkersTest, DeletingASessionEndsItsSteps) {
  auto waits = workers_.run(0, receiver_, 5, {result_});
  for (int i = 0; i < 2; ++i) {
    Answer<EmptyMessage> deleted;
    workers_.worker(0).delete_worker_session({.session_handle = "s"}, {}, deleted.done());
    EXPECT_TRUE(deleted.status().ok()) << "also one that is gone already";
  }
  EXPECT_EQ(waits.status().code(), Code::kCancelled);
  EXPECT_EQ(workers_.run(0, receiver_, 6).status().code(), Code::kAborted);
}

TEST_F(TwoWorkersTest, ASessionWhoseDeletionCameFirstIsNotMade) {
  Answer<EmptyMessage> deleted;
  workers_.worker(0).delete_worker_session({.session_handle = "early"}, {}, deleted.done());
  EXPECT_TRUE(deleted.status().ok());
  EXPECT_EQ(workers_.create_session(0, "early", 1).code(), Code::kAborted);

  Cancellation given_up;
  given_up.cancel(cancelled("the master gave up"));
  Answer<EmptyMessage> late;
  workers_.worker(0).create_worker_session({.session_handle = "late"}, {.cancellation = &given_up}, late.done());
  EXPECT_EQ(late.status().code(), Code::kCancelled);
  EXPECT_EQ(workers_.try_register(0, "", "late").status().code(), Code::kAborted);
}

TEST_F(TwoWorkersTest, ALateMessageMakesNoSessionAgain) {
  Answer<EmptyMessage> deleted;
  workers_.worker(0).delete_worker_session({.session_handle = "s"}, {}, deleted.done());
  EXPECT_TRUE(deleted.status().ok());
  EXPECT_EQ(workers_.create_session(0, "s", 1).code(), Code::kAborted) << "the master has closed it";

  EXPECT_TRUE(workers_.create_session(0, "first life", 1).ok());
  workers_.worker(0).forget_task(task_name(0), aborted("restarted"), 2);
  EXPECT_TRUE(workers_.create_session(0, "second life", 2).ok());
  const Status late = workers_.create_session(0, "other of the first life", 1);
  EXPECT_EQ(late.code(), Code::kAborted);
  EXPECT_TRUE(contains(late, task_name(0))) << late.to_string();
  EXPECT_TRUE(workers_.try_register(0, "", "second life").ok()) << "the dead do not end it";

  EXPECT_TRUE(workers_.create_session(0, "third life", 3).ok());
  EXPECT_TRUE(workers_.create_session(0, "second life, again", 2).ok()) << "nobody said which of them is dead";
}

TEST_F(TwoWorkersTest, ALateMessageOfAMasterThatWasLostFirstMakesNoSession) {
  EXPECT_TRUE(workers_.create_session(0, "first life", 1).ok());
  workers_.worker(0).forget_task(task_name(0), unavailable("lost"), 0);
  EXPECT_TRUE(workers_.create_session(0, "back as it was", 1).ok());
  workers_.worker(0).forget_task(task_name(0), unavailable("lost again"), 0);
  workers_.worker(0).forget_task(task_name(0), aborted("restarted"), 2);
  EXPECT_TRUE(workers_.create_session(0, "second life", 2).ok());
  EXPECT_EQ(workers_.create_session(0, "late", 1).code(), Code::kAborted);
  EXPECT_TRUE(workers_.try_register(0, "", "second life").ok()) << "the dead do not end it";
}

TEST_F(TwoWorkersTest, ALateMessageOfAMasterWhoseSuccessorCameFirstMakesNoSession) {
  EXPECT_TRUE(workers_.create_session(0, "first life", 1).ok());
  EXPECT_TRUE(workers_.create_session(0, "second life", 2).ok()) << "ends the first";
  workers_.worker(0).forget_task(task_name(0), aborted("restarted"), 2);
  EXPECT_EQ(workers_.create_session(0, "late", 1).code(), Code::kAborted);
  EXPECT_TRUE(workers_.try_register(0, "", "second life").ok()) << "the dead do not end it";
}

TEST_F(TwoWorkersTest, WhatWasMeantForAPredecessorMakesNoSession) {
  const auto create = [&](const std::string& handle, std::uint64_t incarnation) {
    CreateWorkerSessionRequest request{.session_handle = handle, .master_task = task_name(0), .master_incarnation = 1};
    request.cluster_devices = {{.name = testing::device_name(1), .type = "CPU", .incarnation = incarnation}};
    Answer<EmptyMessage> answer;
    workers_.worker(1).create_worker_session(request, {}, answer.done());
    return answer.status();
  };
  EXPECT_TRUE(create("meant for it", testing::incarnation_of(1)).ok());
  const Status status = create("meant for another", testing::incarnation_of(1) + 1);
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "started anew")) << status.to_string();
  EXPECT_EQ(workers_.try_register(1, "", "meant for another").status().code(), Code::kAborted);
}

// Calls `meanwhile` while it compiles.
class SlowSession : public TaskSession {
 public:
  SlowSession(std::unique_ptr<TaskSession> session, const std::function<void()>& meanwhile)
      : session_(std::move(session)), meanwhile_(meanwhile) {}
  Result<std::shared_ptr<const TaskGraph>> add_graph(std::string_view graph, const TaskGraphOptions& options) override {
    meanwhile_();
    return session_->add_graph(graph, options);
  }
  void run(const std::shared_ptr<const TaskGraph>& graph, const TaskStep& step, Done done) override {
    session_->run(graph, step, std::move(done));
  }

 private:
  const std::unique_ptr<TaskSession> session_;
  const std::function<void()>& meanwhile_;
};

TEST(Worker, ASessionThatEndsAndIsMadeAnewWhileAGraphIsRegistered) {
  std::function<void()> meanwhile;
  TestWorkers workers(1, [&](WorkerOptions& options) {
    options.make_session = [&meanwhile, make = options.make_session](const TaskSessionOptions& session) {
      return std::make_unique<SlowSession>(make(session), meanwhile);
    };
  });
  const std::string handle(2000, 'h');  // too long to be remembered as one that ended
  throw_if_error(workers.create_session(0, handle, 1));
  meanwhile = [&] {
    Answer<EmptyMessage> deleted;
    workers.worker(0).delete_worker_session({.session_handle = handle}, {}, deleted.done());
    deleted.value();
    throw_if_error(workers.create_session(0, handle, 1));
  };
  const Status status = workers.try_register(0, PartGraph(0).bytes(), handle).status();
  EXPECT_EQ(status.code(), Code::kAborted);
  EXPECT_TRUE(contains(status, "ended while a graph was registered")) << status.to_string();
}

TEST_F(TwoWorkersTest, ValuesThatWereAskedForOfAPredecessorBeginNoStep) {
  const std::size_t open = workers_.worker(1).open_steps();
  Answer<RecvTensorsReply> answer;
  workers_.worker(1).recv_tensors({.step_id = 99, .request_id = 5, .rendezvous_keys = {}, .continues = 4}, {},
                                  answer.done());
  EXPECT_EQ(answer.status().code(), Code::kAborted);
  EXPECT_EQ(workers_.worker(1).open_steps(), open);
}

TEST_F(TwoWorkersTest, WhatWaitsForATaskThatIsGoneEnds) {
  auto waits = workers_.run(0, receiver_, 5, {result_});
  auto another = workers_.recv(0, 6, key_of(0, 1, "never"));
  workers_.worker(0).forget_task(task_name(1), aborted("task 1 was restarted"), testing::incarnation_of(1));
  EXPECT_FALSE(waits.is_there()) << "it waits for the new incarnation";
  workers_.worker(0).forget_task(task_name(1), unavailable("task 1 was lost"));
  const Status status = waits.status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(status, "task 1 was lost")) << status.to_string();
  EXPECT_FALSE(is_derived(status));
  EXPECT_FALSE(another.is_there()) << "another step goes on";
  workers_.worker(0).forget_task(task_name(0), unavailable("the master was lost"));
  const Status over = workers_.run(0, receiver_, 7).status();
  EXPECT_EQ(over.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(over, "given up") && contains(over, task_name(0))) << over.to_string();
}

TEST_F(TwoWorkersTest, StoppingEndsEverything) {
  auto waits = workers_.run(0, receiver_, 5, {result_});
  auto recv = workers_.recv(0, 6, key_of(0, 1, "never"));
  workers_.worker(0).stop(unavailable("shutting down"));
  EXPECT_TRUE(waits.is_there() && recv.is_there());
  EXPECT_EQ(waits.status().code(), Code::kUnavailable);
  EXPECT_EQ(recv.status().code(), Code::kUnavailable);
  const Status later = workers_.run(0, receiver_, 7).status();
  EXPECT_EQ(later.code(), Code::kUnavailable);
  EXPECT_TRUE(contains(later, "shutting down") && contains(later, task_name(0))) << later.to_string();
}

TEST_F(TwoWorkersTest, FetchesThatTheGraphDoesNotSendAreAnError) {
  const Status status = workers_.run(1, sender_, 1, {key_of(1, 1, "what:0")}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "what:0")) << status.to_string();
}

TEST_F(TwoWorkersTest, TracesAndGraphsAreGivenWhenAskedFor) {
  EXPECT_TRUE(workers_.run(1, sender_, 1).value().report.step_stats.nodes.empty());
  RunGraphRequest request = workers_.request(sender_, 2);
  request.trace = true;
  request.partition_graphs = true;
  const StepReport report = workers_.run(1, request).value().report;
  EXPECT_EQ(report.step_stats.step_id, 2);
  ASSERT_FALSE(report.step_stats.nodes.empty());
  EXPECT_EQ(report.step_stats.nodes.back().device, device_name(1));
  ASSERT_EQ(report.partition_graphs.size(), 1u);
  Graph graph(builtin_ops());
  EXPECT_TRUE(import_graph_def(report.partition_graphs[0], graph).ok());
  EXPECT_GT(graph.num_nodes(), 0);
}

TEST_F(TwoWorkersTest, AMasterWithoutSessionsUsesTheDefaultOne) {
  PartGraph part(1);
  part.send(part.scalar(3), 1, "three:0");
  Answer<RegisterGraphReply> registered;
  workers_.worker(1).register_graph({.graph_def = part.bytes()}, {}, registered.done());
  RunGraphRequest request{
      .graph_handle = registered.value().graph_handle, .step_id = 1, .recv_keys = {key_of(1, 1, "three:0")}};
  EXPECT_EQ(fetched(workers_.run(1, request).value(), key_of(1, 1, "three:0")), 3.0f);
  request.create_worker_session_called = true;
  EXPECT_EQ(workers_.run(1, request).status().code(), Code::kAborted);
}

TEST_F(TwoWorkersTest, DevicesAndOwnClustersAreAnswered) {
  Answer<GetStatusReply> status;
  workers_.worker(1).get_status({}, status.done());
  ASSERT_EQ(status.value().devices.size(), 1u);
  for (int task : {1, 2}) {
    Answer<EmptyMessage> created;
    workers_.worker(1).create_worker_session(
        {.session_handle = "own", .cluster = {{"worker", {{task, "localhost:1"}}}}, .job = "worker", .task = task}, {},
        created.done());
    EXPECT_EQ(created.status().code(), task == 1 ? Code::kOk : Code::kUnimplemented);
  }
}

TEST(WorkerTest, AStepMayPileUpSoManyBytesAndNoMore) {
  TestWorkers workers(1, [](WorkerOptions& options) { options.step_bytes = 1000; });
  PartGraph part(0);
  part.send(constant(part.graph(), Tensor::vector<float>(std::vector<float>(200))), 1, "a");
  Node* second = part.send(constant(part.graph(), Tensor::vector<float>(std::vector<float>(201))), 1, "b");
  const Status status = workers.run(0, workers.add(0, part), 1).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_TRUE(contains(status, "1000")) << status.to_string();
  EXPECT_TRUE(contains(status, second->name()) || contains(status, "_Send")) << status.to_string();
}

// a -> a + 1 -> (p:0), then b -> (a + 1) * b -> (q:0)
class PartialRunTest : public ::testing::Test {
 protected:
  PartialRunTest() {
    PartGraph part(0);
    Output p = part.recv(0, "a:0") + part.scalar(1);
    Output b = op1("CheckNumerics", {part.recv(0, "b:0")}, {{"message", "no number"}});
    part.send(p, 0, "p:0");
    part.send(p * b, 0, "q:0");
    graph_ = workers_.add(0, part);
  }
  RunGraphRequest call(const std::string& feed, float value, const std::string& fetch, bool last) {
    RunGraphRequest request = workers_.request(graph_, 1, {key_of(0, 0, fetch)});
    request.sends = {{key_of(0, 0, feed), Tensor::scalar(value)}};
    request.is_partial = true;
    request.is_last_partial_run = last;
    return request;
  }
  TestWorkers workers_{1};
  std::string graph_;
};

TEST_F(PartialRunTest, FeedsAndFetchesComeInSeveralCalls) {
  EXPECT_EQ(fetched(workers_.run(0, call("a:0", 2, "p:0", false)).value(), key_of(0, 0, "p:0")), 3.0f);
  EXPECT_EQ(fetched(workers_.run(0, call("b:0", 5, "q:0", true)).value(), key_of(0, 0, "q:0")), 15.0f);
}

TEST_F(PartialRunTest, TheCauseIsToldToWhicheverCallIsThere) {
  EXPECT_EQ(fetched(workers_.run(0, call("a:0", 2, "p:0", false)).value(), key_of(0, 0, "p:0")), 3.0f);
  const Status status = workers_.run(0, call("b:0", NAN, "q:0", true)).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_TRUE(contains(status, "no number")) << status.to_string();
  EXPECT_FALSE(is_derived(status));
}

TEST_F(PartialRunTest, ACancelledCallEndsTheStep) {
  Cancellation cancellation;
  workers_.run(0, call("a:0", 2, "p:0", false)).value();
  RunGraphRequest request = call("a:0", 2, "q:0", true);
  request.sends.clear();
  auto waits = workers_.run(0, std::move(request), {.cancellation = &cancellation});
  EXPECT_FALSE(waits.is_there());
  cancellation.cancel(cancelled("enough"));
  EXPECT_EQ(waits.status().code(), Code::kCancelled);
}

// for (i = 0; i < 5; i += 1) total = total * 10 + f(i), where f, times two, runs in the other task.
TEST(WorkerTest, ALoopSpansTwoWorkers) {
  TestWorkers workers(2);
  auto enter = [](Output value, bool is_constant = false) {
    return op1("Enter", {value}, {{"frame_name", "loop"}, {"is_constant", is_constant}});
  };
  auto merge = [](PartGraph& part, Output entered) {
    return part.graph()
        .add_exact({.op = "Merge",
                    .name = part.graph().unique_name("Merge"),
                    .inputs = {entered, Output()},
                    .attrs = {{"T", DType::kFloat}, {"N", 2}}})
        .value_or_throw();
  };

  PartGraph a(0);
  Node* count = merge(a, enter(a.scalar(0)));
  Node* total = merge(a, enter(a.scalar(0)));
  Output go_on = op1("LoopCond", {less(count->output(), enter(a.scalar(5), true))});
  a.send(op1("Cast", {go_on}, {{"DstT", DType::kFloat}}), 1, "go_on");
  Node* count_switch = add_op(a.graph(), "Switch", {count->output(), go_on});
  Node* total_switch = add_op(a.graph(), "Switch", {total->output(), go_on});
  Output i = count_switch->output(1);
  a.send(i, 1, "i");
  Output doubled = a.recv(1, "doubled");
  a.graph().add_control_input(*doubled.node, *identity(i).node);
  throw_if_error(a.graph().set_input(*count, 1, op1("NextIteration", {i + enter(a.scalar(1), true)})));
  throw_if_error(a.graph().set_input(
      *total, 1, op1("NextIteration", {total_switch->output(1) * enter(a.scalar(10), true) + doubled})));
  a.send(op1("Exit", {total_switch->output(0)}), 0, "total:0");

  PartGraph b(1);
  Node* round = merge(b, enter(b.scalar(0)));
  Output told = b.recv(0, "go_on");
  b.graph().add_control_input(*told.node, *round);
  Node* round_switch = add_op(
      b.graph(), "Switch", {round->output(), op1("LoopCond", {op1("Greater", {told, enter(b.scalar(0.5f), true)})})});
  Output body = identity(round_switch->output(1));
  Output received = b.recv(0, "i");
  b.graph().add_control_input(*received.node, *body.node);
  b.send(received * enter(b.scalar(2), true), 0, "doubled");
  throw_if_error(b.graph().set_input(*round, 1, op1("NextIteration", {body})));

  const std::string graph_a = workers.add(0, a);
  const std::string graph_b = workers.add(1, b);
  for (std::int64_t step = 1; step <= 3; ++step) {
    auto of_a = workers.run(0, graph_a, step, {key_of(0, 0, "total:0")});
    auto of_b = workers.run(1, graph_b, step);
    EXPECT_EQ(fetched(of_a.value(), key_of(0, 0, "total:0")), 2468.0f);
    EXPECT_TRUE(of_b.status().ok());
  }
}

TEST(WorkerTest, ResetContainersAreEmpty) {
  std::vector<std::string> reset;
  TestWorkers workers(1, [&reset](WorkerOptions& options) {
    options.reset_containers = [&reset](const std::vector<std::string>& names) { reset = names; };
  });
  Answer<EmptyMessage> done;
  workers.worker(0).cleanup_all({.containers = {"a", "b"}}, {}, done.done());
  EXPECT_TRUE(done.status().ok());
  EXPECT_EQ(reset, (std::vector<std::string>{"a", "b"}));
}

}  // namespace tutti::worker_test
