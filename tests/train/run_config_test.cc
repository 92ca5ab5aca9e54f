#include "tutti/train/run_config.h"

#include <atomic>
#include <memory>

#include "tests/train/hooks/hook_fixture.h"

namespace tutti::run_config_test {

using test::thrown_by;
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

}  // namespace tutti::run_config_test
