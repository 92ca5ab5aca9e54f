#include "tutti/distributed/rpc/certificates.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include "temporary_directory.h"
#include "tutti/distributed/rpc/internal/task_identity.h"

namespace tutti::test::certificates_test {

namespace fs = std::filesystem;

std::set<std::string> files_in(const std::string& directory) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.insert(entry.path().filename());
  return names;
}

TEST(Certificates, MakesFilesThatOnlyTheirOwnerReads) {
  TemporaryDirectory directory;
  const std::string made = directory.path() + "/certs";
  const std::vector<std::string> tasks{"/job:ps/replica:0/task:0", "/job:worker/task:12"};
  ASSERT_TRUE(make_cluster_certificates(made, tasks, {"localhost", "127.0.0.1", "::1"}, 30).ok());
  EXPECT_EQ(files_in(made),
            (std::set<std::string>{"ca.key", "ca.pem", "ps-0.key", "ps-0.pem", "worker-12.key", "worker-12.pem"}));
  for (const char* key : {"/ca.key", "/ps-0.key", "/worker-12.key"}) {
    EXPECT_EQ(fs::status(made + key).permissions(), fs::perms::owner_read | fs::perms::owner_write) << key;
  }
  const Status again = make_cluster_certificates(made, tasks, {}, 30);
  EXPECT_EQ(again.code(), Code::kAlreadyExists) << again.to_string();
}

TEST(Certificates, BadArgumentsMakeNothing) {
  TemporaryDirectory directory;
  const std::string& path = directory.path();
  const std::vector<std::string> good{"/job:ps/task:0"};
  EXPECT_EQ(make_cluster_certificates(path, good, {}, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(make_cluster_certificates(path, good, {}, 40'000).code(), Code::kInvalidArgument);
  for (const char* host : {"", "a b", "a,DNS:b", "x\n", "[::1]"}) {
    EXPECT_EQ(make_cluster_certificates(path, good, {host}, 1).code(), Code::kInvalidArgument) << host;
  }
  for (const char* task : {"", "ps:0", "/job:ps", "/task:0", "/job:ps/replica:1/task:0", "/job:a,b/task:0",
                           "/job:ps/task:0/device:CPU:0", "/job:../x/task:0"}) {
    EXPECT_EQ(make_cluster_certificates(path, {task}, {}, 1).code(), Code::kInvalidArgument) << task;
  }
  EXPECT_TRUE(files_in(path).empty());
}

TEST(TaskIdentity, UrisNameTasks) {
  using rpc_internal::task_of_uris;
  EXPECT_EQ(*rpc_internal::task_to_uri("/job:ps/replica:0/task:1"), "tutti://job/ps/task/1");
  EXPECT_EQ(*task_of_uris({"https://other", "tutti://job/ps/task/1"}), "/job:ps/replica:0/task:1");
  EXPECT_EQ(*task_of_uris({"tutti://job/ps/task/1", "tutti://job/ps/task/1"}), "/job:ps/replica:0/task:1");
  EXPECT_EQ(task_of_uris({"tutti://job/ps/task/1", "tutti://job/ps/task/2"}).status().code(), Code::kUnauthenticated);
  for (const char* uri : {"", "tutti://job/ps/task/", "tutti://job//task/1", "tutti://job/ps/task/01",
                          "tutti://job/ps/task/1/", "tutti://job/ps/task/-1", "tutti://job/*/task/1",
                          "tutti://job/ps/task/*", "tutti://job/ps/replica:3/task/1", "TUTTI://job/ps/task/1"}) {
    EXPECT_EQ(task_of_uris({uri}).status().code(), Code::kUnauthenticated) << uri;
  }
}

}  // namespace tutti::test::certificates_test
