// Training jobs on real processes, of which some are killed: the job goes on from its last checkpoint.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/core/temp_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/cancellation.h"
#include "tutti/core/mutex.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/ops/array.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/strategies/replica_device_setter.h"
#include "tutti/train/global_step.h"
#include "tutti/train/monitored_training_session.h"

namespace tutti::training_recovery_test {

using namespace std::chrono_literals;

// No test waits for longer than this, whatever the machine does besides.
constexpr std::chrono::seconds kPatience(120);

// One worker's graph: the step on ps 0, and w on ps 1 that each step makes larger by a half. Whatever is restored, w
// belongs to the step; with several workers it is ahead of it at most.
struct Replica {
  Replica(const ClusterSpec& cluster, int worker) : graph(builtin_ops()) {
    ReplicaDeviceSetterOptions setter;
    setter.cluster = cluster;
    setter.worker_device = str_cat("/job:worker/task:", worker);
    const auto scope = graph.device_scope(replica_device_setter(setter));
    step.emplace(get_or_create_global_step(graph));
    w.emplace(variable(graph, Tensor::scalar(10.0f), "w"));
    Node* update = w->assign_add(constant(graph, Tensor::scalar(0.5f)));
    const auto after = graph.control_dependencies({update});
    train = step->assign_add(constant(graph, Tensor::scalar<std::int64_t>(1)), "train");
  }
  Graph graph;
  std::optional<Var> step;
  std::optional<Var> w;
  Node* train = nullptr;
};

// Counts steps and sessions for another thread to see.
struct Progress {
  std::atomic<std::int64_t> steps = 0;
  std::atomic<int> sessions = 0;
};
class ProgressHook : public SessionRunHook {
 public:
  explicit ProgressHook(Progress& progress) : progress_(&progress) {}
  void after_create_session(Session&, Coordinator&) override { ++progress_->sessions; }
  void after_run(RunContext&, const RunValues&) override { ++progress_->steps; }

 private:
  Progress* progress_;
};

// A training program of one worker, on a thread of this process, until it is told to stop.
class Program {
 public:
  using Change = std::function<void(MonitoredTrainingSessionOptions&)>;
  Program(const ProcessCluster& cluster, int worker, const std::string& checkpoint_dir, const Change& change = nullptr)
      : replica_(cluster.spec(), worker) {
    options_.master = cluster.target("worker", worker);
    options_.is_chief = worker == 0;
    options_.checkpoint_dir = checkpoint_dir;
    options_.save_checkpoint_steps = 20;
    options_.max_wait_secs = static_cast<double>(kPatience.count());
    options_.hooks = {ProgressHook(progress)};
    options_.config.cluster.device_filters = {"/job:ps", str_cat("/job:worker/task:", worker)};
    options_.environment.cancellation = &cancellation_;
    options_.environment.log = [this](const std::string& line) {
      MutexLock lock(mu_);
      lines_.push_back(line);
    };
    if (change) change(options_);
    ended_ = std::async(std::launch::async, [this] { return train(); });
  }
  ~Program() { cancellation_.cancel(cancelled("the test is over")); }

  // The job's end: the step and w that it was left at.
  struct End {
    Status status;
    std::int64_t step = 0;
    float w = 0;
  };
  End stop() {
    stop_ = true;
    return end();
  }
  End end() { return ended_.get(); }
  // Ends as a program does that is killed: nothing is saved any more.
  void kill() { cancellation_.cancel(cancelled("killed")); }

  // Waits for `condition`; false when the program ended, or the test's patience did.
  bool wait_until(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!condition()) {
      if (ended_.wait_for(1ms) == std::future_status::ready || std::chrono::steady_clock::now() > deadline)
        return false;
    }
    return true;
  }
  bool makes_steps(std::int64_t count) {
    const std::int64_t goal = progress.steps + count;
    return wait_until([&] { return progress.steps >= goal; });
  }
  bool says(const std::string& text) {
    return wait_until([&] { return log().find(text) != std::string::npos; });
  }
  std::string log() const {
    MutexLock lock(mu_);
    return str_join(lines_, "\n");
  }

  Progress progress;

