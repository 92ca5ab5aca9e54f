#include "tutti/train/monitored_session.h"

#include <atomic>
#include <future>
#include <set>
#include <stdexcept>
#include <thread>

#include "tests/core/temp_directory.h"
#include "tests/train/faulty_session.h"
#include "tests/train/train_fixture.h"
#include "tutti/core/cancellation.h"
#include "tutti/ops/builders.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/hooks/feed_fn_hook.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/queue_runner.h"

namespace tutti::monitored_session_test {

using namespace std::chrono_literals;
using test::RecordingHook;
using test::thrown_by;
using Events = std::vector<std::string>;

struct MonitoredTest : ::testing::Test {
  MonitoredTest() { creator.environment = surroundings.environment(); }

  MonitoredSession session(std::vector<Hook> hooks) {
    creator.config.connect = faults.connect();
    return MonitoredSession(std::make_unique<ChiefSessionCreator>(job.graph, creator), {.hooks = std::move(hooks)});
  }
  std::int64_t step(MonitoredSession& session) { return step_value(session.run({}, {*job.step})[0]); }

  test::CountingJob job;
  test::TestEnvironment surroundings;
  test::SessionFaults faults;
  SessionCreatorOptions creator;
  Events events;
  TempDirectory directory;
};

TEST_F(MonitoredTest, CallsHooksInOrder) {
  {
    MonitoredSession monitored = session({RecordingHook("a", events), RecordingHook("b", events)});
    EXPECT_EQ(events, (Events{"a.begin", "b.begin", "a.after_create_session", "b.after_create_session"}));
    events.clear();
    monitored.run({job.train});
    EXPECT_EQ(events, (Events{"a.before_run", "b.before_run", "a.after_run", "b.after_run"}));
    events.clear();
    monitored.close();
  }
  EXPECT_EQ(events, (Events{"a.end", "b.end"}));
}

TEST_F(MonitoredTest, ALoopReadsAsInTensorFlow) {
  int steps = 0;
  MonitoredSession monitored = session({StopAtStepHook({.last_step = 5})});
  while (!monitored.should_stop()) {
    monitored.run({job.train});
    ++steps;
  }
  EXPECT_EQ(steps, 5);
  const Status late = thrown_by([&] { monitored.run({job.train}); });
  EXPECT_EQ(late.code(), Code::kFailedPrecondition);
  EXPECT_EQ(late.message(), "Run called even after should_stop requested.");
  monitored.close();
  EXPECT_TRUE(monitored.should_stop());
  const Status closed = thrown_by([&] { monitored.run({job.train}); });
  EXPECT_EQ(closed.message(), "Session is already closed.");
  EXPECT_EQ(thrown_by([&] { monitored.close(); }).message(), "Session is already closed.");
}

TEST_F(MonitoredTest, TheDestructorEndsHooksUnlessAnErrorPasses) {
  { MonitoredSession monitored = session({RecordingHook("a", events)}); }
  EXPECT_EQ(events.back(), "a.end");
  events.clear();
  EXPECT_THROW(
      {
        MonitoredSession monitored = session({RecordingHook("a", events)});
        throw std::runtime_error("the user's");
      },
      std::runtime_error);
  EXPECT_EQ(events.back(), "a.after_create_session");
}

TEST_F(MonitoredTest, AFailedStepIsThrownAndHooksDoNotEnd) {
  Output bad = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "fed");
  const Status status = thrown_by([&] {
    MonitoredSession monitored = session({RecordingHook("a", events)});
    monitored.run({}, {bad});
  });
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  EXPECT_EQ(events.back(), "a.before_run");
}

