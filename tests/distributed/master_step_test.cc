// Steps on a master: what it asks of the workers and what it makes of their answers.
#include "tutti/distributed/internal/master_step.h"

#include <algorithm>
#include <thread>

#include "tests/distributed/master_fixture.h"

namespace tutti::master_step_test {

using testing::Answer;
using testing::FakeWorker;
using testing::kPs0;
using testing::kPs1;
using testing::kWorker;

class MasterStepTest : public testing::MasterFixture {
 protected:
  void SetUp() override { create(); }

  // Answers the call with 1 for all that it asks for.
  static void finish(FakeWorker& fake, std::size_t index) {
    fake.runs.answer(index, FakeWorker::ones(fake.runs.request(index)));
  }
  static Tensor value(float x) { return Tensor::scalar(x); }
  std::size_t cleanups() { return worker().cleanups.count() + ps(0).cleanups.count() + ps(1).cleanups.count(); }
};

TEST_F(MasterStepTest, AStepIsCutRegisteredAndRun) {
  RunStepRequest step = request({"sum"});
  step.request_id = 5;
  const RunStepReply reply = run(step).value();
  ASSERT_EQ(reply.tensors.size(), 1u);
  EXPECT_EQ(reply.tensors[0].first, "sum") << "as it was asked for, byte for byte";
  EXPECT_EQ(reply.tensors[0].second.scalar<float>(), 1.0f);
  for (auto& [task, fake] : workers_) {
    ASSERT_EQ(fake->registered.count(), 1u) << task;
    EXPECT_TRUE(fake->registered.request(0).create_worker_session_called);
    EXPECT_EQ(fake->registered.request(0).session_handle, session_);
    const RunGraphRequest sent = fake->runs.request(0);
    EXPECT_EQ(sent.graph_handle, "g1");
    EXPECT_EQ(sent.session_handle, session_);
    EXPECT_TRUE(sent.create_worker_session_called);
    EXPECT_TRUE(sent.store_errors_in_response_body);
    EXPECT_NE(sent.request_id, 0);
    EXPECT_EQ(sent.step_id, worker().runs.request(0).step_id);
    EXPECT_EQ(static_cast<std::uint64_t>(sent.step_id) >> 57, 0u);
    ASSERT_EQ(fake->cleanups.count(), 1u) << task;
    EXPECT_EQ(fake->cleanups.request(0).step_id, sent.step_id);
  }
  const std::string device = kWorker + "/device:CPU:0";
  EXPECT_EQ(worker().runs.request(0).recv_keys,
            std::vector<std::string>{device + ";0000000000000064;" + device + ";sum:0;0:0"});
  EXPECT_TRUE(ps(0).runs.request(0).recv_keys.empty());
}

TEST_F(MasterStepTest, FeedsGoWhereTheyAreUsed) {
  RunStepRequest step = request({"mine:0", "mine", "mine:0"});
  step.feeds = {{"x", value(4)}};
  const RunStepReply reply = run(step).value();
  ASSERT_EQ(reply.tensors.size(), 3u);
  EXPECT_EQ(reply.tensors[1].first, "mine");
  const RunGraphRequest sent = worker().runs.request(0);
  ASSERT_EQ(sent.sends.size(), 1u);
  EXPECT_NE(sent.sends[0].first.find(";x:0;0:0"), std::string::npos) << sent.sends[0].first;
  EXPECT_EQ(sent.sends[0].second.scalar<float>(), 4.0f);
  EXPECT_EQ(sent.recv_keys.size(), 1u) << "each value once";
  EXPECT_EQ(ps(0).runs.count() + ps(1).runs.count(), 0u) << "tasks that the step does not need";
}

TEST_F(MasterStepTest, WhatIsFedMayBeATarget) {
  RunStepRequest step = request({}, {"x"});
  step.feeds = {{"x:0", value(4)}};
  EXPECT_TRUE(run(step).value().tensors.empty());
  EXPECT_EQ(worker().runs.count(), 1u);
}

TEST_F(MasterStepTest, SignaturesAreCompiledOnce) {
  for (const auto& fetches : std::vector<std::vector<std::string>>{
           {"sum:0", "negative:0"}, {"negative", "sum"}, {"sum", "negative", "sum:0"}, {"sum:0", "negative:0"}}) {
    RunStepRequest step = request(fetches);
    step.feeds = {{"x:0", value(1)}};
    EXPECT_EQ(run(step).value().tensors.size(), fetches.size());
  }
  EXPECT_EQ(worker().registered.count(), 1u);
  EXPECT_EQ(worker().runs.count(), 4u);
  run(request({}, {"alone"})).value();
  EXPECT_EQ(ps(1).registered.count(), 2u);
}

TEST_F(MasterStepTest, BadRequestsAreRefused) {
  struct Case {
    NamedTensors feeds;
    std::vector<std::string> fetches;
    std::vector<std::string> targets;
    Code code;
    std::string part;
  };
  const std::vector<Case> cases{
      {{}, {}, {}, Code::kInvalidArgument, "at least one target"},
      {{{"x", value(1)}, {"x:0", value(1)}}, {"mine"}, {}, Code::kInvalidArgument, "more than once"},
      {{{"x", value(1)}}, {"x:0"}, {}, Code::kInvalidArgument, "both fed and fetched"},
      {{{"nope:0", value(1)}}, {"mine"}, {}, Code::kNotFound, "nope"},
      {{}, {"nope:0"}, {}, Code::kNotFound, "nope"},
      {{}, {}, {"nope"}, Code::kNotFound, "nope"},
      {{}, {"a:1"}, {}, Code::kInvalidArgument, "a:1"},
      {{}, {"alone:0"}, {}, Code::kInvalidArgument, "alone"},
      {{}, {"a:x"}, {}, Code::kInvalidArgument, "a:x"},
      {{{"x", Tensor::scalar(std::int32_t{1})}}, {"mine"}, {}, Code::kInvalidArgument, "feed \"x:0\": expected"},
  };
  for (const Case& c : cases) {
    RunStepRequest step = request(c.fetches, c.targets);
    step.feeds = c.feeds;
    EXPECT_STATUS(run(step).status(), c.code, c.part);
  }
  EXPECT_EQ(worker().runs.count(), 0u);
}

TEST_F(MasterStepTest, ErrorsGoIntoTheBodyWhenAsked) {
  RunStepRequest step = request({"nope:0"});
  step.store_errors_in_response_body = true;
  EXPECT_EQ(run(step).value().status.code(), Code::kNotFound);
  step.session_handle = "unknown";
  EXPECT_STATUS(run(step).value().status, Code::kAborted, "Session unknown is not found.");
}

TEST_F(MasterStepTest, ARepeatedRequestIsAborted) {
  RunStepRequest step = request({"sum:0"});
  step.request_id = 77;
  run(step).value();
  EXPECT_STATUS(run(step).status(), Code::kAborted, "RunStep request was received twice");
  step.request_id = 0;
  run(step).value();
  run(step).value();
  for (std::int64_t id = 1000; id < 11'000; ++id) {
    RunStepRequest bad = request({"nope:0"});
    bad.request_id = id;
    EXPECT_EQ(run(bad).status().code(), Code::kNotFound);
  }
  step.request_id = 77;  // ten thousand later it is forgotten
  run(step).value();
}

TEST_F(MasterStepTest, RegistrationIsSharedAndRetried) {
  ps(0).registered.hold();
  auto first = fetch("sum:0");
  auto second = fetch("sum:0");
  EXPECT_EQ(ps(0).registered.count(), 1u);
  EXPECT_EQ(worker().registered.count(), 1u);
  EXPECT_EQ(worker().runs.count(), 0u);
  ps(0).registered.answer(0, unavailable("connection reset"));
  EXPECT_STATUS(first.status(), Code::kUnavailable, "From " + kPs0 + ":\nconnection reset");
  EXPECT_STATUS(second.status(), Code::kUnavailable, "connection reset");
  EXPECT_EQ(cleanups(), 0u) << "nothing had run";
  auto third = fetch("sum:0");
  EXPECT_EQ(ps(0).registered.count(), 2u);
  EXPECT_EQ(worker().registered.count(), 1u) << "what is registered stays so";
  EXPECT_EQ(ps(0).registered.request(0).graph_def, ps(0).registered.request(1).graph_def);
  ps(0).registered.answer(1, RegisterGraphReply{"late"});
  third.value();
  EXPECT_EQ(ps(0).runs.request(0).graph_handle, "late");
}

// --- Errors ---

TEST_F(MasterStepTest, TheFirstErrorCancelsTheOthersAndIsTold) {
  hold_runs();
  auto step = fetch("sum:0");
  RunGraphReply failed;
  failed.status = invalid_argument("bad value\n\t [[{{node a}}]]");
  ps(0).runs.answer(0, failed);
  EXPECT_TRUE(ps(1).runs.answered(0));
  EXPECT_TRUE(worker().runs.answered(0));
  EXPECT_EQ(step.status(), invalid_argument("From ", kPs0, ":\nbad value\n\t [[{{node a}}]]"));
  EXPECT_EQ(cleanups(), 3u);
}

TEST_F(MasterStepTest, AStepEndsWhenAllHaveAnswered) {
  hold_runs();
  auto step = fetch("sum:0");
  finish(worker(), 0);
  finish(ps(1), 0);
  EXPECT_FALSE(step.is_there());
  EXPECT_EQ(cleanups(), 0u);
  finish(ps(0), 0);
  step.value();
  EXPECT_EQ(cleanups(), 3u);
}

TEST_F(MasterStepTest, AWorkerThatForgetsAFetchIsNamed) {
  worker().runs.reply_with([](const RunGraphRequest&) -> Result<RunGraphReply> { return RunGraphReply{}; });
  EXPECT_STATUS(fetch("sum:0").status(), Code::kInternal, kWorker + " did not return");
}

TEST_F(MasterStepTest, AnErrorBeforeAllWereStartedKeepsTheRestFromStarting) {
  ps(0).runs.fail_with(out_of_range("end"));
  EXPECT_STATUS(fetch("sum:0").status(), Code::kOutOfRange, "From " + kPs0 + ":\nend");
  EXPECT_EQ(worker().runs.count(), 0u);
}

// --- Ends from outside, in every phase ---

TEST_F(MasterStepTest, DeadlinesNameWhoIsLate) {
  hold_runs();
  RunStepRequest request1 = request({"sum:0"});
  request1.options.timeout = std::chrono::milliseconds(1500);
  auto step = run(request1);
  finish(ps(0), 0);
  clock_.advance(std::chrono::milliseconds(1499));
  EXPECT_FALSE(step.is_there());
  clock_.advance(std::chrono::milliseconds(1));
  const Status status = step.status();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_EQ(status.message(), "the step did not end within 1500 ms: still running on " + kPs1 + ", " + kWorker);

  auto by_call = fetch("sum:0", {.deadline = clock_.now() + std::chrono::seconds(2)});
  clock_.advance(std::chrono::seconds(2));
  EXPECT_STATUS(by_call.status(), Code::kDeadlineExceeded, kPs0);

  ps(1).registered.hold();
  request1 = request({}, {"alone"});
  request1.options.timeout = std::chrono::milliseconds(100);
  auto registering = run(request1);
  clock_.advance(std::chrono::milliseconds(100));
  EXPECT_STATUS(registering.status(), Code::kDeadlineExceeded, "being sent to " + kPs1);
  ps(1).registered.answer(1, RegisterGraphReply{"late"});  // still good for the next
  ps(1).runs.hold(false);
  run(request({}, {"alone"})).value();
}

TEST_F(MasterStepTest, TheSessionsTimeoutCounts) {
  SessionConfig config;
  config.operation_timeout = std::chrono::milliseconds(300);
  create(config);
  hold_runs();
  auto step = fetch("sum:0");
  clock_.advance(std::chrono::milliseconds(300));
  EXPECT_STATUS(step.status(), Code::kDeadlineExceeded, "300 ms");
}

TEST_F(MasterStepTest, CancellingEndsAStepInEveryPhase) {
  Cancellation before;
  before.cancel(cancelled("never mind"));
  EXPECT_STATUS(fetch("sum:0", {.cancellation = &before}).status(), Code::kCancelled, "never mind");
  EXPECT_EQ(worker().runs.count(), 0u);

  ps(0).registered.hold();
  Cancellation registering;
  auto step = fetch("sum:0", {.cancellation = &registering});
  registering.cancel(cancelled("while registering"));
  EXPECT_STATUS(step.status(), Code::kCancelled, "while registering");
  EXPECT_TRUE(ps(0).registered.answered(0)) << "nobody else waits for it";
  ps(0).registered.hold(false);

  hold_runs();
  Cancellation running;
  auto run_one = fetch("sum:0", {.cancellation = &running});
  finish(worker(), 0);
  running.cancel(cancelled("while running"));
  EXPECT_STATUS(run_one.status(), Code::kCancelled, "while running");
  EXPECT_TRUE(ps(0).runs.answered(0));
  EXPECT_EQ(cleanups(), 3u);

  Cancellation after;
  auto done = fetch("sum:0", {.cancellation = &after});
  for (auto& [task, fake] : workers_) finish(*fake, 1);
  done.value();
  after.cancel(cancelled("too late"));
}

// Compiling a graph may take long: it ends when the last step that waits for it was cancelled.
TEST_F(MasterStepTest, WhatIsRegisteredForNobodyEnds) {
  ps(0).registered.hold();
  Cancellation one, two;
  auto first = fetch("sum:0", {.cancellation = &one});
  auto second = fetch("sum:0", {.cancellation = &two});
  one.cancel(cancelled("first"));
  EXPECT_STATUS(first.status(), Code::kCancelled, "first");
  EXPECT_FALSE(ps(0).registered.answered(0));
  two.cancel(cancelled("second"));
  EXPECT_STATUS(second.status(), Code::kCancelled, "second");
  EXPECT_TRUE(ps(0).registered.answered(0));
  ps(0).registered.hold(false);
  fetch("sum:0").value();
  EXPECT_EQ(ps(0).registered.count(), 2u);
  EXPECT_EQ(ps(1).registered.count(), 1u) << "what was registered stays";
}

// A session may be closed between counting a step in and running it.
TEST_F(MasterStepTest, AStepMayBeCancelledBeforeItRuns) {
  std::shared_ptr<internal::MasterContext> context(new internal::MasterContext{
      .ops = builtin_ops(), .clock = &clock_, .log = nullptr, .ids = internal::IdSource(1)});
  auto compiled = std::make_shared<internal::CompiledStep>(internal::CompiledStep::Setup{});
  auto step = std::make_shared<internal::MasterStep>(context, internal::MasterStep::Setup{.compiled = compiled});
  step->cancel(cancelled("early"));
  step->cancel(cancelled("later"));
  int calls = 0;
  step->run({}, [&](const Status& status, const std::vector<Tensor>&, const StepReport&) {
    ++calls;
    EXPECT_EQ(status, cancelled("early"));
  });
  EXPECT_EQ(calls, 1);
  step->cancel(cancelled("too late"));
  EXPECT_EQ(calls, 1);
}

TEST_F(MasterStepTest, ARootErrorIsToldEvenWhenTheClientGivesUpAfterIt) {
  hold_runs();
  Cancellation cancellation;
  auto step = fetch("sum:0", {.cancellation = &cancellation});
  // The first failure cancels the others, whose answers are still under way when the client cancels: held calls answer
  // at once here, so the order is made by failing the last one.
  finish(worker(), 0);
  finish(ps(0), 0);
  ps(1).runs.answer(0, data_loss("disk"));
  cancellation.cancel(cancelled("too late"));
  EXPECT_STATUS(step.status(), Code::kDataLoss, "From " + kPs1 + ":\ndisk");
}

TEST_F(MasterStepTest, ALostTaskEndsTheStepsThatUseIt) {
  hold_runs();
  RunStepRequest mine = request({"mine:0"});
  mine.feeds = {{"x", value(1)}};
  auto uses_it = fetch("sum:0");
  auto does_not = run(mine);
  master().lose_task(kPs0, unavailable(kPs0, " was lost"));
  EXPECT_EQ(uses_it.status(), unavailable(kPs0, " was lost"));
  EXPECT_FALSE(does_not.is_there());
  finish(worker(), 1);
  does_not.value();
  const std::size_t runs = ps(0).runs.count();
  EXPECT_STATUS(fetch("sum:0").status(), Code::kUnavailable, "was lost");
  EXPECT_STATUS(fetch("a:0").status(), Code::kUnavailable, "was lost");
  EXPECT_EQ(ps(0).runs.count(), runs);
  EXPECT_EQ(ps(0).registered.count(), 1u);
  auto alone = run(request({}, {"alone"}));
  finish(ps(1), 1);
  alone.value();
  master().lose_task(kPs0, unavailable("another cause"));
  EXPECT_STATUS(fetch("sum:0").status(), Code::kUnavailable, "was lost");  // the first cause is kept,
  master().lose_task(kPs0, aborted(kPs0, " was restarted"));
  EXPECT_STATUS(fetch("sum:0").status(), Code::kAborted, "was restarted");  // until waiting is of no use
}

TEST_F(MasterStepTest, ALostTaskEndsRegistrationToo) {
  ps(0).registered.hold();
  auto step = fetch("sum:0");
  master().lose_task(kPs0, aborted(kPs0, " was restarted"));
  EXPECT_STATUS(step.status(), Code::kAborted, "was restarted");
  EXPECT_TRUE(ps(0).registered.answered(0));
}

TEST_F(MasterStepTest, SessionsThatDoNotUseALostTaskGoOn) {
  SessionConfig config;
  config.device_filters = {"/job:ps/task:1"};
  const std::string all = session_;
  Graph graph(builtin_ops());
  constant(graph, value(1), "c");
  session_ = create_async(config, {}, export_graph_def(graph)).value().session_handle;
  master().lose_task(kPs0, unavailable("lost"));
  fetch("c:0").value();
  session_ = all;
  EXPECT_EQ(fetch("sum:0").status().code(), Code::kUnavailable);
  create();  // a new session finds the task again
  fetch("sum:0").value();
}

// --- Callables ---

TEST_F(MasterStepTest, CallablesRunByHandle) {
  Answer<MakeCallableReply> made;
  master().make_callable({session_, {{"x"}, {"mine", "negative:0", "mine:0"}, {}}, {}, 1}, {}, made.done());
  const std::int64_t handle = made.value().handle;
  EXPECT_EQ(worker().registered.count(), 1u) << "before it is run";
  auto call = [&](std::vector<Tensor> feeds, std::int64_t id) {
    Answer<RunCallableReply> answer;
    master().run_callable({session_, handle, std::move(feeds), id}, {}, answer.done());
    return answer;
  };
  EXPECT_EQ(call({value(3)}, 2).value().fetches.size(), 3u);
  EXPECT_STATUS(call({value(3)}, 2).status(), Code::kAborted, "received twice");
  EXPECT_STATUS(call({}, 3).status(), Code::kInvalidArgument, "takes 1 feeds, but got 0");
  worker().runs.fail_with(out_of_range("end"));
  EXPECT_STATUS(call({value(3)}, 4).status(), Code::kOutOfRange, "end");
  for (int i = 0; i < 2; ++i) {
    Answer<EmptyMessage> released;
    master().release_callable({session_, handle}, {}, released.done());
    released.value();
  }
  EXPECT_STATUS(call({value(3)}, 5).status(), Code::kInvalidArgument, "released");
  Answer<MakeCallableReply> bad;
  master().make_callable({session_, {{}, {"nope"}, {}}, {}, 6}, {}, bad.done());
  EXPECT_EQ(bad.status().code(), Code::kNotFound);
}

// --- Partial runs ---

class MasterPartialRunTest : public MasterStepTest {
 protected:
  Answer<PartialRunSetupReply> set_up(Signature signature) {
    Answer<PartialRunSetupReply> answer;
    master().partial_run_setup({session_, std::move(signature), 0}, {}, answer.done());
    return answer;
  }
  Answer<RunStepReply> go(const std::string& handle, NamedTensors feeds, std::vector<std::string> fetches,
                          const CallOptions& options = {}) {
    RunStepRequest step = request(std::move(fetches));
    step.feeds = std::move(feeds);
    step.partial_run_handle = handle;
    return run(step, options);
  }
};

TEST_F(MasterPartialRunTest, FeedsAndFetchesComeInTurns) {
  const std::string handle = set_up({{"x"}, {"sum", "mine:0"}, {}}).value().partial_run_handle;
  EXPECT_EQ(handle.find_first_not_of("0123456789"), std::string::npos) << handle;
  EXPECT_STATUS(go(handle, {}, {"mine"}).status(), Code::kInvalidArgument, "x:0 is missing");
  const RunStepReply first = go(handle, {}, {"sum"}).value();
  ASSERT_EQ(first.tensors.size(), 1u);
  EXPECT_EQ(first.tensors[0].first, "sum");
  ASSERT_EQ(ps(0).runs.count(), 1u) << "all parts are started by the first call";
  EXPECT_TRUE(worker().runs.request(0).is_partial);
  EXPECT_FALSE(worker().runs.request(0).is_last_partial_run);
  EXPECT_STATUS(go(handle, {}, {"sum:0"}).status(), Code::kInvalidArgument, "already been fetched");
  EXPECT_STATUS(go(handle, {{"y", value(1)}}, {}).status(), Code::kInvalidArgument, "not specified");
  go(handle, {{"x:0", value(1)}}, {}).value();
  EXPECT_EQ(ps(0).runs.count(), 1u);
  EXPECT_EQ(worker().runs.request(1).sends.size(), 1u);
  EXPECT_STATUS(go(handle, {{"x", value(1)}}, {}).status(), Code::kInvalidArgument, "already been fed");
  EXPECT_EQ(cleanups(), 0u);
  go(handle, {}, {"mine:0"}).value();
  EXPECT_TRUE(ps(0).runs.request(1).is_last_partial_run);
  EXPECT_EQ(ps(0).runs.request(0).step_id, worker().runs.request(2).step_id);
  EXPECT_EQ(cleanups(), 3u);
  EXPECT_STATUS(go(handle, {}, {"sum"}).status(), Code::kInvalidArgument, "Must run 'setup'");
}

TEST_F(MasterPartialRunTest, AnErrorEndsIt) {
  const std::string handle = set_up({{"x"}, {"sum", "mine:0"}, {}}).value().partial_run_handle;
  hold_runs();
  auto first = go(handle, {}, {"sum"});
  auto second = go(handle, {{"x", value(1)}}, {"mine:0"});
  ps(0).runs.answer(0, RunGraphReply{{}, {}, data_loss("disk")});
  EXPECT_STATUS(first.status(), Code::kDataLoss, "From " + kPs0 + ":\ndisk");
  EXPECT_STATUS(second.status(), Code::kDataLoss, "disk");
  EXPECT_EQ(cleanups(), 3u);
  EXPECT_STATUS(go(handle, {}, {"mine:0"}).status(), Code::kInvalidArgument, "Must run 'setup'");
}

TEST_F(MasterPartialRunTest, EndsWithItsSessionAndItsTasks) {
  const std::string idle = set_up({{"x"}, {"sum", "mine:0"}, {}}).value().partial_run_handle;
  hold_runs();
  Cancellation cancellation;
  auto waiting = go(idle, {}, {"sum"}, {.cancellation = &cancellation});
  cancellation.cancel(cancelled("enough"));
  EXPECT_STATUS(waiting.status(), Code::kCancelled, "enough");

  const std::string lost = set_up({{"x"}, {"sum", "mine:0"}, {}}).value().partial_run_handle;
  auto losing = go(lost, {}, {"sum"});
  master().lose_task(kPs0, unavailable("gone"));
  EXPECT_STATUS(losing.status(), Code::kUnavailable, "gone");
  EXPECT_STATUS(set_up({{"x"}, {"sum", "mine:0"}, {}}).status(), Code::kUnavailable, "gone");

  const std::string open = set_up({{"x"}, {"mine:0", "negative:0"}, {}}).value().partial_run_handle;
  auto last = go(open, {{"x", value(1)}}, {"mine:0"});
  close().value();
  EXPECT_STATUS(last.status(), Code::kCancelled, "Session::Close");
}

// --- Reports ---

TEST_F(MasterStepTest, ReportsOfPartsAreJoined) {
  auto report = [](std::int64_t start, const std::string& node) {
    return [=](const RunGraphRequest& request) -> Result<RunGraphReply> {
      EXPECT_TRUE(request.trace);
      EXPECT_TRUE(request.partition_graphs);
      RunGraphReply reply = FakeWorker::ones(request);
      reply.report.step_stats.start_micros = start;
      reply.report.step_stats.nodes = {{.name = node, .start_nanos = 5, .end_nanos = 9}};
      reply.report.partition_graphs = {node};
      return reply;
    };
  };
  worker().runs.reply_with(report(1003, "w"));
  ps(0).runs.reply_with(report(1000, "p0"));
  ps(1).runs.reply_with(report(1001, "p1"));
  RunStepRequest step = request({"sum:0"});
  step.options.trace = true;
  step.options.partition_graphs = true;
  const StepReport joined = run(step).value().report;
  EXPECT_EQ(joined.step_stats.start_micros, 1000);
  EXPECT_EQ(joined.partition_graphs.size(), 3u);
  ASSERT_EQ(joined.step_stats.nodes.size(), 3u);
  for (const NodeStats& node : joined.step_stats.nodes) {
    EXPECT_EQ(node.start_nanos, node.name == "w" ? 3005 : node.name == "p1" ? 1005 : 5) << node.name;
  }
}

// --- Many at a time ---

TEST_F(MasterStepTest, ThreadsRunExtendAndCloseAtOnce) {
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        RunStepRequest step =
            request(i % 2 == 0 ? std::vector<std::string>{"sum:0"} : std::vector<std::string>{"mine"});
        if (i % 2 != 0) step.feeds = {{"x:0", value(static_cast<float>(t))}};
        step.request_id = t * 1000 + i + 1;
        if (!run(step).status().ok()) ++wrong;
      }
    });
  }
  std::atomic<int> extended = 0;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        Graph graph(builtin_ops());
        constant(graph, value(1), str_cat("extra_", t, "_", i));
        if (extend(export_graph_def(graph), extended).ok()) ++extended;  // the loser of a race gets kAborted
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(extended, 0);
  EXPECT_EQ(worker().registered.count(), 2u);

  std::atomic<int> odd = 0;
  threads.clear();
  hold_runs();
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const Code code = fetch("sum:0").status().code();
      if (code != Code::kCancelled && code != Code::kAborted && code != Code::kFailedPrecondition) ++odd;
    });
  }
  threads.emplace_back([&] { close().value(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
}

// Sessions come, lose tasks and go while others run; every call is answered, and stopping finds an end.
TEST_F(MasterStepTest, SessionsComeAndGoWhileTasksAreLost) {
  std::atomic<int> odd = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 25; ++round) {
        Answer<CreateSessionReply> created;
        master().create_session({graph_def(), {}, ""}, {}, created.done());
        std::string handle;
        try {
          handle = created.value().session_handle;
        } catch (const Error& error) {
          if (error.code() != Code::kUnavailable) ++odd;
          continue;
        }
        for (int i = 0; i < 4; ++i) {
          RunStepRequest step;
          step.session_handle = handle;
          step.fetches = {i % 2 == 0 ? "sum:0" : "a:0"};
          const Code code = run(step).status().code();
          if (code != Code::kOk && code != Code::kUnavailable) ++odd;
        }
        if (t == 0) master().lose_task(kPs0, unavailable("lost in round ", round));
        Answer<EmptyMessage> closed;
        master().close_session({handle}, {}, closed.done());
        if (!closed.status().ok()) ++odd;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(odd, 0);
  master().stop(unavailable("over"));
}

}  // namespace tutti::master_step_test
