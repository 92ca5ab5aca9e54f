#include "tutti/train/run_config.h"

#include <atomic>
#include <future>
#include <memory>

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/ops/builders.h"
#include "tutti/train/coordinator.h"

namespace tutti::run_config_test {

using namespace std::chrono_literals;
using test::thrown_by;
using Events = std::vector<std::string>;
using Steps = std::vector<std::int64_t>;

RunConfig of(const std::string& type, int index) {
  TaskConfig task;
  task.cluster = ClusterSpec(std::map<std::string, std::vector<std::string>>{
      {"chief", {"c:1"}}, {"worker", {"w:1", "w:2"}}, {"ps", {"p:1", "p:2"}}, {"aid", {"a:1"}}});
  task.type = type;
  task.index = index;
  return RunConfig::of_task(task);
}

TEST(RunConfigTest, KnowsWhichTaskItIs) {
  EXPECT_TRUE(of("chief", 0).is_chief());
  EXPECT_FALSE(of("worker", 0).is_chief());
  EXPECT_EQ(of("worker", 1).master(), "grpc://w:2");
  EXPECT_EQ(of("worker", 1).num_ps_replicas(), 2);
  EXPECT_EQ(of("worker", 1).num_worker_replicas(), 3);
  EXPECT_EQ(of("chief", 0).global_id_in_cluster(), 0);
  EXPECT_EQ(of("aid", 0).global_id_in_cluster(), 1);
  EXPECT_EQ(of("worker", 1).global_id_in_cluster(), 3);
  EXPECT_EQ(of("ps", 1).global_id_in_cluster(), 5);
  EXPECT_EQ(thrown_by([] { of("worker", 7).master(); }).code(), Code::kInvalidArgument);
  EXPECT_EQ(thrown_by([] { of("nobody", 0).global_id_in_cluster(); }).code(), Code::kInvalidArgument);
}

TEST(RunConfigTest, WithoutAChiefWorker0IsIt) {
  RunConfig config;
  config.cluster = ClusterSpec(std::map<std::string, std::vector<std::string>>{{"worker", {"w:1", "w:2"}}});
  config.task_type = "worker";
  EXPECT_TRUE(config.is_chief());
  config.task_id = 1;
  EXPECT_FALSE(config.is_chief());
}

TEST(RunConfigTest, OnItsOwn) {
  const RunConfig config;
  EXPECT_TRUE(config.is_chief());
  EXPECT_EQ(config.master(), "");
  EXPECT_EQ(config.num_worker_replicas(), 1);
  EXPECT_EQ(config.global_id_in_cluster(), 0);
}

TEST(RunConfigTest, AWorkersSessionSeesParameterServersAndItself) {
  test::CountingJob job;
  const MonitoredTrainingSessionOptions options = of("worker", 1).session_options(job.graph);
  EXPECT_EQ(options.config.cluster.device_filters, (std::vector<std::string>{"/job:ps", "/job:worker/task:1"}));
  EXPECT_TRUE(options.config.cluster.allow_soft_placement);
  EXPECT_FALSE(options.is_chief);
}

TEST(RunConfigTest, TheSaverUsesTheEnvironmentsFilesAndClock) {
  test::CountingJob job;
  TempDirectory directory;
  RunConfig config;
  config.model_dir = directory.path();
  config.save_checkpoints_steps = 1;
  config.log_step_count_steps = 0;
  config.save_summary_steps = 0;
  std::atomic<bool> saw_state = false;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    if (op == FileOp::kOpenWrite && path.find("/checkpoint") != path.npos) saw_state = true;
    return Status();
  });
  std::weak_ptr<ManualClock> clock;
  {
    test::TestEnvironment surroundings;
    config.environment = surroundings.environment();
    config.environment.files = &files;
    clock = surroundings.clock;
    MonitoredTrainingSessionOptions options = config.session_options(job.graph);
    EXPECT_EQ(options.environment.files, &files);
    config.environment = {};
    MonitoredTrainingSession session(job.graph, std::move(options));
    session.run({job.train});
    session.close();
    EXPECT_FALSE(clock.expired());
  }
  EXPECT_TRUE(saw_state);
  EXPECT_TRUE(clock.expired());
}

TEST(RunConfigTest, EveryOptionHasItsEffect) {
  test::CountingJob job;
  test::TestEnvironment surroundings;
  TempDirectory directory;
  RunConfig config;
  config.model_dir = directory.path();
  config.save_checkpoints_steps = 2;
  config.keep_checkpoint_max = 2;
  config.log_step_count_steps = 3;
  config.save_summary_steps = 0;
  MonitoredTrainingSessionOptions options = config.session_options(job.graph);
  EXPECT_EQ(options.max_wait_secs, 7200);
  options.environment = surroundings.environment();
  MonitoredTrainingSession session(job.graph, options);
  for (int i = 0; i < 7; ++i) {
    session.run({job.train});
    surroundings.clock->advance(std::chrono::seconds(1));
  }
  session.close();
  EXPECT_EQ(test::checkpoints_in(directory.path()), (Steps{6, 7}));
  EXPECT_EQ(surroundings.lines.count("global_step/sec"), 2);
  config.save_checkpoints_secs = 1;
  EXPECT_EQ(thrown_by([&] { MonitoredTrainingSession(job.graph, config.session_options(job.graph)); }).code(),
            Code::kInvalidArgument);
}

