#include "tutti/distributed/server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/core/temp_directory.h"
#include "tests/support/held_ports.h"
#include "tutti/core/cancellation.h"
#include "tutti/ops/array.h"
#include "tutti/ops/builders.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"

namespace tutti::server_test {

using namespace std::chrono_literals;
using Hosts = std::map<std::string, std::vector<std::string>>;

ServerOptions local(const std::string& address = "localhost:0") {
  ServerOptions options;
  options.cluster = ClusterSpec(Hosts{{"local", {address}}});
  options.log = [](const std::string&) {};
  options.runtime.intra_op_threads = 1;
  options.runtime.inter_op_threads = 1;
  return options;
}

ConnectOptions within(std::chrono::seconds limit = 60s) {
  ConnectOptions options;
  options.operation_timeout = limit;
  return options;
}

TEST(ServerTest, TheOnlyTaskNeedsNoName) {
  const auto server = Server::start(local()).value_or_throw();
  EXPECT_EQ(server->task(), "/job:local/replica:0/task:0");
  EXPECT_TRUE(server->target().starts_with("grpc://localhost:"));
  EXPECT_FALSE(server->target().ends_with(":0"));
}

TEST(ServerTest, OtherwiseJobAndTaskMustBeNamed) {
  ServerOptions options = local();
  options.cluster = ClusterSpec(Hosts{{"ps", {"localhost:0"}}, {"worker", {"localhost:0", "localhost:0"}}});
  const auto expect_refused = [&](const std::string& job, int task, const std::string& part) {
    options.job = job;
    options.task = task;
    const Status status = Server::start(options).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  expect_refused("", -1, "ps, worker");
  expect_refused("worker", -1, "2 tasks");
  expect_refused("worker", 2, "index 2");
  expect_refused("chief", 0, "chief");
  options.job = "ps";
  options.task = -1;
  EXPECT_EQ(Server::start(options).value_or_throw()->task(), "/job:ps/replica:0/task:0");
}

TEST(ServerTest, AddressesMustHaveAPort) {
  for (const char* address : {"localhost", "localhost:", "localhost:port", "local host:1"}) {
    const Status status = Server::start(local(address)).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << address;
    EXPECT_NE(status.message().find("port"), std::string::npos) << status.message();
  }
  ServerOptions options = local();
  options.cluster.set("other", 3, "nowhere");
  options.job = "local";
  const Status status = Server::start(options).status();
  EXPECT_NE(status.message().find("/job:other/replica:0/task:3"), std::string::npos) << status.message();
}

TEST(ServerTest, ATakenPortIsSaid) {
  const auto first = Server::start(local("127.0.0.1:0")).value_or_throw();
  const Status status = Server::start(local(first->target().substr(7))).status();
  EXPECT_EQ(status.code(), Code::kUnknown);
  EXPECT_NE(status.message().find("could not start gRPC server"), std::string::npos) << status.message();
}

TEST(ServerTest, OffTheLoopbackItWantsSecurity) {
  EXPECT_EQ(Server::start(local("0.0.0.0:0")).status().code(), Code::kFailedPrecondition);
  ServerOptions options = local("0.0.0.0:0");
  options.security.insecure = true;
  EXPECT_TRUE(Server::start(options).ok());
}

TEST(ServerTest, JoinReturnsAfterStop) {
  const auto server = Server::start(local()).value_or_throw();
  std::thread joiner([&] { server->join(); });
  server->stop();
  joiner.join();
  server->stop();
}

TEST(ServerTest, ASessionRunsOverGrpcAndSharedMemory) {
  const auto server = Server::start(local()).value_or_throw();
  for (const bool shared_memory : {true, false}) {
    Graph graph(builtin_ops());
    const Output sum = constant(graph, Tensor::of<float>({}, {40})) + 2.0;
    ConnectOptions options = within();
    options.shared_memory = shared_memory;
    const auto session = connect(server->target(), graph, options).value_or_throw();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(session->run({}, {sum})[0].scalar<float>(), 42);
  }
}

TEST(ServerTest, TargetsOfAnotherKindAreNotFound) {
  Graph graph(builtin_ops());
  EXPECT_EQ(connect("nowhere", graph, within()).status().code(), Code::kNotFound);
  EXPECT_EQ(reset("nowhere", {}, within()).code(), Code::kNotFound);
  const Status no_port = connect("grpc://localhost", graph, within()).status();
  EXPECT_EQ(no_port.code(), Code::kInvalidArgument);
  EXPECT_NE(no_port.message().find("port"), std::string::npos);
}

TEST(ServerTest, AnUnreachableMaster) {
  const HeldPorts ports(1);
  const std::string target = str_cat("grpc://127.0.0.1:", ports[0]);
  ConnectOptions options;
  options.operation_timeout = 100ms;
  EXPECT_EQ(reset(target, {}, options).code(), Code::kDeadlineExceeded);
  options.wait_for_ready = false;
  options.operation_timeout = 60s;
  const Status status = reset(target, {}, options);
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find(target), std::string::npos) << status.message();
}

TEST(ServerTest, ACancellationEndsTheWaitForTheMaster) {
  const HeldPorts ports(1);
  Graph graph(builtin_ops());
  Cancellation cancellation;
  ConnectOptions options = within();
  options.cancellation = &cancellation;
  std::thread other([&] { cancellation.cancel(cancelled("the user went home")); });
  const Status status = connect(str_cat("grpc://127.0.0.1:", ports[0]), graph, options).status();
  other.join();
  EXPECT_EQ(status, cancelled("the user went home")) << status.to_string();
}

TEST(ServerTest, AStoppingServerTellsItsClients) {
  const auto server = Server::start(local()).value_or_throw();
  Graph graph(builtin_ops());
  const Output one = constant(graph, Tensor::of<float>({}, {1}));
  const auto session = connect(server->target(), graph, within()).value_or_throw();
  session->run({}, {one});
  server->stop();
  EXPECT_EQ(session->try_run({}, {one}).status().code(), Code::kUnavailable);
}

// The variables of a session whose client has gone stay; the session does not.
TEST(ServerTest, ManySessionsComeAndGo) {
  const auto server = Server::start(local()).value_or_throw();
  for (int i = 0; i < 20; ++i) {
    Graph graph(builtin_ops());
    const Var v = variable(graph, zeros(graph, DType::kFloat, {}), "v");
    Node* const init = global_variables_initializer(graph);
    const auto session = connect(server->target(), graph, within()).value_or_throw();
    if (i == 0) session->run({init});
    EXPECT_EQ(session->run({}, {v})[0].scalar<float>(), 0);
  }
}

// Files that hang when they are opened until the test ends, as a network disk does.
TEST(ServerTest, StopsThoughAFileHangs) {
  std::promise<void> opened, open;
  const std::shared_future<void> may_open = open.get_future().share();
  std::atomic<int> hanging{0};
  FaultyFileSystem files(local_file_system(), [&](FileOp, const std::string&) {
    if (++hanging == 1) opened.set_value();
    may_open.wait();
    return Status();
  });
  const auto alive = std::make_shared<int>();
  ServerOptions options = local();
  options.runtime.files = &files;
  options.log = [alive](const std::string&) {};
  std::unique_ptr<Server> server = Server::start(options).value_or_throw();
  options.log = nullptr;
  Graph graph(builtin_ops());
  const Output read = op1("ReadFile", {constant(graph, Tensor::scalar(std::string("x")))});
  auto session = server->connect(graph, within()).value_or_throw();
  std::future<Status> step = std::async(std::launch::async, [&] { return session->try_run({}, {read}).status(); });
  opened.get_future().wait();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_FALSE(server->stop());
  server.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s);
  open.set_value();
  EXPECT_FALSE(step.get().ok());
  session.reset();
  // What was abandoned ends by itself.
  while (alive.use_count() > 1) std::this_thread::sleep_for(1ms);
}