 private:
  End train() {
    End end;
    try {
      MonitoredTrainingSession session(replica_.graph, options_);
      while (!session.should_stop() && !stop_) session.run({replica_.train});
      const std::vector<Tensor> values = session.run({}, {*replica_.step, *replica_.w});
      end.step = step_value(values[0]);
      end.w = values[1].scalar<float>();
      session.close();
    } catch (const Error& error) {
      end.status = error.status();
    }
    return end;
  }

  Replica replica_;
  MonitoredTrainingSessionOptions options_;
  Cancellation cancellation_;
  std::atomic<bool> stop_ = false;
  mutable Mutex mu_;
  std::vector<std::string> lines_ TUTTI_GUARDED_BY(mu_);
  std::future<End> ended_;  // last: the thread uses the others
};

std::int64_t newest_step(const std::string& directory) {
  const std::string path = latest_checkpoint(local_file_system(), directory).value_or_throw().value_or("x-0");
  return std::stoll(path.substr(path.rfind('-') + 1));
}

struct TrainingRecovery : ::testing::Test {
  TrainingRecovery() : cluster(2, 2) { cluster.start_all(); }
  void restart(const std::string& job, int index) {
    cluster.child(job, index).send(SIGKILL);
    cluster.child(job, index).wait();
    cluster.start(job, index);
  }
  ProcessCluster cluster;
  TempDirectory directory;
};

TEST_F(TrainingRecovery, AParameterServerIsKilledAndComesBack) {
  Program chief(cluster, 0, directory.path());
  for (const int ps : {0, 1}) {
    ASSERT_TRUE(chief.makes_steps(50)) << chief.log();
    const std::int64_t saved = newest_step(directory.path());
    const int sessions = chief.progress.sessions;
    restart("ps", ps);
    ASSERT_TRUE(chief.wait_until([&] { return chief.progress.sessions > sessions; })) << chief.log();
    ASSERT_TRUE(chief.makes_steps(50)) << chief.log();
    EXPECT_GE(newest_step(directory.path()), saved);
  }
  const Program::End end = chief.stop();
  ASSERT_TRUE(end.status.ok()) << end.status.to_string() << "\n" << chief.log();
  EXPECT_GE(end.step, 100);
  EXPECT_EQ(end.w, 10 + 0.5f * static_cast<float>(end.step)) << chief.log();
  EXPECT_EQ(newest_step(directory.path()), end.step);
}

TEST_F(TrainingRecovery, WithoutACheckpointOnlyWhatWasLostIsInitialised) {
  Program chief(cluster, 0, "");
  ASSERT_TRUE(chief.makes_steps(50)) << chief.log();
  const std::int64_t steps = chief.progress.steps;
  restart("ps", 1);
  ASSERT_TRUE(chief.says("Lost the values of variables on /job:ps/task:1 at about step ")) << chief.log();
  ASSERT_TRUE(chief.says("(w), and there is no checkpoint: they are initialised anew.")) << chief.log();
  ASSERT_TRUE(chief.makes_steps(10)) << chief.log();
  const Program::End end = chief.stop();
  ASSERT_TRUE(end.status.ok()) << end.status.to_string() << "\n" << chief.log();
  EXPECT_GE(end.step, steps) << "the global step lives on ps 0, and goes on";
  EXPECT_LT(end.w, 10 + 0.5f * static_cast<float>(end.step));
}

TEST_F(TrainingRecovery, AJobMayAskToFailWhenValuesAreLost) {
  Program chief(cluster, 0, "", [](auto& options) { options.fail_on_lost_values = true; });
  ASSERT_TRUE(chief.makes_steps(50)) << chief.log();
  restart("ps", 1);
  const Program::End end = chief.end();
  EXPECT_EQ(end.status.code(), Code::kDataLoss) << end.status.to_string();
  EXPECT_NE(end.status.message().find("/job:ps/task:1"), std::string::npos) << end.status.message();
  EXPECT_NE(end.status.message().find("(w), and there is no checkpoint"), std::string::npos) << end.status.message();
}

