// Clusters of real processes: `tutti server` for each task, and this program as their client.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <memory>
#include <thread>

#include "tests/integration/process_cluster.h"
#include "tutti/core/mutex.h"
#include "tutti/core/strings.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/nn.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/strategies/greedy_load_balancing.h"
#include "tutti/strategies/replica_device_setter.h"

namespace tutti::cluster_test {

using namespace std::chrono_literals;

// The seed's client: variables on the parameter server, a product on worker 0, again on worker 1.
struct SeedGraph {
  SeedGraph() : graph(builtin_ops()), x(ones_on_ps("x")), y(ones_on_ps("y")) {
    {
      const auto scope = graph.device_scope("/job:worker/task:0");
      first = add(matmul(x, y, {}, "product0"), x, "sum0");
    }
    const auto scope = graph.device_scope("/job:worker/task:1");
    second = add(matmul(first, x, {}, "product1"), x, "sum1");
  }
  Var ones_on_ps(const char* name) {
    const auto scope = graph.device_scope("/job:ps/task:0");
    return variable(graph, ones(graph, DType::kFloat, {2, 2}), name);
  }
  Node* initializer() { return global_variables_initializer(graph); }

  Graph graph;
  Var x;
  Var y;
  Output first;
  Output second;
};

std::vector<float> values(const Tensor& tensor) {
  const auto data = tensor.flat<float>();
  return {data.begin(), data.end()};
}

// A count on ps 0, counted up by worker 0: a step that needs both.
struct CountGraph {
  CountGraph() : graph(builtin_ops()) {
    {
      const auto scope = graph.device_scope("/job:ps/task:0");
      count = std::make_unique<Var>(variable(graph, zeros(graph, DType::kFloat, {}), "count"));
    }
    Output one;
    {
      const auto scope = graph.device_scope("/job:worker/task:0");
      one = reduce_sum(ones(graph, DType::kFloat, {1}));
    }
    const auto scope = graph.device_scope("/job:ps/task:0");
    increment = count->assign_add(one);
    initializer = global_variables_initializer(graph);
  }
  Graph graph;
  std::unique_ptr<Var> count;
  Node* increment;
  Node* initializer;
};

// Rows A1 and C6: three processes find each other from one spec, and the client prints sevens.
TEST(ClusterTest, TheSeedsClientGetsSevens) {
  ProcessCluster cluster(1, 2);
  cluster.start_all();
  SeedGraph seed;
  const auto session = connect(cluster.target("worker", 0), seed.graph, within()).value_or_throw();
  session->run({seed.initializer()});
  const auto got = session->run({}, {seed.first, seed.second});
  EXPECT_EQ(values(got[0]), (std::vector<float>{3, 3, 3, 3}));
  EXPECT_EQ(values(got[1]), (std::vector<float>{7, 7, 7, 7}));
}

TEST(ClusterTest, TheExamplePrintsSevens) {
  ProcessCluster cluster(1, 2);
  cluster.start_all();
  ChildProcess client({TUTTI_CLUSTER_CLIENT, cluster.target("worker", 0)});
  EXPECT_EQ(client.wait(), 0) << client.output();
  EXPECT_EQ(client.output(), "[[7,7],[7,7]]\n");
}

// Row C1.
TEST(ClusterTest, ListDevicesNamesTheFiveTasks) {
  ProcessCluster cluster(2, 3);
  cluster.start_all();
  Graph graph(builtin_ops());
  const auto session = connect(cluster.target("worker", 2), graph, within()).value_or_throw();
  std::vector<std::string> devices = session->list_devices();
  std::sort(devices.begin(), devices.end());
  std::vector<std::string> expected;
  for (const auto& [task, address] : task_addresses(cluster.spec())) expected.push_back(task + "/device:CPU:0");
  EXPECT_EQ(devices, expected);
}

// Row C2.
TEST(ClusterTest, AServerIsReachableAndStopsWhenAsked) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ChildProcess server(server_command({"--cluster", R"({"local": ["localhost:0"]})"}), {"TF_CONFIG"});
    const std::string line = server.wait_for_line("listening on");
    ASSERT_NE(line, "") << server.output();
    EXPECT_TRUE(line.starts_with("/job:local/replica:0/task:0 listening on grpc://localhost:")) << line;
    const std::string target = line.substr(line.find("grpc://"));
    Graph graph(builtin_ops());
    const Output one = constant(graph, Tensor::of<float>({}, {1}));
    {
      const auto session = connect(target, graph, within()).value_or_throw();
      EXPECT_EQ(values(session->run({}, {one})[0]), std::vector<float>{1});
      server.send(signal);
      EXPECT_EQ(server.wait(), 0) << server.output();
    }
  }
}

