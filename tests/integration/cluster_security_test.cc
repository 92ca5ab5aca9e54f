// Clusters of processes with certificates (`tutti certs`) and a join token, and those who lack them.
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <future>

#include "tests/distributed/rpc/expired_certificate.h"
#include "tests/distributed/rpc/raw_connection.h"
#include "tests/distributed/rpc/temporary_directory.h"
#include "tests/integration/process_cluster.h"
#include "tutti/core/strings.h"
#include "tutti/distributed/hello.h"
#include "tutti/distributed/rpc/grpc_transport.h"
#include "tutti/ops/array.h"
#include "tutti/ops/math.h"
#include "tutti/ops/op_table.h"
#include "tutti/ops/state.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti::cluster_security_test {

using namespace std::chrono_literals;

constexpr const char* kToken = "a secret of this cluster, 16 bytes or more";

struct Answer {
  Status status;
  Payload payload;
};

class ClusterSecurityTest : public ::testing::Test {
 protected:
  ClusterSecurityTest() : cluster_(1, 1, {"--ca=" + file("ca.pem"), "--join-token-file=" + file("token")}) {
    make_certificates(directory_.path());
    std::ofstream(file("token")) << kToken << "\n";
  }

  // One authority, and certificates for the tasks and a client.
  static void make_certificates(const std::string& directory) {
    const std::string spec = R"({"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"], "client": ["127.0.0.1:3"]})";
    ChildProcess certs(tutti_command("certs", {"--cluster=" + spec, "--out=" + directory}));
    EXPECT_EQ(certs.wait(), 0) << certs.output();
  }
  std::string file(const std::string& name) const { return directory_.path() + "/" + name; }
  void start(const std::string& job, const std::string& certificate) {
    cluster_.start(job, 0, {"--cert=" + file(certificate + ".pem"), "--key=" + file(certificate + ".key")});
  }
  void start_all() {
    start("ps", "ps-0");
    start("worker", "worker-0");
  }
  ConnectOptions member() const {
    ConnectOptions options = within();
    options.security = {.ca_file = file("ca.pem"),
                        .certificate_file = file("client-0.pem"),
                        .key_file = file("client-0.key"),
                        .join_token = kToken};
    return options;
  }

  // A step that needs both tasks.
  Status run_step(const ConnectOptions& options) {
    Graph graph(builtin_ops());
    Output three;
    {
      const auto scope = graph.device_scope("/job:ps/task:0");
      three = ones(graph, DType::kFloat, {}) + fill({}, constant(graph, Tensor::scalar(2.0f)));
    }
    const auto scope = graph.device_scope("/job:worker/task:0");
    const Output nine = mul(three, three);
    auto session = connect(cluster_.target("worker", 0), graph, options);
    if (!session.ok()) return session.status();
    auto got = (*session)->try_run({}, {nine});
    if (!got.ok()) return got.status();
    EXPECT_EQ((*got)[0].scalar<float>(), 9);
    return (*session)->close();
  }
  // The client is refused as often as it tries, and members are served.
  void expect_refused(ConnectOptions options, const std::string& reason, int times) {
    options.wait_for_ready = false;
    options.operation_timeout = 60s;
    for (int i = 0; i < times; ++i) {
      const Status status = run_step(options);
      EXPECT_FALSE(status.ok());
      EXPECT_NE(status.message().find(reason), std::string::npos) << status.to_string();
    }
    const Status status = run_step(member());
    EXPECT_TRUE(status.ok()) << status.to_string();
  }
  // What the worker said about those whom it refused.
  int refusals_said(const std::string& words) {
    cluster_.child("worker", 0).send(SIGTERM);
    EXPECT_EQ(cluster_.child("worker", 0).wait(), 0);
    const std::string& output = cluster_.child("worker", 0).output();
    int count = 0;
    for (auto at = output.find(words); at != output.npos; at = output.find(words, at + 1)) ++count;
    return count;
  }

  test::TemporaryDirectory directory_;
  ProcessCluster cluster_;
};

TEST_F(ClusterSecurityTest, MembersWorkTogether) {
  start_all();
  const Status status = run_step(member());
  EXPECT_TRUE(status.ok()) << status.to_string();
  ConnectOptions no_shared_memory = member();
  no_shared_memory.shared_memory = false;
  EXPECT_TRUE(run_step(no_shared_memory).ok());
}

TEST_F(ClusterSecurityTest, NoToken) {
  start_all();
  ConnectOptions options = member();
  options.security.join_token.clear();
  expect_refused(options, "join token", 3);
  EXPECT_EQ(refusals_said("refused calls from"), 1) << "once for each host";
}