class DataDirectoryServerTest : public ::testing::Test {
 protected:
  // Reads a file on the server.
  Status read_on(const ServerOptions& options, const std::string& path) {
    const auto server = Server::start(options).value_or_throw();
    Graph graph(builtin_ops());
    const Output name = constant(graph, Tensor::of<std::string>({}, {path}));
    const Output contents =
        graph.add_node({.op = "ReadFile", .name = "read", .inputs = {name}}).value_or_throw()->output(0);
    const std::string target = str_cat("grpc://127.0.0.1", server->target().substr(server->target().rfind(':')));
    const auto session = connect(target, graph, within()).value_or_throw();
    return session->try_run({}, {contents}).status();
  }
  TempDirectory directory_;
};

TEST_F(DataDirectoryServerTest, FilesOutsideAreDenied) {
  std::filesystem::create_directory(directory_.file("data"));
  for (const char* name : {"data/in", "out"}) {
    throw_if_error(write_file(local_file_system(), directory_.file(name), "x"));
  }
  ServerOptions options = local("127.0.0.1:0");
  EXPECT_TRUE(read_on(options, directory_.file("out")).ok()) << "on the loopback anything may be read";
  options.data_directories = {directory_.file("data")};
  EXPECT_TRUE(read_on(options, directory_.file("data/in")).ok());
  const Status denied = read_on(options, directory_.file("out"));
  EXPECT_EQ(denied.code(), Code::kPermissionDenied) << denied.to_string();
  EXPECT_NE(denied.message().find("/data"), std::string::npos) << denied.message();
  ServerOptions open = local("0.0.0.0:0");
  open.security.insecure = true;
  EXPECT_EQ(read_on(open, directory_.file("out")).code(), Code::kPermissionDenied);
}

}  // namespace tutti::server_test