// Row C3: which node ran on which device, as the step itself tells.
TEST(ClusterTest, EachOpRunsWhereItWasPut) {
  ProcessCluster cluster(2, 8);
  cluster.start_all();
  Graph graph(builtin_ops());
  std::vector<Var> variables;
  for (const char* name : {"weights_1", "weights_2"}) {
    const auto scope = graph.device_scope(str_cat("/job:ps/task:", variables.size()));
    variables.push_back(variable(graph, ones(graph, DType::kFloat, {2, 2}), name));
  }
  const auto compute = [&] {
    const auto scope = graph.device_scope("/job:worker/task:7");
    const Output input = constant(graph, Tensor::of<float>({1, 2}, {1, 2}), "input");
    return nn::relu(matmul(nn::relu(matmul(input, variables[0], {}, "layer_1"), "relu_1"), variables[1], {}, "layer_2"),
                    "logits");
  };
  const Output logits = compute();
  Node* const init = global_variables_initializer(graph);
  const auto session = connect(cluster.target("worker", 7), graph, within()).value_or_throw();
  session->run({init});
  RunMetadata metadata;
  RunOptions options;
  options.metadata = &metadata;
  EXPECT_EQ(values(session->run({}, {logits}, {}, options)[0]), (std::vector<float>{6, 6}));
  std::map<std::string, std::string> ran_on;
  for (const auto& node : metadata.step_stats.nodes) ran_on[node.name] = node.device;
  // Some node of these names ran, and all that did ran there; passes may have fused some into others.
  const auto expect_on = [&](const std::vector<std::string>& parts, const std::string& device) {
    bool found = false;
    for (const auto& [name, where] : ran_on) {
      const bool crossing = name.find("_S") != name.npos;
      const bool meant = std::any_of(parts.begin(), parts.end(),
                                     [&name = name](const std::string& part) { return name.find(part) != name.npos; });
      if (crossing || !meant) continue;
      found = true;
      EXPECT_EQ(where, device) << name;
    }
    EXPECT_TRUE(found) << parts[0] << " did not run";
  };
  expect_on({"weights_1"}, "/job:ps/replica:0/task:0/device:CPU:0");
  expect_on({"weights_2"}, "/job:ps/replica:0/task:1/device:CPU:0");
  expect_on({"layer_1", "relu_1", "layer_2", "logits"}, "/job:worker/replica:0/task:7/device:CPU:0");
}

