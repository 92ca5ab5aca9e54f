#include "tutti/train/monitored_training_session.h"

#include <atomic>
#include <future>

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/core/cancellation.h"
#include "tutti/ops/builders.h"
#include "tutti/train/coordinator.h"
#include "tutti/train/hooks/stop_at_step_hook.h"
#include "tutti/train/saver.h"

namespace tutti::monitored_training_session_test {

using namespace std::chrono_literals;
using test::checkpoints_in;
using test::events_in;
using test::thrown_by;
using Steps = std::vector<std::int64_t>;
using Events = std::vector<std::string>;

struct MonitoredTrainingTest : ::testing::Test {
  MonitoredTrainingTest() {
    options.environment = surroundings.environment();
    options.checkpoint_dir = directory.path();
    options.config.connect = faults.connect();
    const Output tag = constant(job.graph, Tensor::scalar<std::string>("w"));
    job.graph.add_to_collection("summaries", *add_op(job.graph, "ScalarSummary", {tag, *job.w}));
  }
  // Trains so many steps, each of which takes a second.
  void train(int steps) {
    MonitoredTrainingSession session(job.graph, options);
    for (int i = 0; i < steps; ++i) {
      session.run({job.train});
      surroundings.clock->advance(1s);
    }
    session.close();
  }
  Events kinds(const std::string& text) {
    Events found;
    for (const std::string& event : events_in(directory.path())) {
      if (event.find(text) != std::string::npos) found.push_back(event);
    }
    return found;
  }

  test::CountingJob job;
  test::TestEnvironment surroundings;
  test::SessionFaults faults;
  TempDirectory directory;
  MonitoredTrainingSessionOptions options;
};

TEST_F(MonitoredTrainingTest, AWholeProgram) {
  options.hooks = {StopAtStepHook({.last_step = 10})};
  {
    MonitoredTrainingSession session(job.graph, options);
    while (!session.should_stop()) session.run({job.train});
  }
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 10}));
  // A second program goes on where the first one ended.
  options.hooks = {StopAtStepHook({.num_steps = 2})};
  {
    MonitoredTrainingSession session(job.graph, options);
    while (!session.should_stop()) session.run({job.train});
  }
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 10, 12}));
}

TEST_F(MonitoredTrainingTest, WithoutADirectoryNothingIsWritten) {
  options.checkpoint_dir = "";
  train(3);
  EXPECT_TRUE(local_file_system().list(directory.path()).value_or_throw().empty());
}

TEST_F(MonitoredTrainingTest, SaveCheckpointSteps) {
  options.save_checkpoint_steps = 4;
  train(10);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 4, 8, 10}));
}

TEST_F(MonitoredTrainingTest, SaveCheckpointSecs) {
  options.save_checkpoint_secs = 3;
  train(8);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 4, 7, 8}));
}

TEST_F(MonitoredTrainingTest, ByDefaultCheckpointsAreSavedEveryTenMinutes) {
  train(602);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 601, 602}));
}

TEST_F(MonitoredTrainingTest, ZeroTurnsSavingOff) {
  options.save_checkpoint_secs = 0;
  train(3);
  EXPECT_TRUE(checkpoints_in(directory.path()).empty());
}

TEST_F(MonitoredTrainingTest, BothOfAPairAreRefused) {
  options.save_checkpoint_secs = 1;
  options.save_checkpoint_steps = 1;
  EXPECT_EQ(thrown_by([&] { train(1); }).code(), Code::kInvalidArgument);
  options.save_checkpoint_secs.reset();
  options.save_summaries_secs = 1;
  options.save_summaries_steps = 1;
  EXPECT_EQ(thrown_by([&] { train(1); }).code(), Code::kInvalidArgument);
}

TEST_F(MonitoredTrainingTest, SaveSummariesSteps) {
  options.save_summaries_steps = 3;
  train(8);
  EXPECT_EQ(kinds("w@"), (Events{"w@1", "w@4", "w@7"}));
}

TEST_F(MonitoredTrainingTest, SaveSummariesSecs) {
  options.save_summaries_secs = 4;
  train(8);
  EXPECT_EQ(kinds("w@"), (Events{"w@1", "w@5"}));
}

