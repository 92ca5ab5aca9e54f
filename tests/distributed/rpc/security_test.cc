// Who is let in, and who is not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "expired_certificate.h"
#include "raw_connection.h"
#include "rpc_fixture.h"
#include "temporary_directory.h"
#include "tests/support/held_ports.h"
#include "tutti/distributed/rpc/certificates.h"
#include "tutti/distributed/rpc/internal/call_token.h"

namespace tutti::test::security_test {

constexpr char kPs[] = "/job:ps/replica:0/task:0";
constexpr char kWorker[] = "/job:worker/replica:0/task:1";

// A server that counts what reaches its handler and keeps what it logs.
class SecurityTest : public ::testing::Test {
 protected:
  std::unique_ptr<GrpcServer> serve(const SecurityOptions& security) {
    GrpcServerOptions options = local_options();
    options.security = security;
    options.log = [this](const std::string& line) {
      MutexLock lock(mu_);
      log_.push_back(line);
    };
    return start_server(handler_, options);
  }
  Answer call_as(const GrpcServer& server, const SecurityOptions& security, const std::string& task = {}) {
    GrpcClient client({.security = security});
    auto channel = client.channel(address_of(server), task);
    return call(*channel, Payload("x"));
  }
  void expect_refused(const Answer& answer, Code code, const std::string& part) {
    EXPECT_EQ(answer.status.code(), code) << answer.status.to_string();
    EXPECT_NE(answer.status.message().find(part), std::string::npos) << answer.status.to_string();
    EXPECT_EQ(handled_.load(), 0) << "no work is done for strangers";
  }
  std::vector<std::string> log() {
    MutexLock lock(mu_);
    return log_;
  }

  std::atomic<int> handled_{0};
  std::string peer_task_;  // of the last call
  FunctionHandler handler_{[this](const IncomingCall& call, const CallHandler::Reply& reply) {
    ++handled_;
    peer_task_ = call.peer_task;
    reply({}, call.request);
  }};
  Mutex mu_;
  std::vector<std::string> log_ TUTTI_GUARDED_BY(mu_);
};

SecurityOptions with_token(std::string token) {
  SecurityOptions security;
  security.join_token = std::move(token);
  return security;
}

using Token = SecurityTest;

TEST_F(Token, TheRightOneIsLetIn) {
  auto server = serve(with_token("a secret \xff\n"));
  GrpcClient client({.security = with_token("a secret \xff\n")});
  auto channel = client.channel(address_of(*server));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(call(*channel, Payload("x")).payload.flatten(), "x");
  EXPECT_EQ(handled_.load(), 10);
  EXPECT_TRUE(log().empty()) << "asking for the challenge is no refusal: " << log().front();
}

TEST_F(Token, ManyFirstCallsAtATime) {
  auto server = serve(with_token("secret"));
  GrpcClient client({.security = with_token("secret")});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 300; ++i) answers.push_back(begin_call(*channel, Payload("x")));
  for (PendingAnswer& answer : answers) {
    const Answer got = answer.wait();
    EXPECT_TRUE(got.status.ok()) << got.status.to_string();
  }
  EXPECT_EQ(handled_.load(), 300) << "each once";
}

TEST_F(Token, NoneOrAWrongOneIsRefusedAndLoggedOnce) {
  auto server = serve(with_token("secret"));
  for (int i = 0; i < 3; ++i) {
    expect_refused(call_as(*server, {}), Code::kUnauthenticated, "join token: the call has none");
    expect_refused(call_as(*server, with_token("Secret")), Code::kUnauthenticated, "it is not this cluster's");
  }
  ASSERT_EQ(log().size(), 1u);
  EXPECT_NE(log()[0].find("refused calls from ipv4:127.0.0.1:"), std::string::npos) << log()[0];
}

TEST_F(Token, FollowsAServerThatWasRestarted) {
  const HeldPorts ports(1);
  GrpcServerOptions options = local_options(ports[0]);
  options.security = with_token("secret");
  auto server = start_server(handler_, options);
  GrpcClient client({.security = with_token("secret")});
  auto channel = client.channel(address_of(*server));
  ASSERT_TRUE(call(*channel, Payload("x")).status.ok());
  server.reset();
  server = start_server(handler_, options);
  const Answer answer = call(*channel, Payload("x"), {.wait_for_ready = true});
  EXPECT_TRUE(answer.status.ok()) << answer.status.to_string();
}

TEST_F(Token, IsNoHarmToAServerWithout) {
  auto server = serve({});
  EXPECT_TRUE(call_as(*server, with_token("secret")).status.ok());
}