// Row C4.
TEST(ClusterTest, TenThousandSteps) {
  ProcessCluster cluster(1, 1);
  cluster.start_all();
  CountGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, within(600s)).value_or_throw();
  session->run({counting.initializer});
  for (int step = 0; step < 10'000; ++step) session->run({counting.increment});
  EXPECT_EQ(values(session->run({}, {*counting.count})[0]), std::vector<float>{10'000});
}

TEST(ClusterTest, GrpcAloneGivesTheSameResults) {
  ProcessCluster cluster(1, 2, {"--no-shared-memory"});
  cluster.start_all();
  SeedGraph seed;
  const auto session = connect(cluster.target("worker", 0), seed.graph, within()).value_or_throw();
  session->run({seed.initializer()});
  EXPECT_EQ(values(session->run({}, {seed.second})[0]), (std::vector<float>{7, 7, 7, 7}));
}

// Row C5: one program, three roles by flags. Each task says which it is, and together they compute.
TEST(ClusterTest, OneProgramThreeRoles) {
  ProcessCluster cluster(1, 2);
  std::vector<std::unique_ptr<ChildProcess>> children;
  for (const auto& [job, tasks] : cluster.spec().tasks()) {
    for (const auto& [index, address] : tasks) {
      children.push_back(std::make_unique<ChildProcess>(server_command(cluster.task_flags(job, index)),
                                                        std::vector<std::string>{"TF_CONFIG"}));
      EXPECT_EQ(children.back()->wait_for_line("listening on"),
                str_cat(task_name(job, index), " listening on grpc://", address));
    }
  }
  SeedGraph seed;
  const auto session = connect(cluster.target("worker", 1), seed.graph, within()).value_or_throw();
  session->run({seed.initializer()});
  EXPECT_EQ(values(session->run({}, {seed.second})[0]), (std::vector<float>{7, 7, 7, 7}));
}

// The device of each node that ran in a step. Those that carry a value between tasks are left out.
std::map<std::string, std::string> devices_of(Session& session, const std::vector<TensorName>& fetches,
                                              std::vector<Tensor>& got) {
  RunMetadata metadata;
  RunOptions options;
  options.metadata = &metadata;
  got = session.run({}, fetches, {}, options);
  std::map<std::string, std::string> ran_on;
  for (const auto& node : metadata.step_stats.nodes) {
    if (node.name.find("_S") == node.name.npos) ran_on[node.name] = node.device;
  }
  return ran_on;
}

// Variables of 1, 100, 2, 3 and 50 numbers under a device setter, and their sum, which is 156.
struct SpreadGraph {
  explicit SpreadGraph(const ReplicaDeviceSetterOptions& options) : graph(builtin_ops()) {
    const auto scope = graph.device_scope(replica_device_setter(options));
    std::vector<Output> sums;
    for (const int size : {1, 100, 2, 3, 50}) {
      variables.push_back(variable(graph, ones(graph, DType::kFloat, {size}), str_cat("of_", size)));
      sums.push_back(reduce_sum(variables.back(), {}, str_cat("sum_", size)));
    }
    total = add_n(sums, "total");
  }
  Graph graph;
  std::vector<Var> variables;
  Output total;
};

// Where the variables of a SpreadGraph ran, by the indices of the parameter servers; what computes ran on the worker.
void expect_spread(ReplicaDeviceSetterOptions options, const std::vector<int>& tasks) {
  ProcessCluster cluster(2, 3);
  cluster.start_all();
  options.cluster = cluster.spec();
  options.worker_device = "/job:worker/task:1";
  SpreadGraph spread(options);
  Node* const init = global_variables_initializer(spread.graph);
  const auto session = connect(cluster.target("worker", 0), spread.graph, within()).value_or_throw();
  session->run({init});
  std::vector<Tensor> got;
  std::vector<TensorName> fetches = {spread.total};
  for (const Var& variable : spread.variables) fetches.emplace_back(variable.read());
  const auto ran_on = devices_of(*session, fetches, got);
  EXPECT_EQ(values(got[0]), std::vector<float>{156});
  const int sizes[] = {1, 100, 2, 3, 50};
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const std::string name = str_cat("of_", sizes[i]);
    const std::string device = str_cat("/job:ps/replica:0/task:", tasks[i], "/device:CPU:0");
    EXPECT_EQ(spread.variables[i].handle().node->requested_device(), str_cat("/job:ps/task:", tasks[i])) << name;
    int ran = 0;
    for (const auto& [node, where] : ran_on) {
      if (node != name && !node.starts_with(name + "/")) continue;
      ++ran;
      EXPECT_EQ(where, device) << node;
    }
    EXPECT_GT(ran, 0) << name << " did not run";
  }
  int computed = 0;
  for (const auto& [node, where] : ran_on) {
    if (!node.starts_with("sum_") && node != "total") continue;
    ++computed;
    EXPECT_EQ(where, "/job:worker/replica:0/task:1/device:CPU:0") << node;
  }
  EXPECT_GT(computed, 0);
}

// Row C7: 0, 1, 0, 1, 0.
TEST(ClusterTest, VariablesGoRoundRobin) { expect_spread({}, {0, 1, 0, 1, 0}); }

// Row C8: each to the one that holds least: 1 | 100 | 1+2 | 1+2+3 | 1+2+3+50, all but the large one on the first.
TEST(ClusterTest, VariablesGoWhereLeastIs) {
  ReplicaDeviceSetterOptions options;
  options.ps_strategy = greedy_load_balancing(2);
  expect_spread(options, {0, 1, 0, 0, 0});
}

// Row D1.
TEST(ClusterTest, TfConfigSaysWhichTask) {
  const HeldPorts ports(1);
  const int port = ports[0];
  const std::string cluster = str_cat(R"("cluster": {"worker": ["127.0.0.1:1", "127.0.0.1:)", port, R"("]})");
  ChildProcess good(server_command({}),
                    {str_cat("TF_CONFIG={", cluster, R"(, "task": {"type": "worker", "index": 1}})")});
  EXPECT_EQ(good.wait_for_line("listening on"),
            str_cat("/job:worker/replica:0/task:1 listening on grpc://127.0.0.1:", port));
  ChildProcess bad(server_command({}), {str_cat("TF_CONFIG={", cluster, ", oops")});
  EXPECT_EQ(bad.wait(), 2);
  EXPECT_NE(bad.output().find("TF_CONFIG: not JSON"), std::string::npos) << bad.output();
  EXPECT_EQ(std::count(bad.output().begin(), bad.output().end(), '\n'), 1) << bad.output();
}

TEST(ClusterTest, BadFlagsGetOneLineAndStatusTwo) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{}, "no cluster"},
      {{"--ps_hosts=a"}, "port"},
      {{"--ps_hosts=a:1", "--cluster={}"}, "--cluster"},
      {{"--ps_hosts=a:1", "--worker_hosts=b:1"}, "job"},
      {{"--ps_hosts=a:1", "--job_name=chief"}, "chief"},
      {{"--ps_hosts=a:1,b:1", "--job_name=ps"}, "task index"},
      {{"--ps_hosts=a:1", "--job_name=ps", "--task_index=7"}, "7"},
      {{"--ps_hosts=a:1", "--task_index=x"}, "task_index"},
      {{"--cluster=nonsense"}, "JSON"},
      {{"--no-such-flag"}, "--no-such-flag"},
      {{"--log-level=loud", "--ps_hosts=a:1"}, "loud"},
  };
  for (const auto& [flags, part] : cases) {
    SCOPED_TRACE(str_join(flags, " "));
    ChildProcess child(server_command(flags), {"TF_CONFIG"});
    EXPECT_EQ(child.wait(), 2) << child.output();
    EXPECT_NE(child.output().find(part), std::string::npos) << child.output();
    EXPECT_EQ(std::count(child.output().begin(), child.output().end(), '\n'), 1) << child.output();
  }
}