TEST_F(ClusterSecurityTest, AWrongToken) {
  start_all();
  ConnectOptions options = member();
  options.security.join_token = "another secret, of the same kind";
  expect_refused(options, "join token", 3);
  EXPECT_EQ(refusals_said("refused calls from"), 1) << "once for each host";
}

TEST_F(ClusterSecurityTest, AnotherAuthority) {
  start_all();
  const test::TemporaryDirectory other;
  make_certificates(other.path());
  ConnectOptions options = member();
  options.security.ca_file = other.path() + "/ca.pem";
  expect_refused(options, "grpc://127.0.0.1:", 1);
  options = member();
  options.security.certificate_file = other.path() + "/client-0.pem";
  options.security.key_file = other.path() + "/client-0.key";
  expect_refused(options, "grpc://127.0.0.1:", 1);
  EXPECT_EQ(refusals_said("andshake failed"), 1);
}

TEST_F(ClusterSecurityTest, NoCertificate) {
  start_all();
  ConnectOptions options = within();
  options.security.join_token = kToken;
  expect_refused(options, "grpc://127.0.0.1:", 1);
  EXPECT_EQ(refusals_said("andshake failed"), 1);
}

// Signed by the cluster's authority, with the right token: nothing but its time is wrong.
TEST_F(ClusterSecurityTest, AnExpiredCertificate) {
  start_all();
  ConnectOptions options = member();
  ASSERT_TRUE(test::write_expired_certificate(file("client-0.pem"), file("ca.key"), file("late.pem")));
  options.security.certificate_file = file("late.pem");
  expect_refused(options, "grpc://127.0.0.1:", 3);
  EXPECT_EQ(refusals_said("andshake failed"), 1);
}

Answer call(Channel& channel, std::string_view method, const Payload& request) {
  std::promise<Answer> ended;
  CallOptions options;
  options.deadline = std::chrono::steady_clock::now() + 60s;
  channel.call(method, request, options, [&](Status status, Payload payload) {
    ended.set_value({std::move(status), std::move(payload)});
  });
  return ended.get_future().get();
}

// Greets in the two turns that a token takes. `second`: what was sent in the last.
Result<HelloReply> greet(Channel& channel, HelloRequest& second) {
  HelloRequest first;
  first.nonce = random_nonce();
  HelloReply reply;
  Answer answer = call(channel, kHelloMethod, encode(first));
  TUTTI_RETURN_IF_ERROR(answer.status);
  TUTTI_RETURN_IF_ERROR(decode(answer.payload, reply));
  TUTTI_ASSIGN_OR_RETURN(second, answer_challenge(first, reply, kToken));
  answer = call(channel, kHelloMethod, encode(second));
  TUTTI_RETURN_IF_ERROR(answer.status);
  TUTTI_RETURN_IF_ERROR(decode(answer.payload, reply));
  return reply;
}

// A task with a certificate, and with it the token, that would like to be another.
TEST_F(ClusterSecurityTest, OverSharedMemoryATaskIsWhoItsCertificateNames) {
  start_all();
  const std::string client_task = "/job:client/replica:0/task:0";
  const std::string ps_task = "/job:ps/replica:0/task:0";
  GrpcClient client({.security = member().security});
  const auto plain = client.channel(str_cat("127.0.0.1:", cluster_.port("worker", 0)));
  HelloRequest second;
  const Result<HelloReply> reply = greet(*plain, second);
  ASSERT_TRUE(reply.ok()) << reply.status().to_string();
  EXPECT_EQ(reply->your_task, client_task);

  const auto clock = make_system_clock();
  ShmOptions options;
  options.task = ps_task;
  options.secret = kToken;
  options.clock = clock.get();
  const auto shm = ShmTransport::create(options, nullptr).value_or_throw();
  const auto connect_as = [&](const ShmTicket& ticket) { return shm->connect(reply->shm_name, nullptr, ticket); };
  EXPECT_EQ(connect_as({}).status().code(), Code::kUnauthenticated) << "the token alone";
  EXPECT_EQ(connect_as({.task = ps_task, .ticket = reply->shm_ticket}).status().code(), Code::kUnauthenticated);
  const auto fast = connect_as({.task = client_task, .ticket = reply->shm_ticket});
  ASSERT_TRUE(fast.ok()) << fast.status().to_string();
  EXPECT_TRUE(call(**fast, kLeaseMethod, encode(LeaseRequest{.task = client_task, .incarnation = 1})).status.ok());
  const Status other = call(**fast, kLeaseMethod, encode(LeaseRequest{.task = ps_task, .incarnation = 1})).status;
  EXPECT_EQ(other.code(), Code::kUnauthenticated) << other.to_string();
  EXPECT_TRUE(run_step(member()).ok());
}

