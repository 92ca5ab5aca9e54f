#include "tutti/distributed/master.h"

#include <thread>

#include "tests/distributed/master_fixture.h"
#include "tutti/graph/graph_def.h"

namespace tutti::master_test {

using testing::Answer;
using testing::FakeWorker;
using testing::kPs0;
using testing::kPs1;
using testing::kWorker;
using testing::TestDirectory;

class MasterTest : public testing::MasterFixture {};

// A graph of one node.
std::string one_node(const std::string& name, const std::string& device = "") {
  Graph graph(builtin_ops());
  ScopeGuard scope = graph.device_scope(device);
  constant(graph, Tensor::scalar(5.0f), name);
  return export_graph_def(graph);
}

TEST_F(MasterTest, ASessionIsMadeOnEveryTask) {
  create();
  EXPECT_EQ(session_.size(), 16u);
  EXPECT_EQ(session_.find_first_not_of("0123456789abcdef"), std::string::npos) << session_;
  for (auto& [task, fake] : workers_) {
    EXPECT_EQ(fake->status.count(), 1u) << task;
    ASSERT_EQ(fake->created.count(), 1u) << task;
    const CreateWorkerSessionRequest request = fake->created.request(0);
    EXPECT_EQ(request.session_handle, session_);
    EXPECT_EQ(request.master_task, kWorker);
    EXPECT_EQ(request.master_incarnation, 100u);
    ASSERT_EQ(request.cluster_devices.size(), 1u);
    EXPECT_TRUE(request.cluster_devices[0].name.starts_with(task)) << request.cluster_devices[0].name;
    EXPECT_TRUE(request.cluster.empty());
    EXPECT_FALSE(request.isolate_session_state);
  }
  EXPECT_EQ(ps(1).created.request(0).job, "ps");
  EXPECT_EQ(ps(1).created.request(0).task, 1);
}

TEST_F(MasterTest, SoManySessionsAtATimeAndNoMore) {
  options_.max_sessions = 2;
  create();
  ps(1).created.hold();
  auto second = create_async();
  EXPECT_FALSE(second.is_there());
  EXPECT_STATUS(create_async().status(), Code::kResourceExhausted,
                kWorker + ": 2 sessions are open, which is the most at a time (--max-sessions)");
  ps(1).created.hold(false);
  ps(1).created.answer(1, EmptyMessage{});
  EXPECT_TRUE(second.status().ok()) << second.status().to_string();
  EXPECT_STATUS(create_async().status(), Code::kResourceExhausted, "2 sessions are open");
  EXPECT_TRUE(close().status().ok());
  EXPECT_TRUE(create_async().status().ok()) << "one was closed";
}

TEST_F(MasterTest, FiltersKeepTasksOut) {
  SessionConfig config;
  config.device_filters = {"/job:ps/task:1"};
  session_ = create_async(config, {}, one_node("c")).value().session_handle;
  EXPECT_EQ(ps(0).status.count(), 0u);
  EXPECT_EQ(ps(0).created.count(), 0u);
  EXPECT_EQ(ps(1).created.count(), 1u);
  EXPECT_EQ(worker().created.count(), 1u);
  // What is filtered out cannot be used.
  EXPECT_STATUS(create_async(config).status(), Code::kInvalidArgument, "Cannot assign a device for operation a");
  config.device_filters = {"job:ps"};
  EXPECT_STATUS(create_async(config).status(), Code::kInvalidArgument, "device filter \"job:ps\"");
}

TEST_F(MasterTest, ATaskThatIsNotThereEndsACreationThatFailsFast) {
  ps(0).status.hold();
  ps(1).status.fail_with(unavailable("connection refused"));
  Answer<CreateSessionReply> answer;
  CreateSessionRequest request{graph_def(), {}, "grpc://localhost:1"};
  request.fail_fast = true;
  master().create_session(std::move(request), {}, answer.done());
  EXPECT_STATUS(answer.status(), Code::kUnavailable, kPs1 + ": connection refused");
  EXPECT_EQ(ps(1).status.count(), 1u);
  EXPECT_TRUE(ps(0).status.answered(0)) << "nobody waits for it any more";
}

TEST_F(MasterTest, WaitsForATask) {
  ps(0).status.fail_with(unavailable("connection refused"));
  ps(1).status.hold();
  auto answer = create_async();
  EXPECT_FALSE(answer.is_there());
  EXPECT_FALSE(ps(0).status.options(0).wait_for_ready);
  EXPECT_TRUE(ps(0).status.options(1).wait_for_ready);
  clock_.advance(std::chrono::seconds(30));
  EXPECT_GT(ps(0).status.count(), 20u);
  EXPECT_TRUE(lines().empty()) << "the directory says it";
  ps(0).status.reply_with([](const EmptyMessage&) -> Result<GetStatusReply> {
    return GetStatusReply{{{.name = "/job:other/replica:0/task:9/device:CPU:0", .type = "CPU", .incarnation = 9}}};
  });
  clock_.advance(std::chrono::seconds(2));
  EXPECT_FALSE(answer.is_there());
  ps(1).status.answer(0, GetStatusReply{{{.name = kPs1 + "/device:CPU:0", .type = "CPU", .incarnation = 3}}});
  session_ = answer.value().session_handle;
  Answer<ListDevicesReply> devices;
  master().list_devices({session_}, {}, devices.done());
  const ListDevicesReply reply = devices.value();
  EXPECT_TRUE(reply.remote.empty());
  ASSERT_EQ(reply.local.size(), 3u);
  EXPECT_EQ(reply.local[0].name, kWorker + "/device:CPU:0");
  EXPECT_EQ(reply.local[1].name, kPs0 + "/device:CPU:0") << "under the task's name, whatever it calls itself";
  EXPECT_EQ(reply.local[1].incarnation, 9u);
}

TEST_F(MasterTest, CreatingEndsByDeadlineOrCancellation) {
  ps(0).status.fail_with(unavailable("connection refused"));
  ps(1).status.hold();
  auto late = create_async({}, {.deadline = clock_.now() + std::chrono::milliseconds(2500)});
  clock_.advance(std::chrono::milliseconds(2400));
  EXPECT_FALSE(late.is_there());
  clock_.advance(std::chrono::milliseconds(200));
  const Status status = late.status();
  EXPECT_STATUS(status, Code::kDeadlineExceeded, kPs0 + " (connection refused), " + kPs1);
  EXPECT_STATUS(status, Code::kDeadlineExceeded, "2500 ms");

  SessionConfig config;
  config.operation_timeout = std::chrono::milliseconds(700);
  auto limited = create_async(config);
  clock_.advance(std::chrono::milliseconds(699));
  EXPECT_FALSE(limited.is_there());
  clock_.advance(std::chrono::milliseconds(1));
  EXPECT_STATUS(limited.status(), Code::kDeadlineExceeded, kPs0 + " (connection refused), " + kPs1);

  Cancellation cancellation;
  auto cancelled_one = create_async({}, {.cancellation = &cancellation});
  cancellation.cancel(cancelled("the client went away"));
  EXPECT_STATUS(cancelled_one.status(), Code::kCancelled, "the client went away");
  EXPECT_STATUS(create_async({}, {.cancellation = &cancellation}).status(), Code::kCancelled, "went away");
  EXPECT_EQ(ps(0).created.count() + ps(1).created.count() + worker().created.count(), 0u);
}

TEST_F(MasterTest, WhatCannotBeCreatedIsTakenBack) {
  ps(1).created.fail_with(resource_exhausted("too many sessions"));
  const Status status = create_async().status();
  EXPECT_STATUS(status, Code::kResourceExhausted, kPs1 + ": too many sessions");
  for (auto& [task, fake] : workers_) EXPECT_EQ(fake->deleted.count(), 1u) << task;

  ps(1).created.hold();
  Cancellation cancellation;
  auto answer = create_async({}, {.cancellation = &cancellation});
  EXPECT_FALSE(answer.is_there());
  cancellation.cancel(cancelled("enough"));
  EXPECT_STATUS(answer.status(), Code::kCancelled, "enough");
  EXPECT_EQ(ps(0).deleted.count(), 2u);

  auto lost = create_async();
  master().lose_task(kPs0, unavailable(kPs0, " is gone"));
  EXPECT_STATUS(lost.status(), Code::kUnavailable, "is gone");
  EXPECT_EQ(worker().deleted.count(), 3u);

  worker().status.fail_with(Status(Code::kUnauthenticated, "no token"));
  EXPECT_STATUS(create_async().status(), Code::kUnauthenticated, kWorker + ": no token");
}

TEST_F(MasterTest, RefusesBadConfigurationsAndGraphs) {
  SessionConfig threads;
  threads.per_session_threads = true;
  EXPECT_STATUS(create_async(threads).status(), Code::kInvalidArgument, "thread pool");
  EXPECT_STATUS(create_async({}, {}, "\xff\xff\xff").status(), Code::kInvalidArgument, "GraphDef");
  EXPECT_STATUS(create_async({}, {}, one_node("c", "/job:absent")).status(), Code::kInvalidArgument,
                "Cannot assign a device for operation c");
  EXPECT_EQ(worker().created.count(), 0u);
  EXPECT_EQ(worker().deleted.count(), 0u);
}

TEST_F(MasterTest, ExtendingCountsVersionsAndIsAllOrNothing) {
  create();
  EXPECT_EQ(*extend(one_node("c1"), 0), 1);
  EXPECT_EQ(*extend(one_node("c2"), 1), 2);
  EXPECT_STATUS(extend(one_node("c3"), 1).status(), Code::kAborted, "Current version is 2 but caller expected 1.");
  EXPECT_STATUS(extend(one_node("c2"), 2).status(), Code::kInvalidArgument, "c2");
  // A node that has no place is not there afterwards, and its name is free.
  EXPECT_STATUS(extend(one_node("c3", "/job:absent"), 2).status(), Code::kInvalidArgument, "operation c3");
  EXPECT_STATUS(fetch("c3:0").status(), Code::kNotFound, "c3");
  EXPECT_EQ(*extend(one_node("c3"), 2), 3);
  EXPECT_EQ(fetch("c3:0").value().tensors.size(), 1u);
  session_ = "0000000000000000";
  EXPECT_STATUS(extend(one_node("c4"), 3).status(), Code::kAborted, "Session 0000000000000000 is not found.");
}

// GraphDef{versions{producer}}: field 4, of it field 1.
std::string with_producer(std::string graph_def, char producer) {
  return graph_def + std::string({'\x22', '\x02', '\x08', producer});
}

TEST_F(MasterTest, GraphsOfAnotherProducerAreRefused) {
  session_ = create_async({}, {}, with_producer(graph_def(), 24)).value().session_handle;
  EXPECT_STATUS(extend(with_producer(one_node("c"), 25), 0).status(), Code::kInvalidArgument,
                "version 24 with graph at version 25");
  EXPECT_EQ(*extend(with_producer(one_node("c"), 24), 0), 1);
  EXPECT_EQ(*extend(one_node("d"), 1), 2);
}

TEST_F(MasterTest, StatefulNodesStayWhenTheGraphGrows) {
  Graph graph(builtin_ops());
  {
    ScopeGuard scope = graph.device_scope("/job:ps/task:1");
    add_op(graph, "VarHandleOp", {}, {{"dtype", DType::kFloat}, {"shape", PartialShape{}}, {"shared_name", "v"}}, "v");
  }
  session_ = create_async({}, {}, export_graph_def(graph)).value().session_handle;
  const int sent = graph.id_limit();
  add_op(graph, "ReadVariableOp", {graph.find("v")->output()}, {{"dtype", DType::kFloat}}, "read");
  EXPECT_EQ(*extend(export_graph_def(graph, sent), 0), 1);
  fetch("read:0").value();
  EXPECT_EQ(ps(1).runs.count(), 1u);
  EXPECT_EQ(ps(0).runs.count(), 0u);
}

TEST_F(MasterTest, SaysWhereNodesGo) {
  SessionConfig config;
  config.log_device_placement = true;
  create(config);
  const std::vector<std::string> said = lines();
  EXPECT_EQ(said.size(), 8u);
  EXPECT_NE(std::find(said.begin(), said.end(), "a: (Const): " + kPs0 + "/device:CPU:0"), said.end());
}

TEST_F(MasterTest, ListsDevicesWithoutASession) {
  Answer<ListDevicesReply> answer;
  master().list_devices({""}, {}, answer.done());
  const ListDevicesReply reply = answer.value();
  ASSERT_EQ(reply.local.size(), 1u);
  EXPECT_EQ(reply.local[0].name, kWorker + "/device:CPU:0");
  EXPECT_EQ(reply.remote.size(), 2u);
  Answer<ListDevicesReply> unknown;
  master().list_devices({"feed"}, {}, unknown.done());
  EXPECT_STATUS(unknown.status(), Code::kInvalidArgument, "Session feed is not found.");
  ps(0).status.hold();
  Answer<ListDevicesReply> late;
  master().list_devices({""}, {.deadline = clock_.now() + std::chrono::seconds(1)}, late.done());
  clock_.advance(std::chrono::seconds(1));
  EXPECT_STATUS(late.status(), Code::kDeadlineExceeded, kPs0);
}

TEST_F(MasterTest, ClosingEndsWhatRunsAndTellsTheWorkers) {
  create();
  hold_runs();
  auto step = fetch("sum:0");
  ps(0).deleted.hold();
  auto closed = close();
  EXPECT_STATUS(step.status(), Code::kCancelled, "Session::Close");
  EXPECT_FALSE(closed.is_there()) << "before every worker has answered";
  EXPECT_EQ(*ps(0).deleted.options(0).deadline, clock_.now() + std::chrono::seconds(10));
  ps(0).deleted.answer(0, unavailable("gone"));
  closed.value();
  EXPECT_EQ(worker().deleted.request(0).session_handle, session_);
  EXPECT_STATUS(fetch("sum:0").status(), Code::kAborted, "Session " + session_ + " is not found.");
  EXPECT_STATUS(close().status(), Code::kAborted, "is not found.");
}

TEST_F(MasterTest, ALostTaskDoesNotHoldUpClosing) {
  create();
  ps(0).deleted.hold();
  master().lose_task(kPs0, unavailable("gone"));
  close().value();
  ASSERT_EQ(ps(0).deleted.count(), 1u) << "it may have been cut off only";
  EXPECT_TRUE(ps(0).deleted.options(0).wait_for_ready);
  EXPECT_EQ(*ps(0).deleted.options(0).deadline, clock_.now() + std::chrono::seconds(10));
  EXPECT_FALSE(ps(0).deleted.answered(0));

  create();
  master().lose_task(kPs0, aborted("restarted"));
  close().value();
  EXPECT_EQ(ps(0).deleted.count(), 1u) << "it knows nothing of the session";
}

TEST_F(MasterTest, ATaskThatIsLostWhileOthersAreLookedForIsAskedAgain) {
  ps(1).status.hold();
  auto answer = create_async();
  EXPECT_EQ(ps(0).status.count(), 1u);
  master().lose_task(kPs0, aborted(kPs0, " was restarted"));
  ps(0).status.reply_with([](const EmptyMessage&) -> Result<GetStatusReply> {
    return GetStatusReply{{{.name = kPs0 + "/device:CPU:0", .type = "CPU", .incarnation = 9}}};
  });
  const GetStatusReply found{{{.name = kPs1 + "/device:CPU:0", .type = "CPU", .incarnation = 3}}};
  ps(1).status.answer(0, found);
  EXPECT_FALSE(answer.is_there());
  EXPECT_EQ(ps(0).status.count(), 2u);
  ps(1).status.answer(1, found);
  session_ = answer.value().session_handle;
  Answer<ListDevicesReply> devices;
  master().list_devices({session_}, {}, devices.done());
  EXPECT_EQ(devices.value().local.at(1).incarnation, 9u);
}

TEST_F(MasterTest, ATaskThatIsStartedAnewWhileItIsAskedIsAskedAgain) {
  ps(0).status.hold();
  auto answer = create_async();
  ps(0).status.hold(false);
  ps(0).status.answer(0, aborted(kPs0, " was restarted"));
  clock_.advance(std::chrono::seconds(1));
  answer.value();
}

// Cutting a graph takes its time; who has news of tasks does not wait for it.
TEST_F(MasterTest, LongWorkIsDoneElsewhereAndHoldsNothingUp) {
  std::vector<std::function<void()>> work;
  options_.run = [&work](std::function<void()> one) { work.push_back(std::move(one)); };
  auto creating = create_async();
  ASSERT_EQ(work.size(), 1u);
  EXPECT_FALSE(creating.is_there());
  work[0]();
  session_ = creating.value().session_handle;
  auto step = fetch("sum:0");
  ASSERT_EQ(work.size(), 2u);
  Answer<ExtendSessionReply> extended;
  master().extend_session({session_, one_node("late"), 0}, {}, extended.done());
  ASSERT_EQ(work.size(), 3u);
  EXPECT_FALSE(step.is_there() || extended.is_there());
  work[1]();
  step.value();
  work[2]();
  EXPECT_EQ(extended.value().new_graph_version, 1);
  fetch("sum:0").value();
  EXPECT_EQ(work.size(), 3u) << "it was cut before";
  auto late = fetch("late:0");
  master().lose_task(kPs0, unavailable("gone"));
  close().value();
  work.at(3)();
  EXPECT_STATUS(late.status(), Code::kFailedPrecondition, "closed");
}

TEST_F(MasterTest, ASessionWhoseClientHasGoneMeanwhileIsClosed) {
  Cancellation client;
  ps(0).created.reply_with([&](const CreateWorkerSessionRequest&) -> Result<EmptyMessage> {
    client.cancel(cancelled("the client went away"));
    return EmptyMessage{};
  });
  EXPECT_STATUS(create_async({}, {.cancellation = &client}).status(), Code::kCancelled, "went away");
  for (auto& [task, fake] : workers_) EXPECT_EQ(fake->deleted.count(), 1u) << task;
}

TEST_F(MasterTest, ResetEndsSessionsAndCleansContainers) {
  create();
  hold_runs();
  auto step = fetch("sum:0");
  Answer<EmptyMessage> answer;
  master().reset({{"shared"}, {"/job:ps/task:0"}}, {}, answer.done());
  answer.value();
  EXPECT_STATUS(step.status(), Code::kAborted, "Reset");
  EXPECT_STATUS(fetch("sum:0").status(), Code::kAborted, "is not found.");
  EXPECT_EQ(ps(0).resets.request(0).containers, std::vector<std::string>{"shared"});
  EXPECT_EQ(worker().resets.count(), 1u);
  EXPECT_EQ(ps(1).resets.count(), 0u);
  ps(1).resets.fail_with(unavailable("connection refused"));
  Answer<EmptyMessage> failed;
  master().reset({}, {}, failed.done());
  EXPECT_STATUS(failed.status(), Code::kUnavailable, kPs1 + ": connection refused");
}

TEST_F(MasterTest, IdleSessionsAreCollected) {
  options_.session_idle_limit = std::chrono::seconds(60);
  create();
  const std::string idle = session_;
  create();
  hold_runs();
  auto step = fetch("sum:0");
  clock_.advance(std::chrono::seconds(200));
  EXPECT_FALSE(step.is_there()) << "a session in which something runs is not idle";
  EXPECT_EQ(worker().deleted.count(), 1u);
  EXPECT_EQ(worker().deleted.request(0).session_handle, idle);
  ASSERT_EQ(lines().size(), 1u);
  EXPECT_EQ(lines()[0], "session " + idle + " was not used for 60 s and is closed");
  for (auto& [task, fake] : workers_) {
    if (fake->runs.count() > 0) fake->runs.answer(0, FakeWorker::ones(fake->runs.request(0)));
  }
  step.value();
  for (int i = 0; i < 5; ++i) {  // kept by being used
    clock_.advance(std::chrono::seconds(50));
    Answer<EmptyMessage> released;
    master().release_callable({session_, 1}, {}, released.done());
    released.value();
  }
  clock_.advance(std::chrono::seconds(80));
  EXPECT_STATUS(fetch("sum:0").status(), Code::kAborted, "is not found.");
}

TEST_F(MasterTest, ALeasedSessionIsNotIdle) {
  options_.session_idle_limit = std::chrono::seconds(60);
  create();
  master().lease_session(session_, true);
  clock_.advance(std::chrono::seconds(200));
  EXPECT_EQ(worker().deleted.count(), 0u);
  master().lease_session(session_, false);
  clock_.advance(std::chrono::seconds(50));
  EXPECT_EQ(worker().deleted.count(), 0u);
  clock_.advance(std::chrono::seconds(50));
  EXPECT_EQ(worker().deleted.count(), 1u);
  master().lease_session(session_, true);
}

TEST_F(MasterTest, SignaturesThatWereNotUsedForLongAreGivenUp) {
  constexpr int kKept = 1024, kSignatures = kKept + 5;
  Graph graph(builtin_ops());
  {
    ScopeGuard scope = graph.device_scope("/job:ps/task:0");
    for (int i = 0; i < kSignatures; ++i) add_op(graph, "NoOp", {}, {}, str_cat("n", i));
  }
  session_ = create_async({}, {}, export_graph_def(graph)).value().session_handle;
  const auto run_node = [this](int i) { run(request({}, {str_cat("n", i)})).value(); };
  for (int i = 0; i < kSignatures; ++i) {
    run_node(i);
    run_node(0);  // always in use
  }
  EXPECT_EQ(ps(0).registered.count(), static_cast<std::size_t>(kSignatures));
  ASSERT_EQ(ps(0).deregistered.count(), static_cast<std::size_t>(kSignatures - kKept));
  EXPECT_EQ(ps(0).deregistered.request(0).session_handle, session_);
  EXPECT_FALSE(ps(0).deregistered.request(0).graph_handle.empty());
  run_node(0);
  run_node(kSignatures - 1);
  EXPECT_EQ(ps(0).registered.count(), static_cast<std::size_t>(kSignatures));
  run_node(1);  // the first that went
  EXPECT_EQ(ps(0).registered.count(), static_cast<std::size_t>(kSignatures) + 1);
}

TEST_F(MasterTest, AnAbandonedSessionIsClosed) {
  create();
  hold_runs();
  auto step = fetch("sum:0");
  master().abandon_session(session_);
  EXPECT_STATUS(step.status(), Code::kCancelled, "client has gone");
  EXPECT_EQ(ps(0).deleted.count(), 1u);
  master().abandon_session("unknown");
}

TEST_F(MasterTest, StoppingEndsEverything) {
  create();
  hold_runs();
  auto step = fetch("sum:0");
  ps(0).status.hold();
  auto creating = create_async();
  Answer<ListDevicesReply> listing;
  master().list_devices({""}, {}, listing.done());
  master().stop(unavailable(kWorker, " is stopping"));
  EXPECT_STATUS(step.status(), Code::kUnavailable, "is stopping");
  EXPECT_STATUS(creating.status(), Code::kUnavailable, "is stopping");
  EXPECT_STATUS(listing.status(), Code::kUnavailable, "is stopping");
  EXPECT_STATUS(create_async().status(), Code::kUnavailable, "is stopping");
  EXPECT_STATUS(fetch("sum:0").status(), Code::kUnavailable, "is stopping");
  EXPECT_EQ(worker().deleted.count(), 1u);
  master().stop(unavailable("again"));
}

TEST_F(MasterTest, AClusterThatTheClientBringsAlongIsRefused) {
  SessionConfig config;
  config.cluster = {{"a", {{0, "localhost:1"}}}};
  EXPECT_STATUS(create_async(config).status(), Code::kUnimplemented, "cluster_def");
}

}  // namespace tutti::master_test
