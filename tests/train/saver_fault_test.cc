// Saves that are cut short, at every call of the disk: what `checkpoint` names is always whole.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>

#include "tests/train/power_loss_files.h"
#include "tests/train/saver_fixture.h"
#include "tutti/train/checkpoint_reader.h"

namespace tutti::saver_fault_test {

bool changes_the_disk(FileOp op) { return op != FileOp::kOpenRead && op != FileOp::kRead; }

// A disk that does so many changes and then nothing any more, as if the process were dead.
class DyingDisk {
 public:
  explicit DyingDisk(FileSystem& base)
      : files_(
            base, [this](FileOp op, const std::string& path) { return ask(op, path); }, /*tear_appends=*/true) {}

  FileSystem& files() { return files_; }
  void die_after(int changes) { left_ = changes; }
  int changes() const { return changes_; }

 private:
  Status ask(FileOp op, const std::string& path) {
    if (!changes_the_disk(op)) return left_ < 0 ? unavailable("dead: reading ", path) : Status();
    if (left_.fetch_sub(1) <= 0) {
      left_ = -1;
      return unavailable("dead: changing ", path);
    }
    ++changes_;
    return {};
  }

  std::atomic<int> left_ = 1 << 20;
  std::atomic<int> changes_ = 0;
  FaultyFileSystem files_;
};

struct Way {
  bool sharded = false, same_path = false, background = false, power_loss = false;
  bool silent = false;  // the state file is to stay as it is
  int tasks = 0;        // the variables are on so many, each with a shard of its own
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << (way.sharded ? "sharded" : "single") << (way.same_path ? "_again" : "")
             << (way.background ? "_background" : "") << (way.power_loss ? "_power" : "")
             << (way.silent ? "_silent" : "") << (way.tasks > 0 ? str_cat("_of_", way.tasks) : "");
}

// Everything in the directory belongs to a whole checkpoint, of which there are no more than so many.
void expect_tidy(const std::string& directory, int checkpoints) {
  int indices = 0;
  for (const std::string& name : files_in(directory)) {
    if (name == "checkpoint") continue;
    const std::string prefix = name.substr(0, name.rfind('.'));
    EXPECT_TRUE(local_file_system().exists(directory + "/" + prefix + ".index")) << name;
    EXPECT_EQ(name.find("temp"), std::string::npos) << name;
    indices += name.ends_with(".index");
  }
  EXPECT_LE(indices, checkpoints);
}

class SaverFaults : public ::testing::TestWithParam<Way> {
 protected:
  SaverOptions options() const {
    return {.max_to_keep = 1, .sharded = GetParam().sharded, .save_in_background = GetParam().background};
  }
  std::string prefix() const { return directory_.file("m"); }
  std::optional<std::int64_t> step(int number) const {
    return GetParam().same_path ? std::nullopt : std::optional<std::int64_t>(number);
  }

  struct Job : SmallModel {
    explicit Job(FileSystem* files = nullptr)
        : SmallModel(3, GetParam().tasks), session(graph, {.threads = {.files = files}}) {}
    LocalSession session;
  };

  // An earlier run: values before the save that dies.
  void save_old() {
    Job model;
    Saver saver(model.graph, options());
    Session& session = model.session;
    session.run({model.init});
    session.run({model.train});
    saver.save(session, prefix(), step(1));
    saver.close();
    old_ = model.values(session);
    std::filesystem::copy(directory_.path(), old_files_.path());
    const std::vector<std::string> files = files_in(directory_.path());
    const auto shards = std::count_if(files.begin(), files.end(),
                                      [](const std::string& name) { return name.find(".data-") != name.npos; });
    ASSERT_EQ(shards, std::max(GetParam().tasks, 1));
  }
  void back_to_old() {
    std::filesystem::remove_all(directory_.path());
    std::filesystem::copy(old_files_.path(), directory_.path());
  }

