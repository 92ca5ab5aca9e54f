#include "tutti/distributed/task_environment.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace tutti::task_environment_test {

// Sets a variable for as long as it lives.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Setting() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
  std::optional<std::string> before_;
};

TEST(TaskEnvironment, Threads) {
  for (const auto& [text, threads] : {std::pair<const char*, int>{nullptr, 0}, {"", 0}, {"3", 3}, {"1024", 1024}}) {
    const Setting setting("TUTTI_THREADS", text);
    EXPECT_EQ(threads_from_env().value_or_throw(), threads);
  }
  for (const char* text : {"-1", "1025", "two", "1.5"}) {
    const Setting setting("TUTTI_THREADS", text);
    EXPECT_EQ(threads_from_env().status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(threads_from_env().status().message().find(text), std::string::npos);
  }
}

TEST(TaskEnvironment, Lease) {
  using std::chrono::milliseconds;
  for (const auto& [text, lease] : {std::pair<const char*, milliseconds>{nullptr, kDefaultLease},
                                    {"", kDefaultLease},
                                    {"0.5", milliseconds(500)},
                                    {"7", milliseconds(7000)},
                                    {"1.2345", milliseconds(1235)}}) {
    const Setting setting("TUTTI_LEASE", text);
    EXPECT_EQ(lease_from_env().value_or_throw(), lease) << (text == nullptr ? "not set" : text);
  }
  for (const char* text : {"0", "0.4", "-3", "nan", "inf", "2000000", "five", "5s", "5 "}) {
    const Setting setting("TUTTI_LEASE", text);
    EXPECT_EQ(lease_from_env().status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(lease_from_env().status().message().find(text), std::string::npos);
  }
}

TEST(TaskEnvironment, ATaskOfACluster) {
  const Setting config(
      "TF_CONFIG", R"({"cluster": {"ps": ["a:1"], "worker": ["b:1", "c:1"]}, "task": {"type": "worker", "index": 1}})");
  const Setting threads("TUTTI_THREADS", "2");
  const Setting lease("TUTTI_LEASE", "3");
  const std::optional<ServerOptions> options = server_options_from_env().value_or_throw();
  ASSERT_TRUE(options);
  EXPECT_EQ(options->cluster, ClusterSpec({{"ps", {"a:1"}}, {"worker", {"b:1", "c:1"}}}));
  EXPECT_EQ(options->job, "worker");
  EXPECT_EQ(options->task, 1);
  EXPECT_EQ(options->runtime.intra_op_threads, 2);
  EXPECT_EQ(options->runtime.inter_op_threads, 2);
  EXPECT_EQ(options->lease, std::chrono::seconds(3));
}

TEST(TaskEnvironment, TheTokenOfTheJob) {
  const Setting setting("TUTTI_JOIN_TOKEN", "open sesame");
  EXPECT_EQ(with_token_from_env({}).join_token, "open sesame");
  EXPECT_EQ(with_token_from_env({.join_token = "own"}).join_token, "own");
  EXPECT_EQ(with_token_from_env({.insecure = true}).join_token, "");
  const Setting config("TF_CONFIG", R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})");
  EXPECT_EQ(server_options_from_env().value_or_throw()->security.join_token, "open sesame");
}

TEST(TaskEnvironment, DataDirectories) {
  const Setting config("TF_CONFIG", R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})");
  for (const auto& [text, directories] : {std::pair<const char*, std::vector<std::string>>{nullptr, {}},
                                          {"", {}},
                                          {"/a", {"/a"}},
                                          {"/a:b c:", {"/a", "b c"}}}) {
    const Setting setting("TUTTI_DATA_DIRS", text);
    EXPECT_EQ(server_options_from_env().value_or_throw()->data_directories, directories);
  }
}

TEST(TaskEnvironment, NoCluster) {
  for (const char* text : {static_cast<const char*>(nullptr), "{}"}) {
    const Setting config("TF_CONFIG", text);
    EXPECT_FALSE(server_options_from_env().value_or_throw());
  }
  const Setting broken("TF_CONFIG", "{");
  EXPECT_EQ(server_options_from_env().status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::task_environment_test