TEST_F(MonitoredTrainingTest, ByDefaultSummariesAreSavedEveryHundredSteps) {
  train(102);
  EXPECT_EQ(kinds("w@"), (Events{"w@1", "w@101"}));
  EXPECT_EQ(kinds("/sec@"), (Events{"global_step/sec@101"}));
}

TEST_F(MonitoredTrainingTest, LogStepCountSteps) {
  options.log_step_count_steps = 5;
  train(11);
  EXPECT_EQ(kinds("/sec@"), (Events{"global_step/sec@6", "global_step/sec@11"}));
  EXPECT_EQ(surroundings.lines.count("global_step/sec: 1"), 2);
  options.log_step_count_steps = 0;
  train(11);
  EXPECT_EQ(surroundings.lines.count("global_step/sec: 1"), 2);
}

TEST_F(MonitoredTrainingTest, SummaryDir) {
  options.summary_dir = directory.file("summaries");
  options.save_summaries_steps = 2;
  train(2);
  EXPECT_TRUE(kinds("w@").empty());
  EXPECT_EQ(events_in(options.summary_dir), (Events{"start@1", "w@1"}));
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 2}));
}

TEST_F(MonitoredTrainingTest, SaveGraphDef) {
  options.save_graph_def = false;
  train(1);
  EXPECT_FALSE(local_file_system().exists(directory.file("graph.pbtxt")));
  EXPECT_FALSE(local_file_system().exists(directory.file("model.ckpt-1.meta")));
  options.save_graph_def = true;
  train(1);
  EXPECT_TRUE(local_file_system().exists(directory.file("graph.pbtxt")));
  EXPECT_TRUE(local_file_system().exists(directory.file("model.ckpt-2.meta")));
}

TEST_F(MonitoredTrainingTest, HooksComeInTensorFlowsOrder) {
  Events events;
  options.chief_only_hooks = {test::RecordingHook("chief", events)};
  options.hooks = {test::RecordingHook("user", events)};
  train(1);
  EXPECT_EQ(events, (Events{"chief.begin", "user.begin", "chief.after_create_session", "user.after_create_session",
                            "chief.before_run", "user.before_run", "chief.after_run", "user.after_run", "chief.end",
                            "user.end"}));
}

TEST_F(MonitoredTrainingTest, AWorkerOnlyHasItsOwnHooksAndWaits) {
  Events events;
  const auto runtime = std::make_shared<LocalRuntime>();
  options.config.connect = nullptr;
  options.config.local.runtime = runtime;
  {
    MonitoredTrainingSession chief(job.graph, options);
    chief.run({job.train});
  }
  options.is_chief = false;
  options.chief_only_hooks = {test::RecordingHook("chief", events)};
  options.hooks = {test::RecordingHook("user", events)};
  train(1);
  EXPECT_EQ(events,
            (Events{"user.begin", "user.after_create_session", "user.before_run", "user.after_run", "user.end"}));
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 1}));  // the chief's

  runtime->reset();
  options.max_wait_secs = 0;
  const Status status = thrown_by([&] { train(1); });
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("Variables not initialized: global_step, w"), std::string::npos) << status.message();
}

TEST_F(MonitoredTrainingTest, TheScaffoldDecidesHowItBegins) {
  options.scaffold = std::make_shared<Scaffold>();
  const Output start = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "start");
  options.scaffold->init_op = group(job.graph, {job.w->assign(start), job.step->initializer()});
  options.scaffold->init_feed_dict = {{start, Tensor::scalar(3.0f)}};
  bool called = false;
  options.scaffold->init_fn = [&](const Scaffold& scaffold, Session& session) {
    EXPECT_EQ(&scaffold, options.scaffold.get());
    EXPECT_EQ(session.run({}, {*job.w})[0].scalar<float>(), 3);
    called = true;
  };
  SaverOptions only_newest;
  only_newest.max_to_keep = 1;
  options.scaffold->saver = std::make_shared<Saver>(job.graph, only_newest);
  options.save_checkpoint_steps = 1;
  train(4);
  EXPECT_TRUE(called);
  EXPECT_EQ(checkpoints_in(directory.path()), Steps{4});
}