TEST_F(ClusterSecurityTest, AHelloIsGoodOnce) {
  start_all();
  GrpcClient client({.security = member().security});
  const auto channel = client.channel(str_cat("127.0.0.1:", cluster_.port("worker", 0)));
  HelloRequest second;
  ASSERT_TRUE(greet(*channel, second).ok());
  for (int i = 0; i < 3; ++i) {
    const Answer again = call(*channel, kHelloMethod, encode(second));
    EXPECT_EQ(again.status.code(), Code::kUnauthenticated) << again.status.to_string();
    EXPECT_NE(again.status.message().find("answered before"), std::string::npos) << again.status.to_string();
  }
  EXPECT_EQ(refusals_said("refused ipv4:127.0.0.1:"), 1) << "once for each peer";
}

// In plaintext, with a token: everything that a client has sent, sent again by who listened.
TEST(ClusterReplayTest, WhatWasHeardIsOfNoUse) {
  const test::TemporaryDirectory directory;
  std::ofstream(directory.path() + "/token") << kToken << "\n";
  ProcessCluster cluster(0, 1, {"--join-token-file=" + directory.path() + "/token", "--log-level=debug"});
  cluster.start_all();
  std::string recorded;
  {
    test::RecordingProxy proxy(cluster.port("worker", 0));
    ConnectOptions options = within();
    options.shared_memory = false;
    options.security.join_token = kToken;
    Graph graph(builtin_ops());
    const Output two = ones(graph, DType::kFloat, {}) + ones(graph, DType::kFloat, {});
    const auto session = connect(str_cat("grpc://127.0.0.1:", proxy.port()), graph, options).value_or_throw();
    EXPECT_TRUE(session->try_run({}, {two}).ok());
    EXPECT_TRUE(session->close().ok());
    recorded = proxy.longest_sent();
  }
  EXPECT_EQ(recorded.find(kToken), std::string::npos);
  test::RawConnection replay(cluster.port("worker", 0));
  ASSERT_TRUE(replay.send(recorded));
  ChildProcess& worker = cluster.child("worker", 0);
  const std::string line = worker.wait_for_line("refused calls from ipv4:127.0.0.1:");
  EXPECT_NE(line.find("join token: the proof was used before"), std::string::npos) << line;
  worker.send(SIGTERM);
  EXPECT_EQ(worker.wait(), 0);
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (auto at = worker.output().find(words); at != std::string::npos; at = worker.output().find(words, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("refused"), 1) << worker.output();
  EXPECT_EQ(count("was created"), 1) << "no work is done twice: " << worker.output();
}

TEST_F(ClusterSecurityTest, ATaskWithTheCertificateOfAnother) {
  start("ps", "client-0");
  start("worker", "worker-0");
  ConnectOptions options = member();
  options.operation_timeout = 1s;
  const Status status = run_step(options);
  EXPECT_EQ(status.code(), Code::kDeadlineExceeded) << status.to_string();
  std::string line;
  do {
    line = cluster_.child("worker", 0).wait_for_line("still missing: /job:ps/replica:0/task:0");
  } while (!line.empty() && line.find("handshake failed") == line.npos);
  EXPECT_NE(line.find("handshake failed"), std::string::npos) << cluster_.child("worker", 0).output();
}

TEST_F(ClusterSecurityTest, OpenToTheNetworkOnlyWithSecurity) {
  ChildProcess open(server_command({"--cluster", R"({"local": ["0.0.0.0:0"]})"}), {"TF_CONFIG", "TUTTI_JOIN_TOKEN"});
  EXPECT_EQ(open.wait(), 1);
  for (const char* part : {"0.0.0.0:0", "certificate", "insecure"}) {
    EXPECT_NE(open.output().find(part), std::string::npos) << open.output();
  }
  ChildProcess closed(
      server_command({"--cluster", R"({"ps": ["0.0.0.0:0"]})", "--ca=" + file("ca.pem"), "--cert=" + file("ps-0.pem"),
                      "--key=" + file("ps-0.key"), "--join-token-file=" + file("token")}),
      {"TF_CONFIG"});
  EXPECT_NE(closed.wait_for_line("listening on"), "") << closed.output();
}

}  // namespace tutti::cluster_security_test
