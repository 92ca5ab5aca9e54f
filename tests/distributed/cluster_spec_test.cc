#include "tutti/distributed/cluster_spec.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace tutti::cluster_spec_test {

using Hosts = std::map<std::string, std::vector<std::string>>;
using Sparse = std::map<std::string, ClusterSpec::Tasks>;

const ClusterSpec kSeed(Hosts{{"worker", {"w0:2222", "w1:2222", "w2:2222"}}, {"ps", {"p0:2222", "p1:2222"}}});

// Part of the message of the error that `text` gives.
void expect_error(const Status& status, const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), Code::kInvalidArgument) << status.to_string();
  for (const auto& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << '"' << part << "\" in: " << status.message();
  }
}

void expect_bad_cluster(std::string_view text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text.substr(0, 80));
  expect_error(ClusterSpec::from_json(text).status(), parts);
}

void expect_bad_config(std::string_view text, const std::vector<std::string>& parts) {
  SCOPED_TRACE(text.substr(0, 80));
  expect_error(TaskConfig::from_json(text).status(), parts);
}

TEST(ClusterSpecTest, ListsJobsAndTasks) {
  EXPECT_EQ(kSeed.jobs(), (std::vector<std::string>{"ps", "worker"}));
  EXPECT_EQ(*kSeed.num_tasks("worker"), 3);
  EXPECT_EQ(*kSeed.task_indices("ps"), (std::vector<int>{0, 1}));
  EXPECT_EQ(*kSeed.task_address("worker", 2), "w2:2222");
  EXPECT_EQ(*kSeed.job_tasks("ps"), (std::vector<std::optional<std::string>>{"p0:2222", "p1:2222"}));
  EXPECT_FALSE(kSeed.empty());
  EXPECT_TRUE(ClusterSpec().empty());
}

TEST(ClusterSpecTest, NamesTasks) {
  std::vector<std::string> names;
  for (const auto& [job, tasks] : kSeed.tasks()) {
    for (const auto& [index, address] : tasks) names.push_back(task_name(job, index));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"/job:ps/replica:0/task:0", "/job:ps/replica:0/task:1",
                                             "/job:worker/replica:0/task:0", "/job:worker/replica:0/task:1",
                                             "/job:worker/replica:0/task:2"}));
}

TEST(ClusterSpecTest, SparseJobsHaveGaps) {
  const ClusterSpec spec(Sparse{{"worker", {{1, "a:1"}, {3, "b:1"}}}});
  EXPECT_EQ(*spec.num_tasks("worker"), 2);
  EXPECT_EQ(*spec.task_indices("worker"), (std::vector<int>{1, 3}));
  EXPECT_EQ(*spec.job_tasks("worker"),
            (std::vector<std::optional<std::string>>{std::nullopt, "a:1", std::nullopt, "b:1"}));
}

TEST(ClusterSpecTest, EqualWhenTheTasksAre) {
  EXPECT_EQ(ClusterSpec(Sparse{{"ps", {{0, "a"}}}}), ClusterSpec(Hosts{{"ps", {"a"}}}));
  EXPECT_NE(ClusterSpec(Sparse{{"ps", {{1, "a"}}}}), ClusterSpec(Hosts{{"ps", {"a"}}}));
  EXPECT_NE(kSeed, ClusterSpec());
}

TEST(ClusterSpecTest, UnknownJobOrIndexIsNamed) {
  expect_error(kSeed.num_tasks("chief").status(), {"no such job", "chief", "ps, worker"});
  expect_error(kSeed.task_indices("chief").status(), {"no such job", "chief"});
  expect_error(kSeed.task_address("chief", 0).status(), {"no such job", "chief"});
  expect_error(kSeed.job_tasks("chief").status(), {"no such job", "chief"});
  expect_error(kSeed.task_address("ps", 2).status(), {"index 2", "\"ps\""});
  expect_error(kSeed.task_address("ps", -1).status(), {"index -1", "\"ps\""});
  expect_error(ClusterSpec().num_tasks("ps").status(), {"none"});
}