TEST_F(MonitoredTrainingTest, TheScaffoldFeedsTheLocalInitOp) {
  options.scaffold = std::make_shared<Scaffold>();
  const Output start = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "start");
  options.scaffold->local_init_op = group(job.graph, {job.w->assign(start)});
  options.scaffold->local_init_feed_dict = {{start, Tensor::scalar(3.0f)}};
  MonitoredTrainingSession session(job.graph, options);
  EXPECT_EQ(session.run({}, {*job.w})[0].scalar<float>(), 3);
}

TEST_F(MonitoredTrainingTest, RecoveryWaitSecs) {
  options.is_chief = false;
  options.recovery_wait_secs = 30;
  options.max_wait_secs = 119;
  faults.fail_connects(1000, unavailable("nobody is there"));
  std::atomic<int> tries = 0;
  options.config.connect = [&tries, connect = faults.connect()](Graph& graph) { return ++tries, connect(graph); };
  auto trained = std::async(std::launch::async, [&] { return thrown_by([&] { train(1); }); });
  while (trained.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_EQ(trained.get().code(), Code::kDeadlineExceeded);
  EXPECT_EQ(tries, 4) << "after 0, 30, 60 and 90 seconds";
}

TEST_F(MonitoredTrainingTest, ItRecoversFromTheLastCheckpointAndGoesOn) {
  options.scaffold = std::make_shared<Scaffold>();
  options.save_checkpoint_steps = 5;
  options.hooks = {StopAtStepHook({.last_step = 12})};
  MonitoredTrainingSession session(job.graph, options);
  int steps = 0;
  while (!session.should_stop()) {
    if (++steps == 8) {
      options.scaffold->saver->wait();
      faults.fail_next_run(aborted("ps:0 came back without its variables"));
    }
    session.run({job.train});
  }
  session.close();
  // Seven steps, of which two were lost, and another seven.
  EXPECT_EQ(steps, 14);
  EXPECT_EQ(session.sessions_created(), 2);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 5, 10, 12}));
}

TEST_F(MonitoredTrainingTest, SavesInTheBackgroundAlsoWhenASessionIsLost) {
  options.save_checkpoint_steps = 1;
  {
    MonitoredTrainingSession session(job.graph, options);
    session.run({job.train});
    session.run({job.train});
    faults.fail_next_run(aborted("ps:0 is gone"));
    session.run({job.train});
    session.close();
  }
  const std::string newest = *latest_checkpoint(local_file_system(), directory.path()).value_or_throw();
  MonitoredTrainingSession again(job.graph, options);
  const std::vector<Tensor> values = again.run({}, {*job.step, *job.w});
  EXPECT_GE(step_value(values[0]), 2);
  EXPECT_EQ(values[1].scalar<float>(), 10 + 0.5f * static_cast<float>(step_value(values[0])));
  EXPECT_EQ(newest, directory.file(str_cat("model.ckpt-", step_value(values[0]))));
}

// Has a thread that does not end before it is let go.
struct StubbornHook : SessionRunHook {
  explicit StubbornHook(std::shared_future<void> release) : release(std::move(release)) {}
  void after_create_session(Session&, Coordinator& coordinator) override {
    coordinator.start_thread("stubborn", [release = release] { release.wait(); });
  }
  std::shared_future<void> release;
};

TEST_F(MonitoredTrainingTest, StopGracePeriodSecs) {
  std::promise<void> release;
  options.checkpoint_dir = "";
  options.stop_grace_period_secs = 0.2;
  options.hooks = {StubbornHook(release.get_future().share())};
  const TimePoint start = surroundings.clock->now();
  auto trained = std::async(std::launch::async, [&] { train(0); });
  while (surroundings.lines.count("threads still running: stubborn") == 0) {
    surroundings.clock->advance(1ms);
    ASSERT_NE(trained.wait_for(1ms), std::future_status::ready);
  }
  EXPECT_GE(surroundings.clock->now() - start, 200ms);
  EXPECT_LT(surroundings.clock->now() - start, 120s);  // the default
  release.set_value();
  trained.get();
}

TEST_F(MonitoredTrainingTest, CheckpointsOfAnEarlierRunAreDeletedInTheirTurn) {
  options.environment.clock = make_system_clock();  // as the files have it
  options.save_checkpoint_steps = 1;
  train(4);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 1, 2, 3, 4}));
  train(2);
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{2, 3, 4, 5, 6}));
}

}  // namespace tutti::monitored_training_session_test
