#include "tutti/train/session_manager.h"

#include <future>

#include "tests/train/train_fixture.h"
#include "tutti/core/cancellation.h"
#include "tutti/train/saver.h"
#include "tutti/train/scaffold.h"

namespace tutti::session_manager_test {

using namespace std::chrono_literals;
using test::thrown_by;

struct ManagerTest : ::testing::Test {
  ManagerTest() {
    scaffold.finalize(job.graph);
    options.local_init_op = scaffold.local_init_op;
    options.ready_op = scaffold.ready_op;
    options.ready_for_local_init_op = scaffold.ready_for_local_init_op;
    // Sessions see the same variables, as those of a cluster do.
    options.config.local.runtime = std::make_shared<LocalRuntime>(RuntimeOptions{});
    prepare.init_op = scaffold.init_op;
    prepare.saver = scaffold.saver.get();
    prepare.checkpoint_dir = directory.path();
  }
  SessionManager manager() { return SessionManager(job.graph, options, surroundings.environment()); }
  float w(Session& session) { return session.run({}, {*job.w})[0].scalar<float>(); }

  test::CountingJob job;
  Scaffold scaffold;
  TempDirectory directory;
  test::TestEnvironment surroundings;
  SessionManagerOptions options;
  PrepareOptions prepare;
};

TEST_F(ManagerTest, InitialisesWithFeedsAndAFunction) {
  const Output start = placeholder(job.graph, DType::kFloat, PartialShape::scalar(), "start");
  prepare.init_op = group(job.graph, {job.w->assign(start), job.step->initializer()}, "fed_init");
  prepare.init_feed_dict = {{start, Tensor::scalar(7.0f)}};
  bool called = false;
  prepare.init_fn = [&](Session& session) {
    called = true;
    EXPECT_EQ(w(session), 7);
  };
  const std::unique_ptr<Session> session = manager().prepare_session(prepare);
  EXPECT_TRUE(called);
  EXPECT_EQ(w(*session), 7);
}

TEST_F(ManagerTest, RestoresTheNewestCheckpointInstead) {
  {
    const std::unique_ptr<Session> session = manager().prepare_session(prepare);
    session->run({job.train});
    scaffold.saver->save(*session, directory.file("model.ckpt"), 1);
    scaffold.saver->wait();
  }
  options.config.local.runtime = std::make_shared<LocalRuntime>(RuntimeOptions{});
  prepare.init_fn = [](Session&) { FAIL() << "there is a checkpoint"; };
  SessionManager restoring = manager();
  EXPECT_EQ(w(*restoring.prepare_session(prepare)), 10.5f);
  auto [session, restored] = restoring.recover_session(prepare);
  EXPECT_TRUE(restored);
  EXPECT_EQ(w(*session), 10.5f);
  prepare.checkpoint_dir = "";
  prepare.checkpoint_path = directory.file("model.ckpt-1");
  EXPECT_EQ(w(*restoring.prepare_session(prepare)), 10.5f);
  prepare.checkpoint_dir = directory.path();
  EXPECT_EQ(thrown_by([&] { restoring.prepare_session(prepare); }).code(), Code::kInvalidArgument);
}

TEST_F(ManagerTest, TheSaversOwnStateFileSaysWhichIsTheNewest) {
  SaverOptions own_file;
  own_file.latest_filename = "best";
  own_file.name = "save_best";
  Saver saver(job.graph, own_file);
  {
    const std::unique_ptr<Session> session = manager().prepare_session(prepare);
    session->run({job.train});
    saver.save(*session, directory.file("best.ckpt"), 1);
    session->run({job.train});
    scaffold.saver->save(*session, directory.file("model.ckpt"), 2);
    scaffold.saver->wait();
  }
  options.config.local.runtime = std::make_shared<LocalRuntime>(RuntimeOptions{});
  prepare.saver = &saver;
  EXPECT_EQ(w(*manager().prepare_session(prepare)), 10.5f);
  ASSERT_EQ(saver.last_checkpoints().size(), 1u);
  EXPECT_TRUE(saver.last_checkpoints()[0].ends_with("best.ckpt-1")) << saver.last_checkpoints()[0];
  LocalSession other(job.graph);
  saver.restore(other, directory.path());
  EXPECT_EQ(w(other), 10.5f);
}

// Three checkpoints, of steps 1 to 3; w is 10 and half the step.
struct CheckpointsTest : ManagerTest {
  CheckpointsTest() {
    const std::unique_ptr<Session> session = manager().prepare_session(prepare);
    for (std::int64_t step = 1; step <= 3; ++step) {
      session->run({job.train});
      scaffold.saver->save(*session, directory.file("model.ckpt"), step);
    }
    scaffold.saver->wait();
    options.config.local.runtime = std::make_shared<LocalRuntime>(RuntimeOptions{});
    prepare.init_fn = [](Session&) { FAIL() << "initialised although there are checkpoints"; };
  }
  std::string file(int step, const std::string& suffix) { return directory.file(str_cat("model.ckpt-", step, suffix)); }
  void remove(int step, const std::string& suffix) {
    ASSERT_TRUE(local_file_system().remove(file(step, suffix)).ok()) << file(step, suffix);
  }
  void damage(int step, const std::string& suffix) {
    std::string bytes = read_file(local_file_system(), file(step, suffix)).value_or_throw();
    bytes[bytes.size() / 2] ^= 0x40;
    ASSERT_TRUE(replace_file(local_file_system(), file(step, suffix), bytes).ok());
  }
  const std::string kData = ".data-00000-of-00001";
};

TEST_F(CheckpointsTest, TheNewestThatIsWholeIsRestored) {
  remove(3, ".index");
  EXPECT_EQ(w(*manager().prepare_session(prepare)), 11.0f);
  EXPECT_EQ(surroundings.lines.count(str_cat("The checkpoint ", file(3, ""), " cannot be read: its index")), 1);
  remove(2, kData);
  EXPECT_EQ(w(*manager().prepare_session(prepare)), 10.5f);
  EXPECT_GE(surroundings.lines.count(str_cat("The checkpoint ", file(2, ""), " cannot be read: ")), 1);
  EXPECT_EQ(scaffold.saver->last_checkpoints().front(), file(1, "")) << "old ones are deleted first";
}

TEST_F(CheckpointsTest, ADamagedOneIsPassedOver) {
  damage(3, kData);
  EXPECT_EQ(w(*manager().prepare_session(prepare)), 11.0f);
  EXPECT_EQ(surroundings.lines.count(str_cat("The checkpoint ", file(3, ""), " cannot be read: ")), 1);
}

TEST_F(CheckpointsTest, DamageIsAnErrorWhereThatIsAskedFor) {
  damage(3, kData);
  prepare.fall_back_to_older_checkpoint = false;
  const Status status = thrown_by([&] { manager().prepare_session(prepare); });
  EXPECT_EQ(status.code(), Code::kDataLoss) << status.to_string();
  EXPECT_NE(status.message().find("model.ckpt-3"), std::string::npos) << status.message();
}

TEST_F(CheckpointsTest, WhenNoneCanBeReadTrainingDoesNotBeginAnew) {
  for (int step = 1; step <= 3; ++step) remove(step, ".index");
  const Status status = thrown_by([&] { manager().prepare_session(prepare); });
  EXPECT_EQ(status.code(), Code::kDataLoss) << status.to_string();
  EXPECT_NE(status.message().find("none of the 3 checkpoints"), std::string::npos) << status.message();
  ASSERT_TRUE(replace_file(local_file_system(), directory.file("checkpoint"), "").ok());
  EXPECT_EQ(thrown_by([&] { manager().prepare_session(prepare); }).code(), Code::kDataLoss) << "it names nothing";
}

TEST_F(CheckpointsTest, AnotherModelIsNotDamage) {
  variable(job.graph, Tensor::scalar(1.0f), "new_one");
  Saver saver(job.graph, {.name = "save_new"});
  prepare.saver = &saver;
  const Status status = thrown_by([&] { manager().prepare_session(prepare); });
  EXPECT_EQ(status.code(), Code::kNotFound) << status.to_string();
  EXPECT_NE(status.message().find("new_one"), std::string::npos) << status.message();
}

TEST_F(ManagerTest, ADirectoryThatDoesNotExistIsMadeAndNamed) {
  prepare.checkpoint_dir = directory.file("runs/mistyped");
  static_cast<void>(manager().prepare_session(prepare));
  EXPECT_EQ(surroundings.lines.count(str_cat("Made the directory ", prepare.checkpoint_dir)), 1);
  EXPECT_EQ(surroundings.lines.count("training starts fresh"), 1);
  EXPECT_TRUE(local_file_system().info(prepare.checkpoint_dir).value_or_throw().is_directory);
}

TEST_F(ManagerTest, RecoverSaysWhenThereIsNothingToRestore) { EXPECT_FALSE(manager().recover_session(prepare).second); }

TEST_F(ManagerTest, NamesWhatAnInitOpLeftOut) {
  prepare.init_op = job.w->initializer();
  const Status status = thrown_by([&] { manager().prepare_session(prepare); });
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find("Variables not initialized: global_step"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("w/Assign"), std::string::npos) << status.message();
  EXPECT_EQ(status.message().find("global_step, w"), std::string::npos) << status.message();
}

TEST_F(ManagerTest, NothingToInitialiseWithIsAnError) {
  options = {};
  prepare = {};
  const Status status = thrown_by([&] { manager().prepare_session(prepare); });
  EXPECT_EQ(status.code(), Code::kFailedPrecondition) << status.to_string();
}

TEST_F(ManagerTest, AReadyForLocalInitOpNeedsALocalInitOp) {
  options.local_init_op = nullptr;
  EXPECT_EQ(thrown_by([&] { manager(); }).code(), Code::kInvalidArgument);
}

TEST_F(ManagerTest, AWorkerWaitsForTheChief) {
  SessionManager worker = manager();
  auto waiting = std::async(std::launch::async, [&] { return worker.wait_for_session(7200); });
  const TimePoint began = surroundings.clock->now();
  while (surroundings.lines.count("Waiting for model to be ready. Variables not initialized: global_step, w") == 0) {
    ASSERT_NE(waiting.wait_for(1ms), std::future_status::ready);
    surroundings.clock->advance(100ms);
  }
  EXPECT_GE(surroundings.clock->now() - began, 3s) << "short waits are not worth a line";
  const std::unique_ptr<Session> chief = manager().prepare_session(prepare);
  while (waiting.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  const std::unique_ptr<Session> session = waiting.get();
  EXPECT_EQ(w(*session), 10);
  EXPECT_EQ(surroundings.lines.count("Waiting for model"), 1);  // what has not changed is not said again
}

TEST_F(ManagerTest, AWorkerWaitsNoLongerThanItMayAndSaysWhatIsMissing) {
  options.recovery_wait_secs = 30;
  SessionManager worker = manager();
  auto waiting = std::async(std::launch::async, [&] { return thrown_by([&] { worker.wait_for_session(70); }); });
  while (waiting.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(1s);
  const Status status = waiting.get();
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(status.message().find("not ready after waiting 70 secs"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("Variables not initialized: global_step, w"), std::string::npos) << status.message();
}

TEST_F(ManagerTest, ACancellationEndsTheWait) {
  Cancellation cancellation;
  Environment environment = surroundings.environment();
  environment.cancellation = &cancellation;
  SessionManager worker(job.graph, options, environment);
  auto waiting = std::async(std::launch::async, [&] { return thrown_by([&] { worker.wait_for_session(7200); }); });
  while (surroundings.lines.count("Waiting for model") == 0) {
    ASSERT_NE(waiting.wait_for(1ms), std::future_status::ready);
    surroundings.clock->advance(100ms);
  }
  cancellation.cancel(cancelled("the user went home"));
  const Status status = waiting.get();
  EXPECT_EQ(status.code(), Code::kCancelled);
  EXPECT_NE(status.message().find("the user went home"), std::string::npos) << status.message();
}

TEST_F(ManagerTest, WaitsForACheckpoint) {
  prepare.wait_for_checkpoint = true;
  SessionManager waiting_manager = manager();
  auto waiting = std::async(std::launch::async, [&] { return waiting_manager.recover_session(prepare).second; });
  while (surroundings.lines.count("Waiting for a checkpoint") == 0) {
    ASSERT_NE(waiting.wait_for(1ms), std::future_status::ready);
  }
  LocalSession other(job.graph);
  other.run({scaffold.init_op});
  Saver(job.graph).save(other, directory.file("model.ckpt"), 4);
  while (waiting.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_TRUE(waiting.get());
}

TEST_F(ManagerTest, ALostTaskIsWaitedForToo) {
  int tries = 0;
  options.config.connect = [&](Graph& graph) -> Result<std::unique_ptr<Session>> {
    if (++tries < 3) return unavailable("ps:0 is away");
    return std::unique_ptr<Session>(std::make_unique<LocalSession>(graph, options.config.local));
  };
  {
    LocalSession chief(job.graph, options.config.local);
    chief.run({scaffold.init_op});
  }
  SessionManager worker = manager();
  auto waiting = std::async(std::launch::async, [&] { return worker.wait_for_session(7200); });
  while (waiting.wait_for(1ms) != std::future_status::ready) surroundings.clock->advance(100ms);
  EXPECT_EQ(w(*waiting.get()), 10);
  EXPECT_EQ(tries, 3);
  EXPECT_EQ(surroundings.lines.count("ps:0 is away"), 1);
}

}  // namespace tutti::session_manager_test
