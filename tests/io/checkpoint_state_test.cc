#include "tutti/io/checkpoint_state.h"

#include <gtest/gtest.h>

#include "tests/core/temp_directory.h"

namespace tutti::checkpoint_state_test {

TEST(CheckpointState, TextIsTensorFlows) {
  const CheckpointState state{.model_checkpoint_path = "model.ckpt-2",
                              .all_model_checkpoint_paths = {"model.ckpt-1", "model.ckpt-2"}};
  EXPECT_EQ(checkpoint_state_text(state),
            "model_checkpoint_path: \"model.ckpt-2\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
            "all_model_checkpoint_paths: \"model.ckpt-2\"\n");
  const CheckpointState timed{.model_checkpoint_path = "a\"\\\n\xc3\xa4",
                              .all_model_checkpoint_paths = {"a\"\\\n\xc3\xa4"},
                              .all_model_checkpoint_timestamps = {1.5e9 + 0.25},
                              .last_preserved_timestamp = 1.4e9};
  EXPECT_EQ(parse_checkpoint_state(checkpoint_state_text(timed)).value_or_throw(), timed);
}

TEST(CheckpointState, ReadsWhatOthersWrite) {
  const CheckpointState state =
      parse_checkpoint_state(
          "# by hand\nmodel_checkpoint_path: 'x'  all_model_checkpoint_timestamps: [1, 2.5]\nfield_of_tomorrow: 7")
          .value_or_throw();
  EXPECT_EQ(state.model_checkpoint_path, "x");
  EXPECT_EQ(state.all_model_checkpoint_timestamps, (std::vector<double>{1, 2.5}));
  for (const char* bad : {"", "model_checkpoint_path", "model_checkpoint_path: \"x", "model_checkpoint_path: 7", "\x01",
                          "all_model_checkpoint_paths: \"x\""}) {
    EXPECT_EQ(parse_checkpoint_state(bad).status().code(), Code::kDataLoss) << bad;
  }
  std::string deep = "model_checkpoint_path: 'x'";
  for (int i = 0; i < 100'000; ++i) deep += " a {";
  EXPECT_EQ(parse_checkpoint_state(deep).status().code(), Code::kDataLoss);
}

TEST(CheckpointState, PathsAreSeenFromTheFile) {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  EXPECT_FALSE(read_checkpoint_state(fs, directory.path()).value_or_throw().has_value());
  const CheckpointState state{.model_checkpoint_path = directory.file("m-2"),
                              .all_model_checkpoint_paths = {directory.file("m-1"), directory.file("m-2")}};
  throw_if_error(write_checkpoint_state(fs, directory.path(), state));
  EXPECT_NE(read_file(fs, directory.file("checkpoint")).value_or_throw().find(directory.file("m-1")),
            std::string::npos);
  EXPECT_EQ(read_checkpoint_state(fs, directory.path()).value_or_throw(), state);
  throw_if_error(write_checkpoint_state(fs, directory.path(), state, /*relative=*/true));
  EXPECT_EQ(read_file(fs, directory.file("checkpoint")).value_or_throw(),
            "model_checkpoint_path: \"m-2\"\nall_model_checkpoint_paths: \"m-1\"\nall_model_checkpoint_paths: "
            "\"m-2\"\n");
  EXPECT_EQ(read_checkpoint_state(fs, directory.path()).value_or_throw(), state);
  EXPECT_FALSE(latest_checkpoint(fs, directory.path()).value_or_throw().has_value());
  throw_if_error(write_file(fs, directory.file("m-2.index"), ""));
  EXPECT_EQ(latest_checkpoint(fs, directory.path()).value_or_throw(), directory.file("m-2"));
}

TEST(CheckpointState, OfADirectoryThatIsAUrl) {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  const std::string url = "file://" + directory.path();
  const CheckpointState state{.model_checkpoint_path = url + "/m-2",
                              .all_model_checkpoint_paths = {url + "/m-1", url + "/m-2"}};
  throw_if_error(write_checkpoint_state(fs, url, state));
  // TensorFlow joins the directory with a path that begins with no slash.
  EXPECT_EQ(read_file(fs, directory.file("checkpoint")).value_or_throw(),
            "model_checkpoint_path: \"m-2\"\nall_model_checkpoint_paths: \"m-1\"\nall_model_checkpoint_paths: "
            "\"m-2\"\n");
  EXPECT_EQ(read_checkpoint_state(fs, url).value_or_throw(), state);
  // One that was written with whole paths.
  throw_if_error(write_file(fs, directory.file("checkpoint"), str_cat("model_checkpoint_path: \"", url, "/m-3\"")));
  EXPECT_EQ(read_checkpoint_state(fs, directory.path()).value_or_throw()->model_checkpoint_path, url + "/m-3");
  throw_if_error(write_checkpoint_state(fs, directory.path(), state, /*relative=*/true));
  EXPECT_EQ(read_checkpoint_state(fs, directory.path()).value_or_throw()->model_checkpoint_path, directory.file("m-2"));
}

TEST(CheckpointState, TheNewestIsListed) {
  TempDirectory directory;
  FileSystem& fs = local_file_system();
  throw_if_error(write_file(fs, directory.file("checkpoint"),
                            "model_checkpoint_path: \"b\" all_model_checkpoint_paths: \"a\" "
                            "all_model_checkpoint_timestamps: 1"));
  const CheckpointState state = *read_checkpoint_state(fs, directory.path()).value_or_throw();
  EXPECT_EQ(state.all_model_checkpoint_paths, (std::vector<std::string>{directory.file("a"), directory.file("b")}));
  EXPECT_TRUE(state.all_model_checkpoint_timestamps.empty());
}

TEST(CheckpointState, ReplacingIsOneStep) {
  TempDirectory directory;
  const CheckpointState before{.model_checkpoint_path = "a", .all_model_checkpoint_paths = {"a"}};
  throw_if_error(write_checkpoint_state(local_file_system(), directory.path(), before));
  int changes = 0;
  for (int limit = 0; limit < 100; ++limit) {
    changes = 0;
    FaultyFileSystem dying(
        local_file_system(),
        [&](FileOp, const std::string&) { return changes++ < limit ? Status() : unavailable("gone"); },
        /*tear_appends=*/true);
    const Status status =
        write_checkpoint_state(dying, directory.path(), {.model_checkpoint_path = str_cat("b", limit)});
    const CheckpointState now = *read_checkpoint_state(local_file_system(), directory.path()).value_or_throw();
    EXPECT_TRUE(now.model_checkpoint_path.ends_with("/a") || now.model_checkpoint_path.ends_with(str_cat("/b", limit)));
    if (status.ok()) return;
    throw_if_error(write_checkpoint_state(local_file_system(), directory.path(), before));
  }
  ADD_FAILURE() << "it never succeeds";
}

}  // namespace tutti::checkpoint_state_test
