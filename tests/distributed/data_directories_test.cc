#include "tutti/distributed/data_directories.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/core/temp_directory.h"

namespace tutti::data_directories_test {

class DataDirectoriesTest : public ::testing::Test {
 protected:
  DataDirectoriesTest() {
    std::filesystem::create_directories(inside("sub"));
    std::filesystem::create_directories(root_.file("data2"));
    throw_if_error(write_file(local_file_system(), inside("a"), "in"));
    throw_if_error(write_file(local_file_system(), root_.file("secret"), "out"));
    files_ = make_data_directories(local_file_system(), {inside("")}).value_or_throw();
  }
  std::string inside(const std::string& name) const { return root_.file("data/" + name); }
  void expect_denied(const Status& status) {
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << status.to_string();
    EXPECT_NE(status.message().find("/data"), std::string::npos) << status.message();
  }

  TempDirectory root_;
  std::unique_ptr<FileSystem> files_;
};

TEST_F(DataDirectoriesTest, WhatLiesInsideWorks) {
  EXPECT_EQ(*read_file(*files_, inside("a")), "in");
  EXPECT_EQ(*read_file(*files_, inside("sub/../a")), "in");
  EXPECT_TRUE(write_file(*files_, inside("sub/new"), "x").ok());
  EXPECT_TRUE(files_->open_for_large_write(inside("sub/new")).ok());
  EXPECT_TRUE(files_->make_directories(inside("deep/er")).ok());
  EXPECT_EQ(*files_->list(inside("sub")), std::vector<std::string>{"new"});
  EXPECT_TRUE(files_->rename(inside("sub/new"), inside("moved")).ok());
  EXPECT_TRUE(files_->sync_directory(inside("")).ok());
  EXPECT_TRUE(files_->remove(inside("moved")).ok());
  EXPECT_TRUE(files_->exists(inside("a")));
  EXPECT_EQ(files_->info(inside("missing")).status().code(), Code::kNotFound);
}

TEST_F(DataDirectoriesTest, FileUrlsAreHeldToTheSameDirectories) {
  EXPECT_EQ(*read_file(*files_, "file://" + inside("a")), "in");
  EXPECT_TRUE(write_file(*files_, "file://" + inside("new"), "x").ok());
  EXPECT_TRUE(files_->rename("file://" + inside("new"), "file://" + inside("moved")).ok());
  EXPECT_EQ(*read_file(*files_, inside("moved")), "x");
  expect_denied(files_->open_for_read("file://" + root_.file("secret")).status());
  expect_denied(files_->open_for_read("file://" + inside("../secret")).status());
  expect_denied(write_file(*files_, "file://" + root_.file("new"), "x"));
  expect_denied(files_->rename("file://" + inside("moved"), "file://" + root_.file("moved")));
  expect_denied(files_->remove("file://" + root_.file("secret")));
  expect_denied(files_->list("file://").status());
  EXPECT_EQ(files_->open_for_read("gs://bucket/x").status().code(), Code::kUnimplemented);
  EXPECT_TRUE(make_data_directories(local_file_system(), {"file://" + inside("")}).ok());
}

TEST_F(DataDirectoriesTest, WhatLiesOutsideIsDenied) {
  const std::string secret = root_.file("secret");
  expect_denied(files_->open_for_read(secret).status());
  expect_denied(files_->open_for_read(inside("../secret")).status());
  expect_denied(files_->open_for_read(inside("sub/../../secret")).status());
  expect_denied(files_->open_for_write(root_.file("new")).status());
  expect_denied(files_->open_for_large_write(root_.file("new")).status());
  expect_denied(files_->open_for_append(secret).status());
  expect_denied(files_->info(secret).status());
  expect_denied(files_->list(root_.path()).status());
  expect_denied(files_->make_directories(root_.file("made")));
  expect_denied(files_->remove(secret));
  expect_denied(files_->rename(inside("a"), root_.file("a")));
  expect_denied(files_->rename(secret, inside("b")));
  expect_denied(files_->sync_directory(root_.path()));
  expect_denied(files_->open_for_read(root_.file("data2/x")).status());
  expect_denied(files_->open_for_read("relative").status());
  EXPECT_FALSE(std::filesystem::exists(root_.file("made")));
}

TEST_F(DataDirectoriesTest, LinksLeadWhereTheyLead) {
  ASSERT_EQ(symlink(root_.file("secret").c_str(), inside("link").c_str()), 0);
  ASSERT_EQ(symlink(root_.path().c_str(), inside("up").c_str()), 0);
  ASSERT_EQ(symlink(root_.file("nothing").c_str(), inside("dangling").c_str()), 0);
  expect_denied(files_->open_for_read(inside("link")).status());
  expect_denied(files_->open_for_read(inside("up/secret")).status());
  expect_denied(files_->open_for_write(inside("up/new")).status());
  expect_denied(files_->open_for_write(inside("dangling")).status());
  EXPECT_FALSE(std::filesystem::exists(root_.file("nothing")));
  // The link itself lies inside.
  EXPECT_TRUE(files_->remove(inside("link")).ok());
  EXPECT_TRUE(std::filesystem::exists(root_.file("secret")));
}

TEST_F(DataDirectoriesTest, WithoutDirectoriesNothingIsAllowed) {
  const auto none = make_data_directories(local_file_system(), {}).value_or_throw();
  const Status status = none->open_for_read(inside("a")).status();
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_NE(status.message().find("no data directory"), std::string::npos);
}

TEST_F(DataDirectoriesTest, AMissingDirectoryIsAnError) {
  EXPECT_EQ(make_data_directories(local_file_system(), {inside("none")}).status().code(), Code::kNotFound);
  EXPECT_EQ(make_data_directories(local_file_system(), {inside("a")}).status().code(), Code::kFailedPrecondition);
}

TEST_F(DataDirectoriesTest, AZeroByteIsRefused) {
  EXPECT_EQ(files_->open_for_read(inside("a") + std::string("\0x", 2)).status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::data_directories_test
