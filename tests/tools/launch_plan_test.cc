#include "launch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tutti::tools::launch_plan_test {

const LaunchPlace kPlace = {
    .environment = {"PATH=/nowhere:/bin", "HOME=/home/me"}, .tutti = "/opt/tutti/bin/tutti", .cores = 8};

LaunchOptions options(int ps, int workers) {
  LaunchOptions options;
  options.ps = ps;
  options.workers = workers;
  options.command = {"sh", "-c", "exit 0"};
  return options;
}

std::string variable(const TaskPlan& task, const std::string& name) {
  std::vector<std::string> found;
  for (const auto& entry : task.environment) {
    if (entry.starts_with(name + "=")) found.push_back(entry.substr(name.size() + 1));
  }
  EXPECT_LE(found.size(), 1u) << name;
  return found.empty() ? "" : found[0];
}

std::vector<TaskPlan> plan(const LaunchOptions& options, const LaunchPlace& place = kPlace) {
  std::vector<int> ports;
  for (int i = 0; i < num_addresses(options); ++i) ports.push_back(1000 + i);
  return plan_tasks(options, ports, place).value_or_throw();
}

TEST(LaunchPlan, EveryTaskReadsTheClusterAndItsOwnPart) {
  LaunchOptions wanted = options(2, 2);
  wanted.chief = true;
  wanted.evaluator = true;
  const std::vector<TaskPlan> tasks = plan(wanted);
  std::vector<std::string> names;
  for (const auto& task : tasks) {
    names.push_back(task.name());
    const TaskConfig config = TaskConfig::from_json(variable(task, "TF_CONFIG")).value_or_throw();
    EXPECT_EQ(config.type, task.job);
    EXPECT_EQ(config.index, task.index);
    EXPECT_EQ(config.cluster, ClusterSpec({{"ps", {"127.0.0.1:1000", "127.0.0.1:1001"}},
                                           {"chief", {"127.0.0.1:1002"}},
                                           {"worker", {"127.0.0.1:1003", "127.0.0.1:1004"}}}));
    EXPECT_EQ(task.command, (std::vector<std::string>{"/bin/sh", "-c", "exit 0"}));
    EXPECT_EQ(task.serves, task.job == "ps" || task.job == "evaluator");
    EXPECT_EQ(variable(task, "HOME"), "/home/me");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"ps 0", "ps 1", "chief 0", "worker 0", "worker 1", "evaluator 0"}));
}

TEST(LaunchPlan, CoresAreSharedOut) {
  const auto share = [](int cores, int tasks) {
    std::vector<int> threads;
    for (int i = 0; i < tasks; ++i) threads.push_back(thread_share(cores, tasks, i));
    return threads;
  };
  EXPECT_EQ(share(2, 4), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(share(8, 3), (std::vector<int>{3, 3, 2}));
  // What is left over goes to workers.
  const std::vector<TaskPlan> tasks = plan(options(1, 2));
  EXPECT_EQ(variable(tasks[0], "TUTTI_THREADS"), "2");
  EXPECT_EQ(variable(tasks[1], "TUTTI_THREADS"), "3");
  EXPECT_EQ(variable(tasks[2], "OMP_NUM_THREADS"), "3");
}

TEST(LaunchPlan, WhatTheUserSetStays) {
  LaunchPlace place = kPlace;
  place.environment.push_back("OMP_NUM_THREADS=7");
  place.environment.push_back("TF_CONFIG=stale");
  LaunchOptions wanted = options(0, 1);
  wanted.threads = 5;
  const std::vector<TaskPlan> tasks = plan(wanted, place);
  EXPECT_EQ(variable(tasks[0], "OMP_NUM_THREADS"), "7");
  EXPECT_EQ(variable(tasks[0], "TUTTI_THREADS"), "5");
  EXPECT_TRUE(TaskConfig::from_json(variable(tasks[0], "TF_CONFIG")).ok());
}

TEST(LaunchPlan, TasksAreToldTheLease) {
  LaunchPlace place = kPlace;
  place.environment.push_back("TUTTI_LEASE=9");
  LaunchOptions wanted = options(0, 1);
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_LEASE"), "9");
  wanted.lease_seconds = 2.5;
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_LEASE"), "2.5");
}

TEST(LaunchPlan, TasksShareASecretOrAreKeptToTheirDirectories) {
  LaunchPlace place = kPlace;
  place.environment.push_back("TUTTI_JOIN_TOKEN=old");
  LaunchOptions wanted = options(0, 1);
  wanted.data_directories = {"/job", "/data"};
  wanted.join_token = "drawn";
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_JOIN_TOKEN"), "drawn");
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_DATA_DIRS"), "");
  wanted.join_token = "";
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_JOIN_TOKEN"), "");
  EXPECT_EQ(variable(plan(wanted, place)[0], "TUTTI_DATA_DIRS"), "/job:/data");
}

TEST(LaunchPlan, TheSeedsFlags) {
  LaunchOptions wanted = options(1, 2);
  wanted.host_flags = true;
  const std::vector<TaskPlan> tasks = plan(wanted);
  EXPECT_EQ(tasks[2].command, (std::vector<std::string>{"/bin/sh", "-c", "exit 0", "--ps_hosts=127.0.0.1:1000",
                                                        "--worker_hosts=127.0.0.1:1001,127.0.0.1:1002",
                                                        "--job_name=worker", "--task_index=1"}));
}

TEST(LaunchPlan, ParameterServersMayBeTuttisOwn) {
  LaunchOptions wanted = options(1, 1);
  wanted.ps_server = true;
  EXPECT_EQ(plan(wanted)[0].command, (std::vector<std::string>{"/opt/tutti/bin/tutti", "server"}));
}

TEST(LaunchPlan, WhatMakesNoSenseIsSaid) {
  const auto error = [](const LaunchOptions& options) {
    const std::vector<int> ports(static_cast<std::size_t>(std::max(0, num_addresses(options))), 1);
    return plan_tasks(options, ports, kPlace).status();
  };
  EXPECT_EQ(error(options(1, 0)).code(), Code::kInvalidArgument);
  EXPECT_EQ(error(options(1, 5000)).code(), Code::kInvalidArgument);
  LaunchOptions wanted = options(1, 1);
  wanted.command = {"no-such-program"};
  EXPECT_EQ(error(wanted).code(), Code::kNotFound);
  EXPECT_NE(error(wanted).message().find("no-such-program"), std::string::npos);
  wanted.command = {"/etc/passwd"};
  EXPECT_EQ(error(wanted).code(), Code::kNotFound);
  wanted.command = {};
  EXPECT_EQ(error(wanted).code(), Code::kInvalidArgument);
  wanted = options(1, 1);
  wanted.chief = wanted.host_flags = true;
  EXPECT_EQ(error(wanted).code(), Code::kInvalidArgument);
}

}  // namespace tutti::tools::launch_plan_test
