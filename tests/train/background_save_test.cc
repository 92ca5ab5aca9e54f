// Saving while training goes on.
#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "tests/train/saver_fixture.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::background_save_test {

// A disk that opens no file to write before it is told to.
class SlowDisk {
 public:
  FileSystem& files() { return files_; }
  void go_on() { go_.set_value(); }

 private:
  std::promise<void> go_;
  const std::shared_future<void> gone_ = go_.get_future().share();
  FaultyFileSystem files_{local_file_system(), [this](FileOp op, const std::string&) {
                            // Not for ever, so that the test fails rather than hangs.
                            if (op == FileOp::kOpenWrite) gone_.wait_for(std::chrono::seconds(60));
                            return Status();
                          }};
};

class BackgroundSave : public ::testing::TestWithParam<bool> {
 protected:
  SaverOptions options(FileSystem* files) const {
    return {.sharded = GetParam(), .save_in_background = true, .files = files};
  }
  TempDirectory directory_;
  SmallModel model_;
};

TEST_P(BackgroundSave, WhatIsSavedIsWhatWasThereAtTheCall) {
  SlowDisk disk;
  Saver saver(model_.graph, options(&disk.files()));
  LocalSession session(model_.graph, {.threads = {.files = &disk.files()}});
  session.run({model_.init});
  session.run({model_.train});
  const std::vector<Tensor> at_the_call = model_.values(session);
  const std::string path = saver.save(session, directory_.file("m"), 1);
  // Training does not wait for the disk.
  for (int i = 0; i < 20; ++i) session.run({model_.train});
  EXPECT_FALSE(local_file_system().exists(directory_.file("m-1.index")));
  EXPECT_FALSE(same(model_.values(session), at_the_call));
  disk.go_on();
  saver.wait();
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory_.path()).value_or_throw(), path);
  session.run({model_.train});
  saver.restore(session, path);
  EXPECT_TRUE(same(model_.values(session), at_the_call));
}

TEST_P(BackgroundSave, TheNextSaveWaits) {
  Saver saver(model_.graph, options(nullptr));
  LocalSession session(model_.graph);
  session.run({model_.init});
  for (int step = 1; step <= 8; ++step) {
    session.run({model_.train});
    saver.save(session, directory_.file("m"), step);
  }
  saver.close();
  EXPECT_EQ(saver.last_checkpoints().size(), 5u);
  for (int step = 4; step <= 8; ++step) {
    const Tensor saved = load_variable(directory_.file(str_cat("m-", step)), "global_step");
    EXPECT_EQ(saved.scalar<std::int64_t>(), step);
  }
  EXPECT_EQ(saver.try_save(session, directory_.file("m"), 9).status().code(), Code::kFailedPrecondition);
}

TEST_P(BackgroundSave, ErrorsReachTheNextCall) {
  std::atomic<bool> full = true;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    return full && op == FileOp::kSync ? resource_exhausted(path, ": no space left on device") : Status();
  });
  Saver saver(model_.graph, options(&files));
  LocalSession session(model_.graph, {.threads = {.files = &files}});
  session.run({model_.init});
  saver.save(session, directory_.file("m"), 1);
  const Status status = saver.try_save(session, directory_.file("m"), 2).status();
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("m-1"), std::string::npos) << status.message();
  // It was told; training and saving may go on.
  full = false;
  saver.save(session, directory_.file("m"), 3);
  saver.wait();
  EXPECT_EQ(latest_checkpoint(files, directory_.path()).value_or_throw(), directory_.file("m-3"));
}

TEST_P(BackgroundSave, ASessionThatGoesEndsItsSave) {
  SlowDisk disk;
  Saver saver(model_.graph, options(&disk.files()));
  auto session = std::make_unique<LocalSession>(model_.graph, SessionOptions{.threads = {.files = &disk.files()}});
  session->run({model_.init});
  const std::string path = saver.save(*session, directory_.file("m"), 1);
  // It cannot go before its disk answers; that it is going makes the save fail.
  std::thread closing([&] { session.reset(); });
  disk.go_on();
  closing.join();
  const Status lost = saver.try_wait();
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory_.path()).value_or_throw(),
            lost.ok() ? std::optional(path) : std::nullopt);
  LocalSession next(model_.graph);
  next.run({model_.init});
  saver.save(next, directory_.file("m"), 2);
  saver.wait();
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory_.path()).value_or_throw(), directory_.file("m-2"));
}

TEST_P(BackgroundSave, NoStepIsTorn) {
  // Every update adds one to both variables in one step; a saver that looks between two of them would see them differ
  // only if it read in the middle of its own thread's step.
  Saver saver(model_.graph, options(nullptr));
  LocalSession session(model_.graph);
  session.run({model_.init});
  for (int step = 1; step <= 30; ++step) {
    session.run({model_.train});
    if (step % 3 == 0) saver.save(session, directory_.file("m"), step);
  }
  saver.wait();
  for (const std::string& path : saver.last_checkpoints()) {
    const std::int64_t step = load_variable(path, "global_step").scalar<std::int64_t>();
    EXPECT_EQ(path, directory_.file(str_cat("m-", step)));
    // Adam's power tells how many updates there were.
    EXPECT_NEAR(load_variable(path, "beta1_power").scalar<float>(), std::pow(0.9, static_cast<double>(step + 1)), 1e-3);
  }
}

TEST_P(BackgroundSave, NothingStaysHeld) {
  Saver saver(model_.graph, options(nullptr));
  LocalSession session(model_.graph);
  session.run({model_.init});
  saver.save(session, directory_.file("m"), 1);
  saver.wait();
  const Result<std::vector<Tensor>> held = session.try_run({}, {}, {model_.graph.find("save/held/SaveV2")});
  EXPECT_FALSE(held.ok());
}

TEST_P(BackgroundSave, ASaveThatFailsLeavesNothingBehind) {
  std::atomic<bool> full = false;
  FaultyFileSystem files(local_file_system(), [&](FileOp op, const std::string& path) {
    const bool data = path.find("m-2") != path.npos && op == FileOp::kSync;
    return full && data ? resource_exhausted(path, ": No space left on device") : Status();
  });
  Saver saver(model_.graph, options(&files));
  LocalSession session(model_.graph, {.threads = {.files = &files}});
  session.run({model_.init});
  saver.save(session, directory_.file("m"), 1);
  saver.wait();
  full = true;
  saver.save(session, directory_.file("m"), 2);
  EXPECT_EQ(saver.try_wait().code(), Code::kResourceExhausted);
  for (const std::string& name : local_file_system().list(directory_.path()).value_or_throw()) {
    EXPECT_EQ(name.find("m-2"), name.npos) << name << " was left behind";
  }
  full = false;
  saver.save(session, directory_.file("m"), 2);
  saver.wait();
  EXPECT_EQ(latest_checkpoint(local_file_system(), directory_.path()).value_or_throw(), directory_.file("m-2"));
}

INSTANTIATE_TEST_SUITE_P(Ways, BackgroundSave, ::testing::Bool());

}  // namespace tutti::background_save_test