struct OneTask : ::testing::Test {
  OneTask() {
    config.model_dir = directory.path();
    config.environment = surroundings.environment();
    config.save_checkpoints_steps = 1;
    config.log_step_count_steps = 0;
    config.save_summary_steps = 0;
  }
  void train(MonitoredSession& session, int steps, Duration each = 0s) {
    for (int i = 0; i < steps; ++i) {
      session.run({job.train});
      surroundings.clock->advance(each);
    }
  }

  test::CountingJob job;
  test::TestEnvironment surroundings;
  TempDirectory directory;
  RunConfig config;
};

TEST_F(OneTask, KeepCheckpointEveryNHours) {
  config.keep_checkpoint_max = 1;
  config.keep_checkpoint_every_n_hours = 1;
  config.save_in_background = false;  // a checkpoint's time is that of its end
  MonitoredTrainingSession session(job.graph, config.session_options(job.graph));
  train(session, 7, 30min);  // steps 1 to 7 are saved at 0, 0.5, 1, ... 3 hours
  session.close();
  // The first one after each full hour stays, and the newest.
  EXPECT_EQ(test::checkpoints_in(directory.path()), (Steps{4, 6, 7}));
}

TEST_F(OneTask, SaveSummarySteps) {
  const Output tag = constant(job.graph, Tensor::scalar<std::string>("w"));
  job.graph.add_to_collection("summaries", *add_op(job.graph, "ScalarSummary", {tag, *job.w}));
  config.save_checkpoints_steps = 0;
  config.save_summary_steps = 3;
  MonitoredTrainingSession session(job.graph, config.session_options(job.graph));
  train(session, 8);
  session.close();
  EXPECT_EQ(test::events_in(directory.path()), (Events{"start@1", "w@1", "w@4", "w@7"}));
}

TEST_F(OneTask, SessionConfig) {
  test::SessionFaults faults;
  config.session_config.connect = faults.connect();
  faults.fail_connects(1, permission_denied("the session_config's"));
  const MonitoredTrainingSessionOptions options = config.session_options(job.graph);
  EXPECT_EQ(thrown_by([&] { MonitoredTrainingSession(job.graph, options); }),
            permission_denied("the session_config's"));

  RunConfig worker = of("worker", 1);
  worker.session_config.cluster.device_filters = {"/job:ps/task:0"};
  EXPECT_EQ(worker.session_options(job.graph).config.cluster.device_filters, Events{"/job:ps/task:0"});
}

TEST_F(OneTask, SessionCreationTimeoutSecs) {
  RunConfig worker = of("worker", 1);
  test::SessionFaults faults;
  worker.session_config.connect = faults.connect();
  worker.environment = surroundings.environment();
  worker.session_creation_timeout_secs = 20;
  auto ended = std::async(std::launch::async, [&] {
    return thrown_by([&] { MonitoredTrainingSession(job.graph, worker.session_options(job.graph)); });
  });
  const TimePoint start = surroundings.clock->now();
  while (ended.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  const Status status = ended.get();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("not ready after waiting 20 secs"), std::string::npos) << status.message();
  EXPECT_GE(surroundings.clock->now() - start, 18s);  // it would have waited for another second
}

// Has a thread that does not end before it is let go.
struct HeldHook : SessionRunHook {
  explicit HeldHook(std::shared_future<void> release) : release(std::move(release)) {}
  void after_create_session(Session&, Coordinator& coordinator) override {
    coordinator.start_thread("held", [release = release] { release.wait(); });
  }
  std::shared_future<void> release;
};

TEST_F(OneTask, StopGracePeriodSecs) {
  std::promise<void> release;
  config.stop_grace_period_secs = 0.5;
  MonitoredTrainingSessionOptions options = config.session_options(job.graph);
  options.hooks = {HeldHook(release.get_future().share())};
  const TimePoint start = surroundings.clock->now();
  auto closed = std::async(std::launch::async, [&] { MonitoredTrainingSession(job.graph, options).close(); });
  while (surroundings.lines.count("threads still running: held") == 0) {
    surroundings.clock->advance(1ms);
    ASSERT_NE(closed.wait_for(1ms), std::future_status::ready);
  }
  EXPECT_GE(surroundings.clock->now() - start, 500ms);
  EXPECT_LT(surroundings.clock->now() - start, 120s);  // the default
  release.set_value();
  closed.get();
}

TEST_F(OneTask, SavesInTheBackgroundUnlessToldOtherwise) {
  std::promise<void> go_on;
  const std::shared_future<void> gone = go_on.get_future().share();
  FaultyFileSystem slow(local_file_system(), [&](FileOp op, const std::string& path) {
    // Not for ever, so that the test fails rather than hangs.
    if (op == FileOp::kOpenWrite && path.find("/checkpoint") != path.npos) gone.wait_for(60s);
    return Status();
  });
  config.environment.files = &slow;
  config.save_checkpoints_steps = 1000;
  {
    MonitoredTrainingSession session(job.graph, config.session_options(job.graph));
    train(session, 5);  // the disk keeps nobody waiting
    EXPECT_FALSE(local_file_system().exists(directory.file("checkpoint")));
    go_on.set_value();
    session.close();
  }
  EXPECT_EQ(latest_checkpoint(slow, directory.path()).value_or_throw(), directory.file("model.ckpt-5"));

  config.model_dir = directory.file("other");
  config.save_in_background = false;
  test::CountingJob other;
  MonitoredTrainingSession session(other.graph, config.session_options(other.graph));
  EXPECT_EQ(latest_checkpoint(slow, config.model_dir).value_or_throw(), config.model_dir + "/model.ckpt-0");
}

}  // namespace tutti::run_config_test