  // The run that dies; whether it thought that it had saved.
  bool save_new(DyingDisk& disk) {
    Job model(&disk.files());
    SaverOptions with_disk = options();
    with_disk.files = &disk.files();
    Saver saver(model.graph, with_disk);
    Session& session = model.session;
    saver.restore(session, directory_.path());
    saver.recover_last_checkpoints({latest_checkpoint(disk.files(), directory_.path()).value_or_throw().value()});
    session.run({model.train});
    new_ = model.values(session);
    if (limit_) disk.die_after(*limit_);
    SaveOptions how;
    how.write_state = !GetParam().silent;
    Status saved = saver.try_save(session, prefix(), step(2), how).status();
    saved.update(saver.try_wait());
    return saved.ok();
  }

  void expect_whole(bool saved) {
    const std::optional<std::string> latest =
        latest_checkpoint(local_file_system(), directory_.path()).value_or_throw();
    ASSERT_TRUE(latest.has_value());
    Job model;
    Saver saver(model.graph, options());
    Session& session = model.session;
    saver.restore(session, *latest);
    const std::vector<Tensor> values = model.values(session);
    EXPECT_TRUE(same(values, new_) || (!saved && same(values, old_)));
    // And the next run saves again, and leaves nothing of the dead one behind.
    saver.recover_last_checkpoints(
        read_checkpoint_state(local_file_system(), directory_.path()).value_or_throw()->all_model_checkpoint_paths);
    session.run({model.train});
    saver.save(session, prefix(), step(3));
    saver.close();
    session.run({model.init});
    saver.restore(session, directory_.path());
  }