TEST(ClusterSpecTest, ListingFarApartTasksIsRefused) {
  expect_error(ClusterSpec(Sparse{{"ps", {{2'000'000'000, "a:1"}}}}).job_tasks("ps").status(), {"ps", "indices"});
  expect_error(ClusterSpec(Sparse{{"ps", {{-1, "a:1"}}}}).job_tasks("ps").status(), {"ps", "indices"});
}

TEST(ClusterSpecTest, AJobMayHaveNoTasks) {
  const ClusterSpec spec(Hosts{{"worker", {}}});
  EXPECT_EQ(*spec.num_tasks("worker"), 0);
  EXPECT_TRUE(spec.job_tasks("worker")->empty());
  EXPECT_EQ(spec.to_string(), "ClusterSpec({'worker': {}})");
  EXPECT_EQ(spec.to_json(), R"({"worker":{}})");
}

TEST(ClusterSpecTest, PrintsJobsInOrder) {
  EXPECT_EQ(kSeed.to_string(),
            "ClusterSpec({'ps': ['p0:2222', 'p1:2222'], 'worker': ['w0:2222', 'w1:2222', 'w2:2222']})");
  EXPECT_EQ(ClusterSpec(Sparse{{"worker", {{3, "b'2"}}}}).to_string(), R"(ClusterSpec({'worker': {3: 'b\'2'}}))");
  EXPECT_EQ(ClusterSpec().to_string(), "ClusterSpec({})");
}

TEST(ClusterSpecTest, JsonThereAndBack) {
  for (const ClusterSpec& spec :
       {kSeed, ClusterSpec(), ClusterSpec(Sparse{{"ps", {{0, "a:1"}}}, {"worker", {{7, "b:1"}, {9, "c:1"}}}}),
        ClusterSpec(Hosts{{"worker", {}}})}) {
    EXPECT_EQ(ClusterSpec::from_json(spec.to_json()).value_or_throw(), spec) << spec.to_json();
  }
  EXPECT_EQ(kSeed.to_json(), R"({"ps":["p0:2222","p1:2222"],"worker":["w0:2222","w1:2222","w2:2222"]})");
}

TEST(ClusterSpecTest, JsonOfBytesThatAreNoText) {
  EXPECT_TRUE(ClusterSpec::from_json(ClusterSpec(Hosts{{"ps", {"\xff:1"}}}).to_json()).status().code() !=
              Code::kInternal);
}

TEST(ClusterSpecTest, BadJsonSaysWhere) {
  expect_bad_cluster("", {"not JSON"});
  expect_bad_cluster("{\"ps\": [\"a:1\",\n  oops]}", {"not JSON", "line 2, column"});
  expect_bad_cluster("[]", {"cluster", "object", "[]"});
  expect_bad_cluster("7", {"cluster", "object", "7"});
  expect_bad_cluster(R"({"ps": "a:1"})", {"ps:", "list of addresses", "\"a:1\""});
  expect_bad_cluster(R"({"ps": ["a:1", 7]})", {"ps[1]", "string", "7"});
  expect_bad_cluster(R"({"ps": ["a:1", ""]})", {"ps[1]", "empty"});
  expect_bad_cluster(R"({"ps": ["a\u0000:1"]})", {"ps[0]", "not an address"});
  expect_bad_cluster(R"({"ps": {"x": "a:1"}})", {"ps.x", "not a task index"});
  expect_bad_cluster(R"({"ps": {"-1": "a:1"}})", {"ps.-1", "not a task index"});
  expect_bad_cluster(R"({"ps": {"2000000000": "a:1"}})", {"ps.2000000000", "not a task index"});
  expect_bad_cluster(R"({"ps": {"1": null}})", {"ps.1", "string", "null"});
  expect_bad_cluster(R"({"": ["a:1"]})", {"not a job's name"});
  expect_bad_cluster(R"({"p/s": ["a:1"]})", {"p/s", "not a job's name"});
  expect_bad_cluster(R"({"ps": ["a:1"], "ps": ["b:1"]})", {"\"ps\"", "twice"});
  expect_bad_cluster("{\"ps\": [\"\xff\"]}", {"not JSON"});
}

TEST(ClusterSpecTest, DeepJsonIsRefused) {
  expect_bad_cluster(std::string(1'000'000, '['), {"deeper than"});
  expect_bad_cluster("{\"ps\":" + std::string(100, '[') + std::string(100, ']') + "}", {"deeper than"});
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  expect_bad_cluster(objects, {"deeper than"});
}

TEST(ClusterSpecTest, FlagsOfTheSeeds) {
  EXPECT_EQ(ClusterSpec::from_flags("p0:2222,p1:2222", " w0:2222, w1:2222,w2:2222").value_or_throw(), kSeed);
  const ClusterSpec no_ps = ClusterSpec::from_flags("", "w0:1").value_or_throw();
  EXPECT_EQ(no_ps.jobs(), (std::vector<std::string>{"worker"}));
  EXPECT_TRUE(ClusterSpec::from_flags("", "").value_or_throw().empty());
  expect_error(ClusterSpec::from_flags("p0:1,,p2:1", "").status(), {"ps_hosts", "task 1", "p0:1,,p2:1"});
  expect_error(ClusterSpec::from_flags("", "w0:1,").status(), {"worker_hosts", "task 1"});
}

TEST(TaskConfigTest, ReadsTheSeedsExample) {
  const auto config = TaskConfig::from_json(R"({
    "cluster": {"worker": ["host1:port", "host2:port"], "ps": ["host4:port"]},
    "task": {"type": "worker", "index": 1}, "environment": "cloud", "rpc_layer": "grpc"})")
                          .value_or_throw();
  EXPECT_EQ(config.cluster, ClusterSpec(Hosts{{"ps", {"host4:port"}}, {"worker", {"host1:port", "host2:port"}}}));
  EXPECT_EQ(config.type, "worker");
  EXPECT_EQ(config.index, 1);
  EXPECT_EQ(config.environment, "cloud");
}

TEST(TaskConfigTest, WithoutClusterOneMachine) {
  EXPECT_TRUE(TaskConfig::from_json("{}").value_or_throw().cluster.empty());
  EXPECT_EQ(TaskConfig::from_json("{}").value_or_throw().type, "");
  EXPECT_EQ(TaskConfig::from_json(R"({"task": {"type": "worker", "index": 0}})").value_or_throw().type, "worker");
  EXPECT_EQ(TaskConfig::from_json(R"({"cluster": {"ps": ["a:1"]}, "task": {}})").value_or_throw().type, "");
}

TEST(TaskConfigTest, AnEvaluatorStandsInsideOrOutside) {
  for (const char* cluster : {R"({"worker": ["a:1"]})", R"({"worker": ["a:1"], "evaluator": ["b:1"]})"}) {
    const auto config =
        TaskConfig::from_json(str_cat(R"({"cluster": )", cluster, R"(, "task": {"type": "evaluator", "index": 0}})"))
            .value_or_throw();
    EXPECT_EQ(config.type, "evaluator");
    EXPECT_EQ(config.index, 0);
  }
  expect_bad_config(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 1}})",
                    {"task.index", "1", "at most one evaluator"});
}

TEST(TaskConfigTest, TheIndexOfAnOnlyTaskMayBeMissing) {
  const auto chief = TaskConfig::from_json(R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief"}})");
  EXPECT_EQ(chief->index, 0);
  const auto sparse = TaskConfig::from_json(R"({"cluster": {"ps": {"5": "a:1"}}, "task": {"type": "ps"}})");
  EXPECT_EQ(sparse->index, 5);
  expect_bad_config(R"({"cluster": {"ps": ["a:1", "b:1"]}, "task": {"type": "ps"}})", {"task.index", "missing", "2"});
}

TEST(TaskConfigTest, TheIndexMayBeAString) {
  const auto config =
      TaskConfig::from_json(R"({"cluster": {"ps": ["a:1", "b:1"]}, "task": {"type": "ps", "index": "1"}})");
  EXPECT_EQ(config->index, 1);
}

TEST(TaskConfigTest, OtherJobsOfTheClusterAreTypesToo) {
  const auto config =
      TaskConfig::from_json(R"({"cluster": {"local": ["a:1"]}, "task": {"type": "local", "index": 0}})");
  EXPECT_EQ(config->type, "local");
}

TEST(TaskConfigTest, BadTextSaysWhere) {
  expect_bad_config("", {"not JSON"});
  expect_bad_config("{'cluster': {}}", {"not JSON", "line 1, column 2"});
  expect_bad_config("[1]", {"object", "[1]"});
  expect_bad_config(R"({"cluster": []})", {"cluster", "object"});
  expect_bad_config(R"({"cluster": {"ps": [1]}})", {"cluster.ps[0]", "string"});
  expect_bad_config(R"({"cluster": {"ps": ["a"]}, "cluster": {}})", {"cluster", "twice"});
  expect_bad_config(R"({"task": "ps"})", {"task", "object"});
  expect_bad_config(R"({"task": {"type": 3}})", {"task", "type", "3"});
  expect_bad_config(R"({"task": {"index": 3}})", {"task.type", "missing", "3"});
  expect_bad_config(R"({"task": {"type": "boss"}})", {"task.type", "boss", "chief, worker"});
  expect_bad_config(R"({"task": {"type": "ps", "index": 1.5}})", {"task.index", "1.5"});
  expect_bad_config(R"({"task": {"type": "ps", "index": -1}})", {"task.index", "-1"});
  expect_bad_config(R"({"task": {"type": "ps", "index": 99999999999999999999}})", {"task.index"});
  expect_bad_config(R"({"environment": 1})", {"environment", "1"});
  expect_bad_config(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 1}})", {"task.index", "1", "ps"});
  expect_bad_config(R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 0}})",
                    {"task.type", "worker", "ps only"});
  expect_bad_config(R"({"cluster": {"chief": ["a:1", "b:1"]}})", {"cluster.chief", "2", "at most one"});
  expect_bad_config(R"({"cluster": {"evaluator": ["a:1", "b:1"]}})", {"cluster.evaluator", "at most one"});
}

class EnvironmentTest : public ::testing::Test {
 protected:
  ~EnvironmentTest() override { unsetenv("TF_CONFIG"); }
};

TEST_F(EnvironmentTest, ReadsTheVariable) {
  unsetenv("TF_CONFIG");
  EXPECT_FALSE(TaskConfig::from_env().value_or_throw().has_value());
  setenv("TF_CONFIG", "", 1);
  EXPECT_FALSE(TaskConfig::from_env().value_or_throw().has_value());
  setenv("TF_CONFIG", R"({"cluster": {"ps": ["a:1"]}, "task": {"type": "ps", "index": 0}})", 1);
  EXPECT_EQ(TaskConfig::from_env().value_or_throw()->type, "ps");
  setenv("TF_CONFIG", "{", 1);
  expect_error(TaskConfig::from_env().status(), {"TF_CONFIG", "not JSON", "line 1"});
}

}  // namespace tutti::cluster_spec_test
