#include "tutti/train/tf_cluster.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <set>

#include "tests/support/held_ports.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"

namespace tutti::tf_cluster_test {

bool port_is_open(const std::string& address) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  const bool open = ::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
  close(fd);
  return open;
}

// A user's: quiet, and it remembers what happened.
class NotingCluster : public TFCluster {
 public:
  using TFCluster::TFCluster;
  ~NotingCluster() override { NotingCluster::shutdown(); }

  Server& join_cluster(const std::string& job_type, int task_index) override {
    joined.insert(task_name(job_type, task_index));
    if (refuses == task_name(job_type, task_index)) throw_error(unavailable("not today"));
    return TFCluster::join_cluster(job_type, task_index);
  }
  void shutdown() override {
    ++shutdowns;
    TFCluster::shutdown();
  }

  std::set<std::string> joined;
  std::string refuses;
  int shutdowns = 0;

 protected:
  ServerOptions task_options(const std::string& job, int index) const override {
    ServerOptions options = TFCluster::task_options(job, index);
    options.runtime.intra_op_threads = 1;
    options.log = [](const std::string&) {};
    return options;
  }
};

// A sum whose parts come from every task.
float sum_over_tasks(const TFCluster& cluster) {
  Graph graph(builtin_ops());
  Output sum = constant(graph, Tensor::scalar<float>(0));
  for (const auto& [task, address] : task_addresses(cluster.cluster())) {
    const auto scope = graph.device_scope(task);
    sum = sum + identity(constant(graph, Tensor::scalar<float>(1)));
  }
  const auto session = connect(cluster.target(), graph).value_or_throw();
  return session->run({}, {sum})[0].scalar<float>();
}

Code code_of(const std::function<void()>& body) {
  try {
    body();
    return Code::kOk;
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(TFCluster, ASubclassComesUpAndGoesDown) {
  NotingCluster cluster({.num_workers = 2, .num_ps = 1});
  EXPECT_EQ(code_of([&] { cluster.target(); }), Code::kFailedPrecondition);
  std::set<std::string> targets;
  for (int round = 1; round <= 2; ++round) {
    cluster.start_cluster();
    EXPECT_EQ(cluster.joined, (std::set<std::string>{"/job:ps/replica:0/task:0", "/job:worker/replica:0/task:0",
                                                     "/job:worker/replica:0/task:1"}));
    EXPECT_EQ(sum_over_tasks(cluster), 3);
    EXPECT_EQ(code_of([&] { cluster.start_cluster(); }), Code::kFailedPrecondition);
    const auto addresses = task_addresses(cluster.cluster());
    for (const auto& [task, address] : addresses) EXPECT_TRUE(port_is_open(address)) << task;
    cluster.shutdown();
    for (const auto& [task, address] : addresses) EXPECT_FALSE(port_is_open(address)) << task;
    EXPECT_EQ(cluster.shutdowns, round);
  }
}

TEST(TFCluster, TasksMayJoinOneByOne) {
  NotingCluster cluster({.num_workers = 1, .num_ps = 1});
  Server& worker = cluster.start_server("worker", 0);
  EXPECT_EQ(worker.task(), "/job:worker/replica:0/task:0");
  EXPECT_EQ(code_of([&] { cluster.join_cluster("worker", 0); }), Code::kAlreadyExists);
  EXPECT_EQ(code_of([&] { cluster.join_cluster("worker", 1); }), Code::kInvalidArgument);
  cluster.join_cluster("ps", 0);
  EXPECT_EQ(sum_over_tasks(cluster), 2);
}

TEST(TFCluster, AFailedStartLeavesNothing) {
  NotingCluster cluster({.num_workers = 2, .num_ps = 1});
  cluster.refuses = "/job:worker/replica:0/task:1";
  EXPECT_EQ(code_of([&] { cluster.start_cluster(); }), Code::kUnavailable);
  EXPECT_EQ(cluster.shutdowns, 1);
  EXPECT_EQ(code_of([&] { cluster.target("ps", 0); }), Code::kFailedPrecondition);
  cluster.refuses.clear();
  cluster.start_cluster();
  EXPECT_EQ(sum_over_tasks(cluster), 3);
}

TEST(TFCluster, TasksOfOtherProcessesAreJoinedByAddress) {
  const HeldPorts ports(2);
  ClusterSpec spec;
  spec.set("ps", 0, str_cat("127.0.0.1:", ports[0]));
  spec.set("worker", 0, str_cat("127.0.0.1:", ports[1]));
  NotingCluster here({.cluster = spec});
  NotingCluster there({.cluster = spec});
  here.join_cluster("worker", 0);
  there.join_cluster("ps", 0);
  EXPECT_EQ(here.target("ps", 0), str_cat("grpc://127.0.0.1:", ports[0]));
  EXPECT_EQ(sum_over_tasks(here), 2);
}

TEST(TFCluster, WhoIsTheChief) {
  const NotingCluster plain({.num_workers = 2, .num_ps = 1});
  EXPECT_TRUE(plain.is_chief("worker", 0));
  EXPECT_FALSE(plain.is_chief("worker", 1));
  EXPECT_FALSE(plain.is_chief("ps", 0));
  const NotingCluster with_chief({.cluster = ClusterSpec({{"chief", {"a:1"}}, {"worker", {"b:1"}}})});
  EXPECT_TRUE(with_chief.is_chief("chief", 0));
  EXPECT_FALSE(with_chief.is_chief("worker", 0));
}

TEST(TFCluster, CountsAreChecked) {
  for (const std::pair<int, int>& wrong : {std::pair{0, 0}, {-1, 1}, {1, 100'000}}) {
    EXPECT_EQ(code_of([&] { NotingCluster({.num_workers = wrong.first, .num_ps = wrong.second}); }),
              Code::kInvalidArgument);
  }
}

}  // namespace tutti::tf_cluster_test