  TempDirectory directory_, old_files_;
  std::vector<Tensor> old_, new_;
  std::optional<int> limit_;
};

TEST_P(SaverFaults, AlwaysAWholeCheckpoint) {
  save_old();
  if (HasFatalFailure()) return;
  int changes = 1 << 20;
  for (int limit = -1; limit <= changes; ++limit) {
    SCOPED_TRACE(str_cat("dies after ", limit, " changes"));
    back_to_old();
    TempDirectory graveyard;
    PowerLossFiles volatile_disk(graveyard.path());
    DyingDisk disk(GetParam().power_loss ? static_cast<FileSystem&>(volatile_disk) : local_file_system());
    limit_ = limit < 0 ? std::nullopt : std::optional<int>(limit);
    const bool saved = save_new(disk);
    volatile_disk.lose_power();
    if (limit < 0) {
      // The first time nothing fails, and tells how many changes there are.
      ASSERT_TRUE(saved);
      changes = disk.changes();
      ASSERT_GT(changes, 10);
    } else if (limit == 0) {
      EXPECT_FALSE(saved);
    }
    expect_whole(saved);
    if (HasFatalFailure()) return;
    // One that was whole but not named yet, or named no more but not deleted yet, may stay beside the newest.
    expect_tidy(directory_.path(), limit < 0 && !GetParam().power_loss ? 1 : 3);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SaverFaults,
                         ::testing::Values(Way{}, Way{.sharded = true, .background = true},
                                           Way{.sharded = true, .same_path = true}, Way{.power_loss = true},
                                           Way{.sharded = true, .background = true, .power_loss = true},
                                           Way{.same_path = true, .power_loss = true},
                                           Way{.same_path = true, .silent = true}, Way{.sharded = true, .tasks = 3},
                                           Way{.sharded = true, .same_path = true, .tasks = 2},
                                           Way{.sharded = true, .background = true, .power_loss = true, .tasks = 3}),
                         ::testing::PrintToStringParamName());

// --- Errors that the process survives ---

class SaverErrors : public ::testing::Test {
 protected:
  SaverErrors() {
    session_.run({model_.init});
    session_.run({model_.train});
    first_ = saver_.save(session_, directory_.file("m"), 1);
    session_.run({model_.train});
  }

  TempDirectory directory_;
  std::function<Status(FileOp, const std::string&)> fault_ = [](FileOp, const std::string&) { return Status(); };
  FaultyFileSystem files_{local_file_system(), [this](FileOp op, const std::string& path) { return fault_(op, path); },
                          true};
  SmallModel model_;
  Saver saver_{model_.graph, {.max_to_keep = 1, .files = &files_}};
  LocalSession session_{model_.graph, {.threads = {.files = &files_}}};
  std::string first_;
};

TEST_F(SaverErrors, AFullDisk) {
  const std::vector<Tensor> before = model_.values(session_);
  for (const FileOp full : {FileOp::kOpenWrite, FileOp::kAppend, FileOp::kSync, FileOp::kRename}) {
    fault_ = [&](FileOp op, const std::string& path) {
      return op == full ? resource_exhausted(path, ": no space left on device") : Status();
    };
    const Status status = saver_.try_save(session_, directory_.file("m"), 2).status();
    EXPECT_EQ(status.code(), Code::kResourceExhausted);
    EXPECT_NE(status.message().find("m-2"), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("no space left"), std::string::npos) << status.message();
    fault_ = [](FileOp, const std::string&) { return Status(); };
    EXPECT_EQ(latest_checkpoint(files_, directory_.path()).value_or_throw(), first_);
    EXPECT_TRUE(same(model_.values(session_), before));
  }
  // Room again: training and saving go on, and nothing is left of the failures.
  const std::string path = saver_.save(session_, directory_.file("m"), 3);
  EXPECT_EQ(latest_checkpoint(files_, directory_.path()).value_or_throw(), path);
  expect_tidy(directory_.path(), 1);
}

// The oldest one is not forgotten when the list without it could not be written.
TEST_F(SaverErrors, AListThatCannotBeWrittenLeavesNothingBehind) {
  fault_ = [&](FileOp op, const std::string& path) {
    return op == FileOp::kRename && path.find("/checkpoint") != path.npos ? unavailable(path, ": try again") : Status();
  };
  EXPECT_EQ(saver_.try_save(session_, directory_.file("m"), 2).status().code(), Code::kUnavailable);
  fault_ = [](FileOp, const std::string&) { return Status(); };
  EXPECT_EQ(latest_checkpoint(files_, directory_.path()).value_or_throw(), first_);
  saver_.save(session_, directory_.file("m"), 3);
  expect_tidy(directory_.path(), 1);
}

TEST_F(SaverErrors, ASilentSaveOverTheNewestLeavesTheListAsItWas) {
  const std::string listed = read_file(files_, directory_.file("checkpoint")).value_or_throw();
  SaveOptions silent;
  silent.write_state = false;
  EXPECT_EQ(saver_.save(session_, directory_.file("m"), 1, silent), first_);
  EXPECT_EQ(read_file(files_, directory_.file("checkpoint")).value_or_throw(), listed);
  const std::vector<Tensor> saved = model_.values(session_);
  session_.run({model_.train});
  saver_.restore(session_, first_);
  EXPECT_TRUE(same(model_.values(session_), saved));
  expect_tidy(directory_.path(), 1);
}

// Somebody has gone back to an earlier checkpoint by hand.
TEST_F(SaverErrors, ASilentSaveOverTheNewestLosesNoOtherWhenItFails) {
  const std::string other = directory_.file("m-2");
  throw_if_error(
      write_checkpoint_state(local_file_system(), directory_.path(),
                             {.model_checkpoint_path = first_, .all_model_checkpoint_paths = {first_, other}}, false));
  fault_ = [&](FileOp op, const std::string& path) {
    return op == FileOp::kRemove && path.starts_with(first_ + ".") ? unavailable(path, ": try again") : Status();
  };
  SaveOptions silent;
  silent.write_state = false;
  EXPECT_EQ(saver_.try_save(session_, directory_.file("m"), 1, silent).status().code(), Code::kUnavailable);
  const CheckpointState state = read_checkpoint_state(local_file_system(), directory_.path()).value_or_throw().value();
  EXPECT_NE(state.model_checkpoint_path, first_);
  EXPECT_EQ(state.all_model_checkpoint_paths, (std::vector<std::string>{state.model_checkpoint_path, other}));
}

// As from another thread, while a save in the background writes the list.
TEST_F(SaverErrors, AListThatIsSetDuringASaveStays) {
  const std::string given = directory_.file("given-7");
  fault_ = [&](FileOp op, const std::string& path) {
    if (op == FileOp::kRename && path.find("/checkpoint") != path.npos) saver_.set_last_checkpoints({first_, given});
    return Status();
  };
  saver_.save(session_, directory_.file("m"), 2);
  fault_ = [](FileOp, const std::string&) { return Status(); };
  // Less what this save has deleted.
  EXPECT_EQ(saver_.last_checkpoints(), std::vector<std::string>{given});
}

// A task that is late with its part of a save that was given up must not write into the next attempt's.
TEST_F(SaverErrors, EveryAttemptHasADirectoryOfItsOwnForItsParts) {
  Saver sharded(model_.graph, {.sharded = true, .name = "save_parts", .files = &files_});
  std::vector<std::string> directories;
  bool fails = true;
  fault_ = [&](FileOp op, const std::string& path) {
    const std::size_t end = path.find("/part");
    if (op != FileOp::kOpenWrite || end == path.npos || path.find(".data") == path.npos) return Status();
    directories.push_back(path.substr(0, end));
    return fails ? resource_exhausted(path, ": no space left on device") : Status();
  };
  EXPECT_EQ(sharded.try_save(session_, directory_.file("sharded"), 2).status().code(), Code::kResourceExhausted);
  fails = false;
  sharded.save(session_, directory_.file("sharded"), 2);
  ASSERT_EQ(directories.size(), 2u);
  EXPECT_NE(directories[0], directories[1]);
  EXPECT_TRUE(directories[1].starts_with(directory_.file("sharded-2_temp"))) << directories[1];
  for (const std::string& name : files_in(directory_.path())) EXPECT_EQ(name.find("_temp"), name.npos) << name;
}

TEST_F(SaverErrors, ADirectoryThatMayNotBeWritten) {
  fault_ = [&](FileOp op, const std::string& path) {
    return changes_the_disk(op) ? permission_denied(path, ": read-only file system") : Status();
  };
  const Status status = saver_.try_save(session_, directory_.file("m"), 2).status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_NE(status.message().find(directory_.path()), std::string::npos) << status.message();
  fault_ = [](FileOp, const std::string&) { return Status(); };
  EXPECT_EQ(files_in(directory_.path()).size(), 4u);
}

TEST_F(SaverErrors, AnOldCheckpointThatCannotBeRemovedIsNoError) {
  fault_ = [&](FileOp op, const std::string& path) {
    return op == FileOp::kRemove ? permission_denied(path, ": not yours") : Status();
  };
  const std::string path = saver_.save(session_, directory_.file("m"), 2);
  EXPECT_EQ(latest_checkpoint(files_, directory_.path()).value_or_throw(), path);
}

TEST_F(SaverErrors, DamagedFiles) {
  const std::vector<Tensor> before = model_.values(session_);
  const std::string data = first_ + ".data-00000-of-00001", index = first_ + ".index";
  for (const std::string& path : {data, index}) {
    const std::string good = read_file(local_file_system(), path).value_or_throw();
    std::string flipped = good;
    flipped[flipped.size() / 2] ^= 4;
    for (const std::string& bad : {flipped, good.substr(0, good.size() / 2), std::string()}) {
      throw_if_error(write_file(local_file_system(), path, bad));
      const Status status = saver_.try_restore(session_, first_);
      EXPECT_EQ(status.code(), Code::kDataLoss) << status.message();
      EXPECT_NE(status.message().find(first_), std::string::npos) << status.message();
      EXPECT_TRUE(same(model_.values(session_), before));
    }
    throw_if_error(write_file(local_file_system(), path, good));
  }
  throw_if_error(local_file_system().remove(data));
  const Status gone = saver_.try_restore(session_, first_);
  EXPECT_NE(gone.message().find(data), std::string::npos) << gone.message();
  EXPECT_TRUE(same(model_.values(session_), before));
}

TEST_F(SaverErrors, AStateFileThatCannotBeReadIsReplaced) {
  throw_if_error(write_file(local_file_system(), directory_.file("checkpoint"), "model_checkpoint_path 7"));
  EXPECT_EQ(latest_checkpoint(files_, directory_.path()).status().code(), Code::kDataLoss);
  const std::string path = saver_.save(session_, directory_.file("m"), 2);
  EXPECT_EQ(latest_checkpoint(files_, directory_.path()).value_or_throw(), path);
}

}  // namespace tutti::saver_fault_test