// Everything that a client has sent, sent again by who listened.
TEST_F(Token, AReplayedConnectionIsRefused) {
  auto server = serve(with_token("secret"));
  std::string recorded;
  {
    RecordingProxy proxy(server->port());
    GrpcClient client({.security = with_token("secret")});
    auto channel = client.channel(str_cat("127.0.0.1:", proxy.port()));
    ASSERT_TRUE(call(*channel, Payload("x")).status.ok());
    recorded = proxy.longest_sent();
  }
  ASSERT_EQ(handled_.load(), 1);
  EXPECT_EQ(recorded.find("secret"), std::string::npos);
  RawConnection replay(server->port());
  ASSERT_TRUE(replay.send(recorded));
  // The refusal of the second call, the one with the proof, is what the server logs.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (log().empty() && std::chrono::steady_clock::now() < deadline) replay.receive(100'000, 10);
  ASSERT_EQ(log().size(), 1u);
  EXPECT_NE(log()[0].find("the proof was used before"), std::string::npos) << log()[0];
  EXPECT_EQ(handled_.load(), 1);
}

TEST(TokenVerifier, SeesEachProofOnce) {
  using namespace rpc_internal;  // NOLINT
  TokenVerifier verifier("secret", false);
  TokenSigner signer("secret", false);
  const auto hello = verifier.check("/s/M", signer.sign("/s/M"));
  EXPECT_EQ(hello.status.code(), Code::kUnauthenticated);
  EXPECT_TRUE(hello.greeting);
  signer.set_challenge(hello.challenge);
  std::vector<std::string> proofs;
  for (int i = 0; i < 3000; ++i) proofs.push_back(signer.sign("/s/M"));
  // In blocks that arrive backwards, as far as the window allows.
  for (int block = 0; block < 3000; block += 1000) {
    for (int i = 999; i >= 0; --i) {
      ASSERT_TRUE(verifier.check("/s/M", proofs[block + i]).status.ok()) << block << " " << i;
    }
  }
  for (const std::string& proof : proofs) ASSERT_FALSE(verifier.check("/s/M", proof).status.ok());
  EXPECT_FALSE(verifier.check("/s/Other", signer.sign("/s/M")).status.ok()) << "for another method";
  TokenVerifier other("secret", false);
  const auto elsewhere = other.check("/s/M", signer.sign("/s/M"));
  EXPECT_FALSE(elsewhere.status.ok()) << "for another server";
  EXPECT_FALSE(elsewhere.challenge.empty());
}

TEST(TokenVerifier, MalformedProofs) {
  using namespace rpc_internal;  // NOLINT
  TokenVerifier verifier("secret", false);
  TokenSigner signer("secret", false);
  signer.set_challenge("no challenge");
  EXPECT_EQ(signer.sign("/s/M"), "hello") << "what is no challenge is not taken for one";
  signer.set_challenge(verifier.check("/s/M", "").challenge);
  const std::string good = signer.sign("/s/M");
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = bad[i] == '0' ? '1' : '0';
    EXPECT_FALSE(verifier.check("/s/M", bad).status.ok()) << bad;
    EXPECT_FALSE(verifier.check("/s/M", good.substr(0, i)).status.ok());
  }
  for (const std::string& bad : {std::string("mac"), std::string("plain 00"), std::string(100'000, ' '),
                                 std::string("mac a b c d"), good + "0"}) {
    EXPECT_FALSE(verifier.check("/s/M", bad).status.ok());
  }
  EXPECT_TRUE(verifier.check("/s/M", good).status.ok());
}

// Certificates of two clusters, and of one whose time is over.
class Tls : public SecurityTest {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TemporaryDirectory>();
    const std::vector<std::string> tasks{kPs, kWorker};
    ASSERT_TRUE(make_cluster_certificates(directory_->path() + "/good", tasks, {"127.0.0.1"}, 1).ok());
    ASSERT_TRUE(make_cluster_certificates(directory_->path() + "/other", tasks, {"127.0.0.1"}, 1).ok());
    const std::time_t then = std::time(nullptr) - 86400 * 10;
    ASSERT_TRUE(make_cluster_certificates(directory_->path() + "/expired", tasks, {"127.0.0.1"}, 2, then).ok());
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static SecurityOptions files(const std::string& cluster, const std::string& name, std::string token = {}) {
    const std::string base = directory_->path() + "/" + cluster + "/";
    SecurityOptions security;
    security.ca_file = base + "ca.pem";
    security.certificate_file = base + name + ".pem";
    security.key_file = base + name + ".key";
    security.join_token = std::move(token);
    return security;
  }

  static std::unique_ptr<TemporaryDirectory> directory_;
};
std::unique_ptr<TemporaryDirectory> Tls::directory_;

TEST_F(Tls, PeersProveTheirTasks) {
  auto server = serve(files("good", "ps-0"));
  const Answer answer = call_as(*server, files("good", "worker-1"), kPs);
  EXPECT_EQ(answer.payload.flatten(), "x") << answer.status.to_string();
  EXPECT_EQ(peer_task_, kWorker);
  EXPECT_TRUE(call_as(*server, files("good", "worker-1")).status.ok()) << "any task of the cluster will do";
}

