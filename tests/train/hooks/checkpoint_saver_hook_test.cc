#include "tutti/train/hooks/checkpoint_saver_hook.h"

#include <atomic>

#include "tests/train/hooks/hook_fixture.h"
#include "tutti/train/saver.h"

namespace tutti::checkpoint_saver_hook_test {

using namespace std::chrono_literals;
using test::checkpoints_in;
using test::thrown_by;
using Steps = std::vector<std::int64_t>;
using Events = std::vector<std::string>;

struct CheckpointSaverHookTest : test::HookTest {
  std::atomic<bool> disk_full = false;
  // While `disk_full`, no checkpoint becomes visible.
  FaultyFileSystem full_disk{local_file_system(), [this](FileOp op, const std::string& path) {
                               const bool publishes = op == FileOp::kRename && path.find("/checkpoint") != path.npos;
                               return disk_full && publishes ? resource_exhausted(path, ": disk full") : Status();
                             }};
  CheckpointSaverOptions options() {
    CheckpointSaverOptions made;
    made.checkpoint_dir = directory.path();
    made.scaffold = creator.scaffold;
    return made;
  }
  // The steps of the checkpoints, of one that is being written too.
  Steps saved() {
    creator.scaffold->saver->wait();
    return checkpoints_in(directory.path());
  }
};

TEST_F(CheckpointSaverHookTest, RefusesHalfOrTwiceOfWhatItNeeds) {
  CheckpointSaverOptions none = options();
  EXPECT_EQ(thrown_by([&] { CheckpointSaverHook{none}; }).code(), Code::kInvalidArgument);
  CheckpointSaverOptions both = options();
  both.save_steps = 1;
  both.save_secs = 1;
  EXPECT_EQ(thrown_by([&] { CheckpointSaverHook{both}; }).code(), Code::kInvalidArgument);
  CheckpointSaverOptions nothing_saves = options();
  nothing_saves.save_steps = 1;
  nothing_saves.scaffold = nullptr;
  EXPECT_EQ(thrown_by([&] { CheckpointSaverHook{nothing_saves}; }).code(), Code::kInvalidArgument);
  CheckpointSaverOptions two_save = options();
  two_save.save_steps = 1;
  two_save.saver = std::make_shared<Saver>(job.graph);
  EXPECT_EQ(thrown_by([&] { CheckpointSaverHook{two_save}; }).message(), "You cannot provide both saver and scaffold.");
}

TEST_F(CheckpointSaverHookTest, SavesAtTheBeginningEveryFewStepsAndAtTheEnd) {
  CheckpointSaverOptions made = options();
  made.save_steps = 3;
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  EXPECT_EQ(saved(), Steps{0});
  EXPECT_TRUE(local_file_system().exists(directory.file("graph.pbtxt")));
  EXPECT_TRUE(local_file_system().exists(directory.file("model.ckpt-0.meta")));
  run_steps(monitored, 2);
  EXPECT_EQ(saved(), Steps{0});
  run_steps(monitored, 1);
  EXPECT_EQ(saved(), (Steps{0, 3}));
  run_steps(monitored, 5);
  monitored.close();
  EXPECT_EQ(checkpoints_in(directory.path()), (Steps{0, 3, 6, 8}));
  EXPECT_EQ(test::events_in(directory.path()),
            (Events{"graph@0", "meta_graph@0", "checkpoint@0", "checkpoint@3", "checkpoint@6", "checkpoint@8"}));
}

TEST_F(CheckpointSaverHookTest, SavesEveryFewSecondsAndNotTwiceAtTheEnd) {
  CheckpointSaverOptions made = options();
  made.save_secs = 10;
  made.checkpoint_basename = "weights-";
  made.save_graph_def = false;
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  run_steps(monitored, 5, 4s);  // looks at 0, 4, 8, 12 and 16 seconds
  EXPECT_EQ(surroundings.lines.count("Saving checkpoints for 4 into"), 1);
  surroundings.clock->advance(10s);
  run_steps(monitored, 1);
  monitored.close();
  EXPECT_EQ(surroundings.lines.count("Saving checkpoints for"), 3);  // 0, 4, 6
  EXPECT_TRUE(local_file_system().exists(directory.file("weights--6.index")));
  EXPECT_FALSE(local_file_system().exists(directory.file("weights--6.meta")));
  EXPECT_FALSE(local_file_system().exists(directory.file("graph.pbtxt")));
}

struct Listener : CheckpointSaverListener {
  explicit Listener(std::string directory) : directory(std::move(directory)) {}
  void begin() override { events.push_back("begin"); }
  void before_save(Session&, std::int64_t step) override { events.push_back(str_cat("before@", step)); }
  bool after_save(Session&, std::int64_t step) override {
    events.push_back(str_cat("after@", step));
    // It may copy the files: they are there.
    EXPECT_EQ(latest_checkpoint(local_file_system(), directory).value_or_throw(),
              str_cat(directory, "/model.ckpt-", step));
    return step == 4;
  }
  void end(Session&, std::int64_t step) override { events.push_back(str_cat("end@", step)); }
  const std::string directory;
  Events events;
};

TEST_F(CheckpointSaverHookTest, TellsListenersWhoMayEndTheJob) {
  const auto listener = std::make_shared<Listener>(directory.path());
  CheckpointSaverOptions made = options();
  made.save_steps = 2;
  made.listeners = {listener};
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  while (!monitored.should_stop()) monitored.run({job.train});
  monitored.close();
  EXPECT_EQ(listener->events,
            (Events{"begin", "before@0", "after@0", "before@2", "after@2", "before@4", "after@4", "end@4"}));
}

TEST_F(CheckpointSaverHookTest, ASaverOfTheUsersSavesWhatItWants) {
  CheckpointSaverOptions made = options();
  SaverOptions only_w;
  only_w.variables = {{"weight", *job.w}};
  made.scaffold = nullptr;
  made.saver = std::make_shared<Saver>(job.graph, only_w);
  made.save_steps = 100;
  session({CheckpointSaverHook(made)}).close();
  EXPECT_EQ(checkpoints_in(directory.path()), Steps{0});
}

TEST_F(CheckpointSaverHookTest, ARecoveredSessionGoesOnFromTheLastSave) {
  creator.checkpoint_dir = directory.path();
  CheckpointSaverOptions made = options();
  made.save_steps = 3;
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  run_steps(monitored, 4);
  EXPECT_EQ(saved(), (Steps{0, 3}));
  faults.fail_next_run(unavailable("ps:0 is gone"));
  run_steps(monitored, 1);  // restored at 3, and one step
  EXPECT_EQ(step_value(monitored.run({}, {*job.step})[0]), 4);
  EXPECT_EQ(monitored.run({}, {*job.w})[0].scalar<float>(), 12);
  EXPECT_EQ(surroundings.lines.count("Restoring parameters from " + directory.file("model.ckpt-3")), 1);
}

TEST_F(CheckpointSaverHookTest, ASaveThatFailsIsLoggedAndTrainingGoesOn) {
  FaultyFileSystem full(local_file_system(), [&](FileOp op, const std::string& path) {
    const bool state = path.find("checkpoint") != std::string::npos && path.find("events") == std::string::npos;
    return disk_full && op == FileOp::kOpenWrite && state ? resource_exhausted(path, ": disk full") : Status();
  });
  creator.environment.files = &full;
  CheckpointSaverOptions made = options();
  made.save_steps = 1;
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  run_steps(monitored, 1);
  creator.scaffold->saver->wait();
  disk_full = true;
  run_steps(monitored, 2);  // the second one's save waits for the first one's
  static_cast<void>(creator.scaffold->saver->try_wait());
  EXPECT_GE(surroundings.lines.count("A checkpoint could not be saved; training goes on"), 1);
  EXPECT_GE(surroundings.lines.count("disk full"), 1);
  EXPECT_EQ(*latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), directory.file("model.ckpt-1"));
  disk_full = false;
  run_steps(monitored, 1);
  creator.scaffold->saver->wait();
  EXPECT_EQ(*latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), directory.file("model.ckpt-4"));
}