TEST(ClusterTest, AClientSaysWhomItWaitsFor) {
  const HeldPorts nobody_listens(1);
  const std::string target = str_cat("grpc://127.0.0.1:", nobody_listens[0]);
  std::vector<std::string> lines;
  Mutex mu;
  ConnectOptions options;
  options.create_timeout = 5s;
  options.log = [&](const std::string& line) {
    MutexLock lock(mu);
    lines.push_back(line);
  };
  Graph graph(builtin_ops());
  const Output x = constant(graph, Tensor::scalar(1.0f));
  Status status;
  {
    const auto session = connect(target, graph, options);
    status = session.ok() ? (*session)->try_run({}, {x}).status() : session.status();
  }
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.to_string();
  EXPECT_NE(status.message().find("connection refused"), std::string::npos) << status.message();
  MutexLock lock(mu);
  ASSERT_EQ(lines.size(), 1u) << str_join(lines, "\n");
  EXPECT_NE(lines[0].find(str_cat("still missing: ", target, ": connection refused")), std::string::npos) << lines[0];
}

TEST(ClusterTest, EachLogLevelSaysLess) {
  const std::vector<std::string> levels{"debug", "info", "warning", "error"};
  for (std::size_t level = 0; level < levels.size(); ++level) {
    SCOPED_TRACE(levels[level]);
    ProcessCluster cluster(1, 1, {str_cat("--log-level=", levels[level])});
    cluster.start_all();
    Graph graph(builtin_ops());
    Output x;
    {
      const auto scope = graph.device_scope("/job:ps/task:0");
      x = constant(graph, Tensor::scalar(1.0f));
    }
    const auto session = connect(cluster.target("worker", 0), graph, within()).value_or_throw();
    EXPECT_EQ(session->run({}, {x})[0].scalar<float>(), 1);
    ChildProcess& worker = cluster.child("worker", 0);
    cluster.child("ps", 0).send(SIGKILL);
    // The news may come a moment after the first step that fails.
    const auto limit = std::chrono::steady_clock::now() + 60s;
    for (std::string error; error.find("is gone") == error.npos && std::chrono::steady_clock::now() < limit;) {
      try {
        session->run({}, {x});
      } catch (const Error& failed) {
        error = failed.status().message();
      }
    }
    worker.send(SIGTERM);
    EXPECT_EQ(worker.wait(), 0);
    const auto says = [&](const char* part) { return worker.output().find(part) != std::string::npos; };
    EXPECT_EQ(says("was created"), level <= 0) << worker.output();
    EXPECT_EQ(says("found /job:ps/replica:0/task:0"), level <= 1) << worker.output();
    EXPECT_EQ(says("/job:ps/replica:0/task:0 is gone"), level <= 2) << worker.output();
  }
}