TEST_F(Tls, LargeMessages) {
  auto server = serve(files("good", "ps-0"));
  GrpcClient client({.security = files("good", "worker-1")});
  auto channel = client.channel(address_of(*server), kPs);
  const Answer answer = call(*channel, Payload(std::string(20 << 20, 'y')));
  EXPECT_TRUE(answer.payload.flatten() == std::string(20 << 20, 'y')) << answer.status.to_string();
}

TEST_F(Tls, AServerThatIsAnotherTaskIsNotTalkedTo) {
  auto server = serve(files("good", "worker-1"));
  const Answer answer = call_as(*server, files("good", "worker-1"), kPs);
  expect_refused(answer, Code::kUnavailable, "handshake failed; the call was not sent");
  expect_refused(answer, Code::kUnavailable, str_cat("the certificate names ", kWorker, " where ", kPs));
}

TEST_F(Tls, AnotherAuthorityIsNotBelieved) {
  auto server = serve(files("good", "ps-0"));
  expect_refused(call_as(*server, files("other", "worker-1"), kPs), Code::kUnavailable, "handshake failed");
  // The client believes the server, but not the other way round.
  SecurityOptions forged = files("other", "worker-1");
  forged.ca_file = files("good", "ps-0").ca_file;
  expect_refused(call_as(*server, forged, kPs), Code::kUnavailable, address_of(*server));
}

TEST_F(Tls, ExpiredCertificatesAreNotBelieved) {
  auto server = serve(files("expired", "ps-0"));
  expect_refused(call_as(*server, files("expired", "worker-1"), kPs), Code::kUnavailable, "handshake failed");
}

// Of this cluster's authority, so that nothing but its time is wrong with it.
TEST_F(Tls, AClientWithAnExpiredCertificateIsNotBelieved) {
  SecurityOptions late = files("good", "worker-1");
  const std::string authority = directory_->path() + "/good/ca.key";
  const std::string expired = directory_->path() + "/good/worker-1-expired.pem";
  ASSERT_TRUE(write_expired_certificate(late.certificate_file, authority, expired));
  late.certificate_file = expired;
  auto server = serve(files("good", "ps-0"));
  for (int i = 0; i < 3; ++i) expect_refused(call_as(*server, late, kPs), Code::kUnavailable, address_of(*server));
  EXPECT_TRUE(call_as(*server, files("good", "worker-1"), kPs).status.ok()) << "the same key in time";
  EXPECT_EQ(handled_.load(), 1);
}

TEST_F(Tls, PlaintextIsNotUnderstood) {
  auto encrypted = serve(files("good", "ps-0"));
  expect_refused(call_as(*encrypted, {}), Code::kUnavailable, address_of(*encrypted));
  auto plain = serve({});
  expect_refused(call_as(*plain, files("good", "worker-1"), kPs), Code::kUnavailable, address_of(*plain));
}

TEST_F(Tls, TokensAreWantedToo) {
  auto server = serve(files("good", "ps-0", "secret"));
  expect_refused(call_as(*server, files("good", "worker-1"), kPs), Code::kUnauthenticated, "the call has none");
  expect_refused(call_as(*server, files("good", "worker-1", "wrong"), kPs), Code::kUnauthenticated,
                 "not this cluster's");
  EXPECT_EQ(log().size(), 1u);
  EXPECT_TRUE(call_as(*server, files("good", "worker-1", "secret"), kPs).status.ok());
}

TEST_F(Tls, FilesThatCannotBeUsed) {
  SecurityOptions missing = files("good", "ps-0");
  missing.key_file += ".gone";
  SecurityOptions partial = files("good", "ps-0");
  partial.ca_file.clear();
  SecurityOptions odd = files("good", "ps-0");
  odd.certificate_file = "/proc/self/comm";
  FunctionHandler handler = echo_handler();
  GrpcServerOptions options = local_options();
  GrpcClient plain({});
  for (const auto& [security, code] : std::vector<std::pair<SecurityOptions, Code>>{
           {missing, Code::kNotFound}, {partial, Code::kInvalidArgument}, {odd, Code::kInvalidArgument}}) {
    options.security = security;
    EXPECT_EQ(GrpcServer::start(options, handler).status().code(), code);
    GrpcClient client({.security = security});
    auto channel = client.channel("127.0.0.1:1");
    EXPECT_EQ(call(*channel, {}).status.code(), code);
  }
}

TEST_F(Tls, ServersThatANetworkReachesNeedSecurity) {
  GrpcServerOptions options;
  for (const char* address : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0"}) {
    options.address = address;
    for (const SecurityOptions& security : {SecurityOptions{}, with_token("secret"), files("good", "ps-0")}) {
      options.security = security;
      const auto server = GrpcServer::start(options, handler_);
      EXPECT_EQ(server.status().code(), Code::kFailedPrecondition) << address;
    }
  }
  for (const char* address : {"127.0.0.1:0", "localhost:0", "127.9.9.9:0"}) {
    options.address = address;
    options.security = {};
    EXPECT_TRUE(GrpcServer::start(options, handler_).ok()) << address;
  }
}

}  // namespace tutti::test::security_test
