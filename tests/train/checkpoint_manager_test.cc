#include "tutti/train/checkpoint_manager.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "tests/train/saver_fixture.h"

namespace tutti::checkpoint_manager_test {

class CheckpointManagerTest : public ::testing::Test {
 protected:
  CheckpointManagerOptions options() {
    return {.directory = directory_.file("deep/er"), .max_to_keep = 2, .saver = {.clock = &clock_}};
  }
  std::string path(int number) const { return directory_.file(str_cat("deep/er/ckpt-", number)); }
  bool there(int number) const { return local_file_system().exists(path(number) + ".index"); }

  TempDirectory directory_;
  ManualClock clock_;
  SmallModel model_;
  LocalSession session_{model_.graph};
};

TEST_F(CheckpointManagerTest, NumbersGoOn) {
  {
    CheckpointManager manager(model_.graph, options());
    EXPECT_EQ(manager.latest_checkpoint(), "");
    bool initialised = false;
    CheckpointManagerOptions with_init = options();
    with_init.init_fn = [&](Session& session) {
      session.run({model_.init});
      initialised = true;
    };
    EXPECT_FALSE(CheckpointManager(model_.graph, with_init).restore_or_initialize(session_).has_value());
    EXPECT_TRUE(initialised);
    for (int number = 1; number <= 3; ++number) EXPECT_EQ(manager.save(session_), path(number));
    EXPECT_EQ(manager.checkpoints(), (std::vector<std::string>{path(2), path(3)}));
    EXPECT_FALSE(there(1));
  }
  session_.run({model_.train});
  CheckpointManager next(model_.graph, options());
  EXPECT_EQ(next.latest_checkpoint(), path(3));
  EXPECT_EQ(next.checkpoints(), (std::vector<std::string>{path(2), path(3)}));
  EXPECT_EQ(next.restore_or_initialize(session_), path(3));
  EXPECT_EQ(session_.run({}, {model_.global_step})[0].scalar<std::int64_t>(), 0);
  EXPECT_EQ(next.save(session_), path(4));
  EXPECT_FALSE(there(2));
  EXPECT_EQ(next.save(session_, 10), path(10));
  EXPECT_EQ(next.save(session_), path(11));
}

TEST_F(CheckpointManagerTest, TheNameMayBeAnother) {
  session_.run({model_.init});
  CheckpointManager(model_.graph, options()).save(session_, 7);
  CheckpointManagerOptions named = options();
  named.checkpoint_name = "weights";
  CheckpointManager manager(model_.graph, named);
  EXPECT_EQ(manager.save(session_), directory_.file("deep/er/weights-1")) << "numbers of other names do not count";
  EXPECT_TRUE(local_file_system().exists(directory_.file("deep/er/weights-1.index")));
  EXPECT_EQ(CheckpointManager(model_.graph, named).save(session_), directory_.file("deep/er/weights-2"));
}

TEST_F(CheckpointManagerTest, HoursAreCountedOverRestarts) {
  session_.run({model_.init});
  CheckpointManagerOptions hourly = options();
  hourly.max_to_keep = 1;
  hourly.keep_checkpoint_every_n_hours = 2;
  for (int i = 0; i < 8; ++i) {
    CheckpointManager manager(model_.graph, hourly);
    clock_.advance(std::chrono::hours(1));
    manager.save(session_);
  }
  std::vector<int> kept;
  for (int number = 1; number <= 8; ++number) {
    if (there(number)) kept.push_back(number);
  }
  // Written at hour N: the first that is two hours after the start, or after the last one that was kept.
  EXPECT_EQ(kept, (std::vector<int>{2, 4, 6, 8}));
}

TEST_F(CheckpointManagerTest, Intervals) {
  session_.run({model_.init});
  CheckpointManagerOptions spaced = options();
  spaced.step_counter = model_.global_step;
  spaced.checkpoint_interval = 3;
  CheckpointManager manager(model_.graph, spaced);
  std::vector<int> saved;
  for (int step = 0; step < 8; ++step) {
    if (manager.save(session_)) saved.push_back(step);
    session_.run({model_.train});
  }
  EXPECT_EQ(saved, (std::vector<int>{0, 3, 6}));
  EXPECT_TRUE(manager.save(session_, {}, /*check_interval=*/false).has_value());
}

TEST_F(CheckpointManagerTest, AMovedDirectory) {
  session_.run({model_.init});
  CheckpointManager(model_.graph, options()).save(session_);
  throw_if_error(local_file_system().rename(directory_.file("deep/er"), directory_.file("deep/moved")));
  CheckpointManagerOptions moved = options();
  moved.directory = directory_.file("deep/moved/");
  EXPECT_EQ(CheckpointManager(model_.graph, moved).restore_or_initialize(session_),
            directory_.file("deep/moved/ckpt-1"));
}

TEST_F(CheckpointManagerTest, BadOptions) {
  const auto code = [&](CheckpointManagerOptions bad) {
    try {
      CheckpointManager manager(model_.graph, std::move(bad));
    } catch (const Error& error) {
      return error.code();
    }
    return Code::kOk;
  };
  CheckpointManagerOptions none = options(), interval = options(), directory = options(), all = options();
  none.max_to_keep = 0;
  interval.checkpoint_interval = 5;
  directory.directory = "";
  all.max_to_keep = {};
  EXPECT_EQ(code(none), Code::kInvalidArgument);
  EXPECT_EQ(code(interval), Code::kInvalidArgument);
  EXPECT_EQ(code(directory), Code::kInvalidArgument);
  EXPECT_EQ(code(all), Code::kOk);
}

// In the background.
TEST_F(CheckpointManagerTest, TheLatestIsOneThatIsWhole) {
  std::promise<void> go;
  const std::shared_future<void> gone = go.get_future().share();
  std::atomic<bool> full = false;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    // Not for ever, so that the test fails rather than hangs.
    if (op == FileOp::kOpenWrite) gone.wait_for(std::chrono::seconds(60));
    return full && op == FileOp::kSync ? resource_exhausted(path, ": no space left on device") : Status();
  });
  CheckpointManagerOptions slow = options();
  slow.saver.files = &files;
  slow.saver.save_in_background = true;
  slow.step_counter = model_.global_step;
  slow.checkpoint_interval = 1;
  CheckpointManager manager(model_.graph, slow);
  LocalSession session(model_.graph, {.threads = {.files = &files}});
  session.run({model_.init});
  EXPECT_EQ(manager.save(session), path(1));
  EXPECT_EQ(manager.latest_checkpoint(), "");
  go.set_value();
  manager.wait();
  EXPECT_EQ(manager.latest_checkpoint(), path(1));
  full = true;
  session.run({model_.train});
  EXPECT_EQ(manager.save(session), path(2));
  EXPECT_THROW(manager.wait(), Error);
  EXPECT_EQ(manager.latest_checkpoint(), path(1));
  // It does not count as a save from which the next one is too soon.
  full = false;
  EXPECT_EQ(manager.save(session), path(3));
  manager.wait();
  EXPECT_EQ(manager.latest_checkpoint(), path(3));
}