TEST_F(MonitoredTest, TheEndOfTheInputEndsTheLoopCleanly) {
  const Output count =
      add_op(job.graph, "ResourceCountUpTo", {job.step->handle()}, {{"limit", std::int64_t{3}}, {"T", DType::kInt64}})
          ->output();
  int steps = 0;
  {
    MonitoredSession monitored = session({RecordingHook("a", events)});
    monitored.loop([&] {
      monitored.run({}, {count});
      ++steps;
    });
    EXPECT_TRUE(monitored.closed());
  }
  EXPECT_EQ(steps, 3);
  EXPECT_EQ(events.back(), "a.end");
  events.clear();
  // The same as an exception that leaves the block.
  const Status status = thrown_by([&] {
    MonitoredSession monitored = session({RecordingHook("a", events)});
    while (!monitored.should_stop()) monitored.run({}, {count});
  });
  EXPECT_EQ(status.code(), Code::kOutOfRange);
  EXPECT_EQ(events.back(), "a.end");
}

// Wants the step and w, and something traced.
struct CuriousHook : SessionRunHook {
  CuriousHook(const test::CountingJob& job, std::vector<std::string>& seen) : fetches{*job.step, *job.w}, seen(&seen) {}
  std::optional<RunArgs> before_run(RunContext& context) override {
    EXPECT_EQ(context.original().targets.size(), 1u);
    return RunArgs{.fetches = fetches, .trace = true, .timeout = 50s};
  }
  void after_run(RunContext&, const RunValues& values) override {
    seen->push_back(values.results[1].to_string());
    EXPECT_EQ(values.options.timeout, 60s);  // the longest
    ASSERT_NE(values.metadata, nullptr);
    EXPECT_FALSE(values.metadata->step_stats.nodes.empty());
  }
  std::vector<TensorName> fetches;
  std::vector<std::string>* seen;
};

TEST_F(MonitoredTest, HooksGetWhatTheyAskFor) {
  std::vector<std::string> seen;
  MonitoredSession monitored = session({CuriousHook(job, seen), CuriousHook(job, seen)});
  const std::vector<Tensor> values = monitored.run({}, {*job.w}, {job.train}, {.timeout = 60s});
  ASSERT_EQ(values.size(), 1u);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], values[0].to_string());
  // What three want is fetched once.
  EXPECT_EQ(faults.last_fetches(), 2u);
}

TEST_F(MonitoredTest, OneFeedByTwoIsRefused) {
  const Output fed = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "fed");
  const Output twice = op1("Mul", {fed, constant(job.graph, Tensor::scalar(2.0f))});
  const auto feed = [fed] { return Feeds{{fed, Tensor::scalar(4.0f)}}; };
  {
    MonitoredSession monitored = session({FeedFnHook(feed)});
    EXPECT_EQ(monitored.run({}, {twice})[0].scalar<float>(), 8);
    const Status by_user = thrown_by([&] { monitored.run({{"fed", Tensor::scalar(1.0f)}}, {twice}); });
    EXPECT_EQ(by_user.code(), Code::kInvalidArgument);
    EXPECT_EQ(by_user.message(), "Same tensor is fed by a SessionRunHook and user: fed:0");
  }
  MonitoredSession monitored = session({FeedFnHook(feed), FeedFnHook(feed)});
  EXPECT_EQ(thrown_by([&] { monitored.run({}, {twice}); }).message(), "Same tensor is fed by two hooks: fed:0");
}

TEST_F(MonitoredTest, TheGraphMustNotGrow) {
  MonitoredSession monitored = session({});
  monitored.run({job.train});
  no_op(job.graph, "late");
  const Status status = thrown_by([&] { monitored.run({job.train}); });
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("Graph is finalized and cannot be modified: NoOp \"late\""), std::string::npos)
      << status.message();
}

// --- Recovery ---

TEST_F(MonitoredTest, ALostTaskMeansANewSessionAndTheSameStepAgain) {
  for (const Code code : {Code::kAborted, Code::kUnavailable}) {
    events.clear();
    MonitoredSession monitored = session({RecordingHook("a", events)});
    monitored.run({job.train});
    events.clear();
    faults.fail_next_run(Status(code, "ps:0 is gone"));
    monitored.run({job.train});
    EXPECT_EQ(events, (Events{"a.before_run", "a.after_create_session", "a.before_run", "a.after_run"}));
    EXPECT_EQ(monitored.sessions_created(), 2);
    EXPECT_EQ(step(monitored), 1);  // initialised anew: there is no checkpoint
    EXPECT_FALSE(monitored.should_stop());
  }
  EXPECT_EQ(surroundings.lines.count("ps:0 is gone"), 2);
}