TEST_F(CheckpointSaverHookTest, ASaveThatFailsAtTheEndIsAnError) {
  creator.environment.files = &full_disk;
  CheckpointSaverOptions made = options();
  made.save_steps = 1'000'000'000;
  const Status status = thrown_by([&] {
    MonitoredSession monitored = session({CheckpointSaverHook(made)});
    creator.scaffold->saver->wait();
    disk_full = true;
    run_steps(monitored, 2);
    monitored.close();
  });
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_EQ(*latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), directory.file("model.ckpt-0"));
}

// The save of the last step fails, and a run that moves no step sees that before the end does.
TEST_F(CheckpointSaverHookTest, TheLastStepIsSavedAgainAtTheEnd) {
  creator.environment.files = &full_disk;
  CheckpointSaverOptions made = options();
  made.save_steps = 2;
  MonitoredSession monitored = session({CheckpointSaverHook(made)});
  creator.scaffold->saver->wait();
  disk_full = true;
  run_steps(monitored, 2);
  while (surroundings.lines.count("A checkpoint could not be saved") == 0) monitored.run({}, {*job.step});
  disk_full = false;
  monitored.close();
  EXPECT_EQ(*latest_checkpoint(local_file_system(), directory.path()).value_or_throw(), directory.file("model.ckpt-2"));
}

TEST_F(CheckpointSaverHookTest, ASaveThatKeepsTheCallerWaitingThrows) {
  FaultyFileSystem full(local_file_system(), [&](FileOp op, const std::string& path) {
    return op == FileOp::kRename && path.find("/checkpoint") != path.npos ? resource_exhausted(path, ": disk full")
                                                                          : Status();
  });
  creator.environment.files = &full;
  creator.scaffold->save_in_background = false;
  CheckpointSaverOptions made = options();
  made.save_steps = 1'000'000'000;
  const Status status = thrown_by([&] { session({CheckpointSaverHook(made)}); });
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
  EXPECT_NE(status.message().find("model.ckpt-0"), std::string::npos) << status.message();
}

}  // namespace tutti::checkpoint_saver_hook_test