TEST(ClusterTest, HelpExplains) {
  ChildProcess child(server_command({"--help"}));
  EXPECT_EQ(child.wait(), 0);
  for (const char* part : {"--ps_hosts", "--worker_hosts", "--task_index", "TF_CONFIG", "Example", "--insecure"}) {
    EXPECT_NE(child.output().find(part), std::string::npos) << part;
  }
}

TEST(ClusterTest, APortThatIsTakenIsSaid) {
  ProcessCluster cluster(1, 0);
  cluster.start_all();
  ChildProcess second(server_command(cluster.task_flags("ps", 0)), {"TF_CONFIG"});
  EXPECT_EQ(second.wait(), 1);
  EXPECT_NE(second.output().find("could not start gRPC server"), std::string::npos) << second.output();
}

TEST(ClusterTest, OffTheLoopbackSecurityIsWanted) {
  ChildProcess open(server_command({"--cluster", R"({"local": ["0.0.0.0:0"]})"}), {"TF_CONFIG", "TUTTI_JOIN_TOKEN"});
  EXPECT_EQ(open.wait(), 1);
  EXPECT_NE(open.output().find("insecure"), std::string::npos) << open.output();
}

TEST(ClusterTest, ATaskMayStartLast) {
  ProcessCluster cluster(1, 2);
  cluster.start("worker", 0);
  SeedGraph seed;
  std::unique_ptr<Session> session;
  std::thread client([&] {
    session = connect(cluster.target("worker", 0), seed.graph, within()).value_or_throw();
    session->run({seed.initializer()});
  });
  const std::string missing = cluster.child("worker", 0).wait_for_line("still missing: /job:ps/replica:0/task:0");
  EXPECT_NE(missing.find("connect"), std::string::npos) << missing;
  cluster.start("worker", 1);
  cluster.start("ps", 0);
  client.join();
  EXPECT_EQ(values(session->run({}, {seed.second})[0]), (std::vector<float>{7, 7, 7, 7}));
}

TEST(ClusterTest, AMissingTaskEndsAClientThatDoesNotWait) {
  ProcessCluster cluster(1, 1);
  cluster.start("worker", 0);
  Graph graph(builtin_ops());
  ConnectOptions options = within();
  options.wait_for_ready = false;
  const Status status = connect(cluster.target("worker", 0), graph, options).status();
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
  EXPECT_NE(status.message().find("/job:ps/replica:0/task:0"), std::string::npos) << status.to_string();
  cluster.start("ps", 0);
  options.wait_for_ready = true;
  EXPECT_EQ(connect(cluster.target("worker", 0), graph, options).value_or_throw()->list_devices().size(), 2u);
}

TEST(ClusterTest, WhoIsMissingIsSaidOnce) {
  ChildProcess worker(server_command({"--ps_hosts=no-such-host.invalid:1", "--worker_hosts=localhost:0",
                                      "--job_name=worker", "--task_index=0"}),
                      {"TF_CONFIG"});
  const std::string line = worker.wait_for_line("listening on");
  const std::string target = line.substr(line.find("grpc://"));
  const std::string ps = "/job:ps/replica:0/task:0";
  Graph graph(builtin_ops());
  for (int i = 0; i < 2; ++i) {
    ConnectOptions options = within();
    options.create_timeout = 3s;  // longer than it is before it is said
    const Status status = connect(target, graph, options).status();
    EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.to_string();
  }
  worker.send(SIGTERM);
  EXPECT_EQ(worker.wait(), 0);
  std::vector<std::string> said;
  for (const std::string_view one : str_split(worker.output(), '\n')) {
    if (one.find(ps) != one.npos) said.emplace_back(one);
  }
  ASSERT_EQ(said.size(), 1u) << worker.output();
  EXPECT_NE(said[0].find("still missing"), std::string::npos) << said[0];
  EXPECT_NE(said[0].find("name lookup failed"), std::string::npos) << said[0];
}