TEST_F(TrainingRecovery, AWorkerWaitsForTheChiefAtTheStartAndAfterALoss) {
  Program worker(cluster, 1, "");
  ASSERT_TRUE(worker.says("Waiting for the chief: none has come yet.")) << worker.log();
  EXPECT_EQ(worker.progress.steps, 0);
  Program chief(cluster, 0, directory.path());
  ASSERT_TRUE(chief.makes_steps(30)) << chief.log();
  ASSERT_TRUE(worker.makes_steps(30)) << worker.log();
  const int chiefs = chief.progress.sessions;
  const int workers = worker.progress.sessions;
  restart("ps", 1);
  ASSERT_TRUE(chief.wait_until([&] { return chief.progress.sessions > chiefs; })) << chief.log();
  ASSERT_TRUE(worker.wait_until([&] { return worker.progress.sessions > workers; })) << worker.log();
  ASSERT_TRUE(worker.makes_steps(30)) << worker.log();
  const Program::End workers_end = worker.stop();
  EXPECT_TRUE(workers_end.status.ok()) << workers_end.status.to_string() << "\n" << worker.log();
  const Program::End end = chief.stop();
  ASSERT_TRUE(end.status.ok()) << end.status.to_string() << "\n" << chief.log();
  EXPECT_GE(end.w, 10 + 0.5f * static_cast<float>(end.step));
}

TEST_F(TrainingRecovery, TheChiefsTaskIsKilledAndComesBackWhileTheOtherWorkerGoesOn) {
  Program chief(cluster, 0, directory.path());
  ASSERT_TRUE(chief.makes_steps(30)) << chief.log();
  Program worker(cluster, 1, "");
  ASSERT_TRUE(worker.makes_steps(30)) << worker.log();
  const int sessions = chief.progress.sessions;
  cluster.child("worker", 0).send(SIGKILL);
  cluster.child("worker", 0).wait();
  ASSERT_TRUE(worker.makes_steps(30)) << worker.log();  // nobody it needs is gone
  EXPECT_EQ(worker.progress.sessions, 1);
  cluster.start("worker", 0);
  ASSERT_TRUE(chief.wait_until([&] { return chief.progress.sessions > sessions; })) << chief.log();
  ASSERT_TRUE(chief.makes_steps(30)) << chief.log();
  EXPECT_EQ(chief.log().find("Restoring parameters from"), std::string::npos) << chief.log();
  EXPECT_NE(chief.log().find("All variables still have the values"), std::string::npos) << chief.log();
  EXPECT_TRUE(worker.stop().status.ok());
  EXPECT_TRUE(chief.stop().status.ok());
}

TEST(TrainingStart, AClusterThatIsNotThereIsWaitedForAsLongAsTheProgramSays) {
  ProcessCluster cluster(1, 1);
  cluster.start("worker", 0);  // and no parameter server
  Replica replica(cluster.spec(), 0);
  for (const bool is_chief : {true, false}) {
    MonitoredTrainingSessionOptions options;
    options.master = cluster.target("worker", 0);
    options.is_chief = is_chief;
    options.max_wait_secs = 0.2;
    options.environment.log = nullptr;
    try {
      MonitoredTrainingSession session(replica.graph, options);
      ADD_FAILURE() << "there is no ps";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::kDeadlineExceeded) << error.what();
    }
  }
}

TEST_F(TrainingRecovery, ANewChiefGoesOnWithTheValuesOrWhereTheLastOneSaved) {
  for (const bool keep : {false, true}) {
    SCOPED_TRACE(keep ? "with the values" : "with the checkpoint");
    {
      Program first(cluster, 0, directory.path(), [&](auto& options) { options.keep_values = keep; });
      ASSERT_TRUE(first.makes_steps(50)) << first.log();
      first.kill();
      EXPECT_EQ(first.stop().status.code(), Code::kCancelled);
    }
    const std::int64_t saved = newest_step(directory.path());
    EXPECT_GE(saved, 40);
    Program second(cluster, 0, directory.path(), [&](auto& options) { options.keep_values = keep; });
    ASSERT_TRUE(second.says(keep ? "All variables still have the values" : str_cat("model.ckpt-", saved)))
        << second.log();
    ASSERT_TRUE(second.makes_steps(10)) << second.log();
    const Program::End end = second.stop();
    ASSERT_TRUE(end.status.ok()) << end.status.to_string();
    EXPECT_GE(end.step, saved + 10);
    // The step that was cancelled may have changed w and not the step yet.
    EXPECT_GE(end.w, 10 + 0.5f * static_cast<float>(end.step));
    EXPECT_LE(end.w, 10 + 0.5f * static_cast<float>(end.step + (keep ? 1 : 0)));
  }
}

}  // namespace tutti::training_recovery_test