// Writes nothing before `go`, and then nothing when it is full.
class SaveInFlight : public CheckpointManagerTest {
 protected:
  CheckpointManagerOptions slow() {
    CheckpointManagerOptions slow = options();
    slow.max_to_keep = 1;
    slow.saver.files = &files_;
    slow.saver.save_in_background = true;
    slow.init_fn = [this](Session& session) {
      initialised_ = true;
      session.run({model_.init});
    };
    return slow;
  }
  std::int64_t step() { return on_slow_disk_.run({}, {model_.global_step})[0].scalar<std::int64_t>(); }
  // Lets the disk go on once restore_or_initialize had its chance to look too early.
  std::optional<std::string> restore(CheckpointManager& manager) {
    auto restored = std::async(std::launch::async, [&] { return manager.restore_or_initialize(on_slow_disk_); });
    EXPECT_NE(restored.wait_for(std::chrono::milliseconds(20)), std::future_status::ready);
    held_ = false;
    return restored.get();
  }

  std::atomic<bool> held_ = false, full_ = false;
  bool initialised_ = false;
  FaultyFileSystem files_{local_file_system(), [this](FileOp op, const std::string& path) {
                            // Not for ever, so that the test fails rather than hangs.
                            const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
                            while (op == FileOp::kOpenWrite && held_ && std::chrono::steady_clock::now() < limit) {
                              std::this_thread::sleep_for(std::chrono::milliseconds(1));
                            }
                            return full_ && op == FileOp::kSync ? resource_exhausted(path, ": no space left on device")
                                                                : Status();
                          }};
  LocalSession on_slow_disk_{model_.graph, {.threads = {.files = &files_}}};
};

TEST_F(SaveInFlight, IsTheOneThatIsRestored) {
  CheckpointManager manager(model_.graph, slow());
  on_slow_disk_.run({model_.init});
  for (const int number : {1, 2}) {  // the first of all, then one that makes the one before it go
    on_slow_disk_.run({model_.train});
    held_ = true;
    EXPECT_EQ(manager.save(on_slow_disk_), path(number));
    on_slow_disk_.run({model_.train});
    EXPECT_EQ(restore(manager), path(number));
    EXPECT_EQ(step(), number);
  }
  EXPECT_FALSE(initialised_);
}

TEST_F(SaveInFlight, ThatFailsIsToldOfByTheNextSave) {
  CheckpointManager manager(model_.graph, slow());
  on_slow_disk_.run({model_.init});
  EXPECT_EQ(manager.save(on_slow_disk_), path(1));
  manager.wait();
  full_ = held_ = true;
  EXPECT_EQ(manager.save(on_slow_disk_), path(2));
  on_slow_disk_.run({model_.train});
  EXPECT_EQ(restore(manager), path(1));
  EXPECT_EQ(step(), 0);
  full_ = false;
  try {
    manager.save(on_slow_disk_);
    ADD_FAILURE() << "nobody was told";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kResourceExhausted) << error.what();
  }
  manager.save(on_slow_disk_);
  manager.close();
}

}  // namespace tutti::checkpoint_manager_test