TEST(ClusterTest, ASessionEndsWithItsKilledClient) {
  ProcessCluster cluster(0, 1, {"--log-level=debug"});
  cluster.start_all();
  ChildProcess& worker = cluster.child("worker", 0);
  ChildProcess client({TUTTI_SESSION_HOLDER, cluster.target("worker", 0)});
  ASSERT_NE(client.wait_for_line("holds a session"), "") << client.output();
  const std::string created = worker.wait_for_line(" was created");
  const std::size_t begin = created.find("session ");
  ASSERT_NE(begin, std::string::npos) << worker.output();
  const std::string session = created.substr(begin, created.find(" was created") - begin);
  client.send(SIGKILL);
  EXPECT_NE(worker.wait_for_line(session + " is closed: the session's client has gone"), "") << worker.output();
}

// Runs steps until one fails; OK when none has for a minute.
Status first_failure(Session& session, Node* target) {
  const auto limit = std::chrono::steady_clock::now() + 60s;
  Status status;
  while (status.ok() && std::chrono::steady_clock::now() < limit) status = session.try_run({}, {}, {target}).status();
  return status;
}

TEST(ClusterTest, AKilledTaskIsNamedAndARestartedOneAborts) {
  ProcessCluster cluster(1, 1);
  cluster.start_all();
  CountGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, within()).value_or_throw();
  session->run({counting.initializer});
  cluster.child("ps", 0).send(SIGKILL);
  const Status lost = first_failure(*session, counting.increment);
  EXPECT_EQ(lost.code(), Code::kUnavailable) << lost.to_string();
  EXPECT_NE(lost.message().find("/job:ps/replica:0/task:0"), std::string::npos) << lost.to_string();
  cluster.start("ps", 0);
  // The old session never repairs; once the restart is known it says so.
  const auto limit = std::chrono::steady_clock::now() + 60s;
  Status restarted;
  do {
    restarted = first_failure(*session, counting.increment);
    ASSERT_TRUE(restarted.code() == Code::kUnavailable || restarted.code() == Code::kAborted) << restarted.to_string();
    ASSERT_LT(std::chrono::steady_clock::now(), limit) << restarted.to_string();
  } while (restarted.code() != Code::kAborted);
  // A new one finds the variable gone, and goes on.
  CountGraph again;
  const auto next = connect(cluster.target("worker", 0), again.graph, within()).value_or_throw();
  EXPECT_EQ(next->try_run({}, {*again.count}).status().code(), Code::kFailedPrecondition);
  next->run({again.initializer});
  next->run({again.increment});
  EXPECT_EQ(values(next->run({}, {*again.count})[0]), std::vector<float>{1});
}

TEST(ClusterTest, AStoppedTaskIsNoticed) {
  ProcessCluster cluster(1, 1);
  cluster.start_all();
  CountGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, within()).value_or_throw();
  session->run({counting.initializer});
  cluster.child("ps", 0).send(SIGSTOP);
  const Status lost = first_failure(*session, counting.increment);
  EXPECT_EQ(lost.code(), Code::kUnavailable) << lost.to_string();
  EXPECT_NE(lost.message().find("/job:ps/replica:0/task:0"), std::string::npos) << lost.to_string();
  cluster.child("ps", 0).send(SIGCONT);
  CountGraph again;
  const auto next = connect(cluster.target("worker", 0), again.graph, within()).value_or_throw();
  next->run({again.increment});
}

TEST(ClusterTest, AMasterThatIsKilledIsNoticedByItsClient) {
  ProcessCluster cluster(1, 1);
  cluster.start_all();
  CountGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, within()).value_or_throw();
  session->run({counting.initializer});
  cluster.child("worker", 0).send(SIGKILL);
  const Status lost = first_failure(*session, counting.increment);
  EXPECT_EQ(lost.code(), Code::kUnavailable) << lost.to_string();
  EXPECT_NE(lost.message().find(cluster.target("worker", 0)), std::string::npos) << lost.to_string();
}

TEST(ClusterTest, ResetClearsTheVariablesAndEndsSessions) {
  ProcessCluster cluster(1, 1);
  cluster.start_all();
  CountGraph counting;
  const auto session = connect(cluster.target("worker", 0), counting.graph, within()).value_or_throw();
  session->run({counting.initializer});
  ASSERT_TRUE(reset(cluster.target("worker", 0), {}, within()).ok());
  EXPECT_EQ(session->try_run({}, {*counting.count}).status().code(), Code::kAborted);
  CountGraph again;
  const auto next = connect(cluster.target("worker", 0), again.graph, within()).value_or_throw();
  EXPECT_EQ(next->try_run({}, {*again.count}).status().code(), Code::kFailedPrecondition);
}

}  // namespace tutti::cluster_test
