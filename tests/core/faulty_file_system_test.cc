#include <gtest/gtest.h>

#include <optional>

#include "tests/core/temp_directory.h"
#include "tutti/core/file_system.h"

namespace tutti::faulty_file_system_test {

class FaultyFileSystemTest : public ::testing::Test {
 protected:
  // Fails every call of `op` from now on; nothing: none.
  void fail(std::optional<FileOp> op) { failing_ = op; }

  FaultyFileSystem::Fault make_fault() {
    return [this](FileOp op, const std::string& path) {
      last_path_ = path;
      return op == failing_ ? resource_exhausted("injected") : Status();
    };
  }
  bool injected(const Status& status) { return status == resource_exhausted("injected"); }

  TempDirectory directory_;
  FaultyFileSystem fs_{local_file_system(), make_fault()};
  FaultyFileSystem tearing_fs_{local_file_system(), make_fault(), true};
  std::optional<FileOp> failing_;
  std::string last_path_;
};

TEST_F(FaultyFileSystemTest, PassesEverythingThrough) {
  const std::string path = directory_.file("d/a");
  ASSERT_TRUE(fs_.make_directories(directory_.file("d")).ok());
  ASSERT_TRUE(write_file(fs_, path, "hello").ok());
  {
    const std::unique_ptr<WritableFile> file = fs_.open_for_append(path).value_or_throw();
    ASSERT_TRUE(file->append(" world").ok());
    ASSERT_TRUE(file->flush().ok());
    ASSERT_TRUE(file->sync().ok());
    ASSERT_TRUE(file->close().ok());
  }
  EXPECT_EQ(*read_file(fs_, path), "hello world");
  EXPECT_EQ(fs_.info(path)->bytes, 11u);
  EXPECT_EQ(*fs_.list(directory_.file("d")), (std::vector<std::string>{"a"}));
  ASSERT_TRUE(fs_.rename(path, directory_.file("d/b")).ok());
  ASSERT_TRUE(fs_.sync_directory(directory_.file("d")).ok());
  ASSERT_TRUE(fs_.remove(directory_.file("d/b")).ok());
  EXPECT_FALSE(fs_.exists(path));
  EXPECT_EQ(fs_.open_for_read(path).status().code(), Code::kNotFound);  // real errors, too
}

TEST_F(FaultyFileSystemTest, FailsOpens) {
  const std::string path = directory_.file("a");
  fail(FileOp::kOpenWrite);
  EXPECT_TRUE(injected(fs_.open_for_write(path).status()));
  EXPECT_TRUE(injected(fs_.open_for_append(path).status()));
  EXPECT_EQ(last_path_, path);
  EXPECT_FALSE(local_file_system().exists(path));
  fail(FileOp::kOpenRead);
  ASSERT_TRUE(write_file(fs_, path, "x").ok());
  EXPECT_TRUE(injected(fs_.open_for_read(path).status()));
}

TEST_F(FaultyFileSystemTest, FailsReads) {
  const std::string path = directory_.file("a");
  ASSERT_TRUE(write_file(fs_, path, "x").ok());
  const std::unique_ptr<RandomAccessFile> file = fs_.open_for_read(path).value_or_throw();
  char buffer[1];
  fail(FileOp::kRead);
  EXPECT_TRUE(injected(file->read(0, buffer).status()));
  EXPECT_TRUE(injected(read_file(fs_, path).status()));
  fail(std::nullopt);
  EXPECT_EQ(*file->read(0, buffer), 1u);
}

TEST_F(FaultyFileSystemTest, FailsAppendsCleanly) {
  const std::string path = directory_.file("a");
  const std::unique_ptr<WritableFile> file = fs_.open_for_write(path).value_or_throw();
  ASSERT_TRUE(file->append("first").ok());
  ASSERT_TRUE(file->flush().ok());
  fail(FileOp::kAppend);
  EXPECT_TRUE(injected(file->append("second")));
  EXPECT_EQ(*read_file(local_file_system(), path), "first");
}

TEST_F(FaultyFileSystemTest, TearsAppends) {
  const std::string path = directory_.file("a");
  const std::unique_ptr<WritableFile> file = tearing_fs_.open_for_write(path).value_or_throw();
  ASSERT_TRUE(file->append("whole,").ok());
  fail(FileOp::kAppend);
  EXPECT_TRUE(injected(file->append("123456")));
  EXPECT_EQ(*read_file(local_file_system(), path), "whole,123");
}

TEST_F(FaultyFileSystemTest, ABrokenFileStaysBroken) {
  const FileOp ops[] = {FileOp::kAppend, FileOp::kFlush, FileOp::kSync, FileOp::kClose};
  const auto call = [](WritableFile& file, FileOp op) {
    if (op == FileOp::kAppend) return file.append("x");
    if (op == FileOp::kFlush) return file.flush();
    if (op == FileOp::kSync) return file.sync();
    return file.close();
  };
  for (const FileOp op : ops) {
    const std::unique_ptr<WritableFile> file = fs_.open_for_write(directory_.file("a")).value_or_throw();
    fail(op);
    EXPECT_TRUE(injected(call(*file, op)));
    fail(std::nullopt);
    for (const FileOp later : ops) EXPECT_TRUE(injected(call(*file, later)));
  }
}

TEST_F(FaultyFileSystemTest, FailsWhatChangesDirectories) {
  const std::string path = directory_.file("a");
  ASSERT_TRUE(write_file(fs_, path, "x").ok());
  fail(FileOp::kRename);
  EXPECT_TRUE(injected(fs_.rename(path, directory_.file("b"))));
  EXPECT_EQ(last_path_, path);
  fail(FileOp::kRemove);
  EXPECT_TRUE(injected(fs_.remove(path)));
  fail(FileOp::kMakeDirectories);
  EXPECT_TRUE(injected(fs_.make_directories(directory_.file("d"))));
  fail(FileOp::kSyncDirectory);
  EXPECT_TRUE(injected(fs_.sync_directory(directory_.path())));
  EXPECT_EQ(*fs_.list(directory_.path()), (std::vector<std::string>{"a"}));
}

}  // namespace tutti::faulty_file_system_test