TEST_F(MonitoredTest, SessionsThatCannotBeMadeAreTriedAgainForSoLong) {
  faults.fail_connects(2, unavailable("nobody there"));
  auto made = std::async(std::launch::async, [&] { return session({}).sessions_created(); });
  while (made.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_EQ(made.get(), 1);
  EXPECT_EQ(surroundings.lines.count("nobody there"), 2);

  faults.fail_connects(1'000'000, unavailable("nobody there"));
  auto failed = std::async(std::launch::async, [&] { return thrown_by([&] { session({}); }); });
  while (failed.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(1000s);
  const Status status = failed.get();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("nobody there"), std::string::npos) << status.message();
}

// Throws once, where it is told to.
struct ThrowingHook : SessionRunHook {
  ThrowingHook(std::string where, Status status) : where(std::move(where)), status(std::move(status)) {}
  std::optional<RunArgs> before_run(RunContext&) override {
    maybe("before_run");
    return std::nullopt;
  }
  void after_run(RunContext&, const RunValues&) override { maybe("after_run"); }
  void after_create_session(Session&, Coordinator&) override { maybe("after_create_session"); }
  void maybe(const std::string& here) {
    if (here != where || status.ok()) return;
    throw_error(std::exchange(status, Status()));
  }
  std::string where;
  Status status;
};

TEST_F(MonitoredTest, HooksMayMeetALostTaskToo) {
  for (const char* where : {"before_run", "after_run", "after_create_session"}) {
    auto made = std::async(std::launch::async, [&] {
      MonitoredSession monitored = session({ThrowingHook(where, aborted("lost in ", where))});
      monitored.run({job.train});
      return monitored.sessions_created();
    });
    while (made.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
    // A session that a hook never learnt of does not count.
    EXPECT_EQ(made.get(), std::string_view(where) == "after_create_session" ? 1 : 2) << where;
  }
}

// Loses a task in every step.
struct HopelessHook : SessionRunHook {
  void after_run(RunContext&, const RunValues&) override { throw_error(aborted("every time")); }
};

TEST_F(MonitoredTest, AStepThatNeverWorksIsGivenUp) {
  auto ended = std::async(std::launch::async, [&] {
    MonitoredSession monitored = session({HopelessHook()});
    const Status status = thrown_by([&] { monitored.run({job.train}); });
    EXPECT_GE(monitored.sessions_created(), 3);
    return status;
  });
  while (ended.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(5s);
  EXPECT_EQ(ended.get(), aborted("every time"));
  EXPECT_EQ(surroundings.lines.count("No step has worked for 7200 secs"), 1);
}

// Counts the sessions that it knows of.
struct OpenSessionsHook : SessionRunHook {
  explicit OpenSessionsHook(std::set<Session*>& open) : open(&open) {}
  void after_create_session(Session& session, Coordinator&) override { EXPECT_TRUE(open->insert(&session).second); }
  void after_close_session(Session& session) override {
    EXPECT_EQ(open->erase(&session), 1u);
    EXPECT_EQ(thrown_by([&] { session.run({NodeName("train")}); }).code(), Code::kCancelled);
  }
  std::set<Session*>* open;
};

TEST_F(MonitoredTest, HooksLearnWhichSessionsAreGone) {
  std::set<Session*> open;
  {
    MonitoredSession monitored = session({OpenSessionsHook(open)});
    faults.fail_next_run(aborted("gone"));
    monitored.run({job.train});
    EXPECT_EQ(open.size(), 1u);
    monitored.close();
    EXPECT_TRUE(open.empty());
  }
  const Status status = thrown_by([&] {
    MonitoredSession monitored = session({OpenSessionsHook(open)});
    throw_error(internal_error("the user's"));
  });
  EXPECT_EQ(status, internal_error("the user's"));
  EXPECT_TRUE(open.empty());
}

TEST_F(MonitoredTest, OtherErrorsOfHooksEndTheJob) {
  const Status status = thrown_by([&] {
    MonitoredSession monitored =
        session({ThrowingHook("after_run", data_loss("a hook's")), RecordingHook("a", events)});
    monitored.run({job.train});
  });
  EXPECT_EQ(status, data_loss("a hook's"));
  EXPECT_EQ(events.back(), "a.before_run");
}

// As when a thread of an earlier hook fails while this one runs something: the thread asks all to stop and closes the
// session.
struct StoppedHook : SessionRunHook {
  explicit StoppedHook(Status cause) : cause(std::move(cause)) {}
  void after_create_session(Session& session, Coordinator& coordinator) override {
    if (cause.ok()) return;
    coordinator.request_stop(std::exchange(cause, Status()));
    static_cast<void>(session.close());
    session.run({NodeName("train")});
  }
  Status cause;
};

// Keeps what it is told to have failed.
struct FailureHook : SessionRunHook {
  explicit FailureHook(std::vector<Status>& failures) : failures(&failures) {}
  void failed(Session& session, const Status& error) override {
    failures->push_back(error);
    EXPECT_NE(session.try_run({}, {}, {NodeName("train")}).status().code(), Code::kUnknown);
  }
  std::vector<Status>* failures;
};

TEST_F(MonitoredTest, AThreadThatFailsWhileASessionIsMadeIsTheCause) {
  std::vector<Status> failures;
  auto made = std::async(std::launch::async, [&] {
    return session({StoppedHook(aborted("ps:0 is gone")), FailureHook(failures)}).sessions_created();
  });
  while (made.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_EQ(made.get(), 1);
  EXPECT_EQ(surroundings.lines.count("ps:0 is gone"), 1);
  EXPECT_TRUE(failures.empty()) << failures[0].to_string();

  EXPECT_EQ(thrown_by([&] {
              session({StoppedHook(data_loss("a thread's")), FailureHook(failures)});
            }),
            data_loss("a thread's"));
  EXPECT_EQ(failures, std::vector<Status>{data_loss("a thread's")});
}

TEST_F(MonitoredTest, HooksLearnOfAnErrorWhileASessionIsMade) {
  std::vector<Status> failures;
  const auto hooks = [&](Status error) {
    return std::vector<Hook>{ThrowingHook("after_create_session", std::move(error)), FailureHook(failures)};
  };
  EXPECT_EQ(thrown_by([&] { session(hooks(resource_exhausted("full"))); }), resource_exhausted("full"));
  EXPECT_EQ(failures, std::vector<Status>{resource_exhausted("full")});
  // Also when it recovers from something else.
  failures.clear();
  auto late = std::make_shared<ThrowingHook>("after_create_session", Status());
  MonitoredSession monitored = session({late, FailureHook(failures)});
  late->status = resource_exhausted("full");
  faults.fail_next_run(aborted("gone"));
  EXPECT_EQ(thrown_by([&] { monitored.run({job.train}); }), resource_exhausted("full"));
  EXPECT_EQ(failures, std::vector<Status>{resource_exhausted("full")});
}

TEST_F(MonitoredTest, ASingularSessionDoesNotRecover) {
  creator.config.connect = faults.connect();
  SingularMonitoredSession monitored(job.graph, creator);
  monitored.run({job.train});
  EXPECT_EQ(read_global_step(monitored.raw_session(), *job.step), 1);
  faults.fail_next_run(aborted("gone"));
  EXPECT_EQ(thrown_by([&] { monitored.run({job.train}); }), aborted("gone"));
}

// --- Threads ---

// Starts a thread of the coordinator.
struct ThreadHook : SessionRunHook {
  explicit ThreadHook(std::function<void(Coordinator&)> body) : body(std::move(body)) {}
  void after_create_session(Session&, Coordinator& coordinator) override {
    coordinator.start_thread("hooks_own", [body = body, &coordinator] { body(coordinator); });
  }
  std::function<void(Coordinator&)> body;
};

TEST_F(MonitoredTest, AThreadsErrorEndsTheLoop) {
  MonitoredSession monitored = session({ThreadHook([](Coordinator&) { throw_error(data_loss("a thread's")); })});
  const Status status = thrown_by([&] {
    while (!monitored.should_stop()) monitored.run({job.train});
  });
  // A run meets it, or the loop has ended before the next one; the end tells it in any case.
  EXPECT_TRUE(status.ok() || status == data_loss("a thread's")) << status.to_string();
  EXPECT_EQ(thrown_by([&] { monitored.close(); }), data_loss("a thread's"));
}

TEST_F(MonitoredTest, AThreadThatMeetsALostTaskMakesTheSessionRecover) {
  auto failures = std::make_shared<std::atomic<int>>(0);
  MonitoredSession monitored = session({ThreadHook([failures](Coordinator& coordinator) {
    if (++*failures == 1) throw_error(aborted("a thread's task"));
    coordinator.wait_for_stop();
  })});
  while (monitored.sessions_created() < 2) {
    ASSERT_FALSE(monitored.should_stop());
    monitored.run({job.train});
  }
  monitored.close();
}

// Loses its session when asked whether to stop.
void lose_in_should_stop(MonitoredSession& monitored, const test::Lines& lines) {
  while (lines.count("A task was lost: the session is closed") == 0) ASSERT_FALSE(monitored.should_stop());
}

// A thread that loses a task in the first session.
Hook loses_a_task_once() {
  return ThreadHook([failures = std::make_shared<std::atomic<int>>(0)](Coordinator& coordinator) {
    if (++*failures == 1) throw_error(aborted("a thread's task"));
    coordinator.wait_for_stop();
  });
}

TEST_F(MonitoredTest, HooksEndAlsoAfterShouldStopLostTheSession) {
  creator.checkpoint_dir = directory.path();
  MonitoredSession monitored = session({loses_a_task_once(), RecordingHook("a", events)});
  lose_in_should_stop(monitored, surroundings.lines);
  monitored.close();
  EXPECT_EQ(monitored.sessions_created(), 2);
  EXPECT_EQ(events, (Events{"a.begin", "a.after_create_session", "a.after_create_session", "a.end"}));
}

// Whatever should_stop() is about when the thread fails.
TEST_F(MonitoredTest, ALostTaskIsNeverTakenForTheEnd) {
  creator.checkpoint_dir = directory.path();
  for (int i = 0; i < 200; ++i) {
    MonitoredSession monitored = session({loses_a_task_once()});
    while (monitored.sessions_created() < 2) {
      ASSERT_FALSE(monitored.should_stop()) << i;
      if (i % 2 == 0 && surroundings.lines.count("A task was lost: the session is closed") <= i) continue;
      monitored.run({job.train});
    }
    monitored.close();
  }
}

TEST_F(MonitoredTest, NothingIsInitialisedAgainToEndHooks) {
  MonitoredSession monitored = session({loses_a_task_once(), RecordingHook("a", events)});
  lose_in_should_stop(monitored, surroundings.lines);
  EXPECT_EQ(thrown_by([&] { monitored.close(); }).code(), Code::kFailedPrecondition);
  EXPECT_EQ(monitored.sessions_created(), 1);
  EXPECT_EQ(events.back(), "a.after_create_session");
}

TEST_F(MonitoredTest, TheDestructorEndsHooksAlsoAfterShouldStopLostTheSession) {
  creator.checkpoint_dir = directory.path();
  {
    MonitoredSession monitored = session({loses_a_task_once(), RecordingHook("a", events)});
    lose_in_should_stop(monitored, surroundings.lines);
  }
  EXPECT_EQ(events.back(), "a.end");
}

TEST_F(MonitoredTest, HooksThatCannotEndAreAnErrorOfClose) {
  MonitoredSession monitored = session({loses_a_task_once(), RecordingHook("a", events)});
  lose_in_should_stop(monitored, surroundings.lines);
  faults.fail_connects(1'000'000, permission_denied("not for you"));
  EXPECT_EQ(thrown_by([&] { monitored.run({job.train}); }).code(), Code::kPermissionDenied);
  faults.fail_connects(0, {});
  const Status status = thrown_by([&] { monitored.close(); });
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("not for you"), std::string::npos) << status.message();
  EXPECT_EQ(events.back(), "a.after_create_session");
}

TEST_F(MonitoredTest, CloseWaitsForThreadsAsLongAsTheGracePeriod) {
  std::promise<void> let_go;
  std::shared_future<void> gone = let_go.get_future().share();
  creator.config.connect = faults.connect();
  auto closed = std::async(std::launch::async, [&] {
    MonitoredSession monitored(
        std::make_unique<ChiefSessionCreator>(job.graph, creator),
        {.hooks = {ThreadHook([gone](Coordinator&) { gone.wait(); })}, .stop_grace_period_secs = 20});
    const TimePoint start = surroundings.clock->now();
    monitored.close();
    EXPECT_EQ(surroundings.lines.count("threads still running: hooks_own"), 1);
    const Duration took = surroundings.clock->now() - start;
    let_go.set_value();  // only now: the destructor waits for the thread, close() did not
    return took;
  });
  while (closed.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(1s);
  EXPECT_GE(closed.get(), 20s);
}

TEST_F(MonitoredTest, QueueRunnersOfTheGraphAreStarted) {
  const std::vector<DType> types{DType::kInt64};
  const Output queue = add_op(job.graph, "FIFOQueueV2", {}, {{"component_types", types}, {"capacity", 2}})->output();
  const Var counter = variable(job.graph, Tensor::scalar<std::int64_t>(0), "counter");
  const Output next =
      add_op(job.graph, "ResourceCountUpTo", {counter.handle()}, {{"limit", std::int64_t{6}}, {"T", DType::kInt64}})
          ->output();
  add_queue_runner(job.graph, QueueRunner(queue, {add_op(job.graph, "QueueEnqueueV2", {queue, next})}));
  const Output dequeue = add_op(job.graph, "QueueDequeueV2", {queue}, {{"component_types", types}})->output();
  std::int64_t sum = 0;
  MonitoredSession monitored = session({});
  monitored.loop([&] { sum += monitored.run({}, {dequeue})[0].scalar<std::int64_t>(); });
  EXPECT_EQ(sum, 15);
}

// --- Steps of the user's own ---

TEST_F(MonitoredTest, RunStepFnGivesTheSessionWithAndWithoutHooks) {
  MonitoredSession monitored = session({RecordingHook("a", events)});
  events.clear();
  const float w = monitored.run_step_fn([&](StepContext& context) {
    context.session().run({job.train});
    EXPECT_TRUE(events.empty());
    return context.run_with_hooks({}, {*job.w}, {})[0].scalar<float>();
  });
  EXPECT_EQ(w, 10.5f);
  EXPECT_EQ(events, (Events{"a.before_run", "a.after_run"}));
  EXPECT_FALSE(monitored.should_stop());
  monitored.run_step_fn([](StepContext& context) { context.request_stop(); });
  EXPECT_TRUE(monitored.should_stop());
}

TEST_F(MonitoredTest, RunStepFnIsCalledAgainAfterARecovery) {
  MonitoredSession monitored = session({});
  int calls = 0;
  monitored.run_step_fn([&](StepContext& context) {
    if (++calls == 1) faults.fail_next_run(unavailable("gone"));
    context.run_with_hooks({}, {}, {job.train});
  });
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(monitored.sessions_created(), 2);
}

TEST_F(MonitoredTest, ACancellationEndsSteps) {
  Cancellation cancellation;
  creator.environment.cancellation = &cancellation;
  MonitoredSession monitored = session({});
  monitored.run({job.train});
  cancellation.cancel(cancelled("enough"));
  EXPECT_EQ(thrown_by([&] { monitored.run({job.train}); }).code(), Code::kCancelled);
}

}  // namespace tutti::monitored_session_test
