// What strangers may do to a server's port, and that others do not notice.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <future>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "raw_connection.h"
#include "rpc_fixture.h"
#include "tests/support/open_files.h"
#include "tests/support/threads.h"

namespace tutti::test::abuse_test {

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0;
  std::int64_t resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class Abuse : public ::testing::Test {
 protected:
  void expect_service() {
    GrpcClient client({});
    auto channel = client.channel(address_of(*server_));
    const Answer answer = call(*channel, Payload("ping"));
    EXPECT_EQ(answer.payload.flatten(), "ping") << answer.status.to_string();
  }

  FunctionHandler handler_ = echo_handler();
  std::unique_ptr<GrpcServer> server_ = start_server(handler_);
};

TEST_F(Abuse, HandMadeCallsAreServed) {
  RawConnection connection(server_->port());
  ASSERT_TRUE(connection.send(http2_hello() + http2_call(1, "/s/Echo")));
  std::string received;
  while (received.find("grpc-status") == std::string::npos) {
    const std::string more = connection.receive(1, 60'000);
    ASSERT_FALSE(more.empty()) << "the other tests here rely on such calls being understood";
    received += more;
  }
}

TEST_F(Abuse, GarbageOnThePort) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::string garbage(random() % 5000 + 1, '\0');
    for (char& c : garbage) c = static_cast<char>(random());
    if (round % 2 == 0) garbage = http2_hello() + garbage;
    RawConnection connection(server_->port());
    ASSERT_TRUE(connection.connected());
    connection.send(garbage);
  }
  for (const char* text : {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x02", "SSH-2.0-x\r\n"}) {
    RawConnection connection(server_->port());
    connection.send(text);
  }
  expect_service();
}

TEST_F(Abuse, GarbageInsideCalls) {
  std::mt19937 random(11);
  const std::string good = http2_hello() + http2_call(1, "/s/Echo");
  for (int round = 0; round < 200; ++round) {
    std::string bad = good;
    for (int i = 0; i < 3; ++i) bad[24 + random() % (bad.size() - 24)] = static_cast<char>(random());
    RawConnection connection(server_->port());
    connection.send(bad);
  }
  expect_service();
}

TEST_F(Abuse, HalfOpenConnectionsAndAnEndUnderThem) {
  std::vector<std::unique_ptr<RawConnection>> silent;
  const std::string whole = http2_hello() + http2_call(1, "/s/Echo");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 3) {
    silent.push_back(std::make_unique<RawConnection>(server_->port()));
    ASSERT_TRUE(silent.back()->send(std::string_view(whole).substr(0, bytes)));
  }
  expect_service();
  server_->stop();
  for (auto& connection : silent) EXPECT_TRUE(connection->wait_closed());
}

TEST_F(Abuse, BytesOneAtATime) {
  RawConnection slow(server_->port());
  const std::string whole = http2_hello() + http2_call(1, "/s/Echo");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_TRUE(slow.send(std::string_view(whole).substr(i, 1)));
    if (i % 50 == 0) expect_service();
  }
  EXPECT_FALSE(slow.receive(1, 60'000).empty());
}

TEST_F(Abuse, IdleConnectionsCostLittle) {
  const bool stress = std::getenv("TUTTI_STRESS") != nullptr;
  const int count = testing::allowed_connections(stress ? 10'000 : 1000);
  ASSERT_GE(count, stress ? 4'000 : 100) << "the system allows too few open files (ulimit -Hn)";
  expect_service();
  const int threads = count_threads();
  const std::int64_t memory = resident_bytes();
  IdlePeers peers(server_->port(), count);
  ASSERT_EQ(peers.wait_connected(), count) << "the server has greeted all of them";
  expect_service();
  EXPECT_LT(count_threads(), threads + 200) << "gRPC starts some more when the machine is slow";
  const std::int64_t each = (resident_bytes() - memory) / count;
  RecordProperty("bytes_each", static_cast<int>(each));
#if !defined(__SANITIZE_ADDRESS__)  // which keeps what is freed
  EXPECT_LT(each, 100'000) << "bytes for each";
#endif
}

TEST(AbuseOfConnections, ALostConnectionCancelsItsCalls) {
  std::promise<void> begun;
  std::promise<void> told;
  FunctionHandler handler = cancellable_handler([&] { begun.set_value(); }, [&] { told.set_value(); });
  auto server = start_server(handler);
  {
    RawConnection connection(server->port());
    ASSERT_TRUE(connection.send(http2_hello() + http2_call(1, "/s/Wait")));
    ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  }
  EXPECT_EQ(told.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(AbuseOfConnections, WhoTakesTooLongToGreetIsHungUpOn) {
  FunctionHandler handler = echo_handler();
  GrpcServerOptions options = local_options();
  options.limits.handshake = std::chrono::milliseconds(500);
  auto server = start_server(handler, options);
  RawConnection silent(server->port());
  RawConnection half(server->port());
  ASSERT_TRUE(half.send(http2_hello().substr(0, 10)));
  // Never silent, and never done in time: half a second for 30 bytes, of which one comes each 50 ms.
  RawConnection slow(server->port());
  for (const char byte : http2_hello().substr(0, 30)) {
    if (!slow.send({&byte, 1})) break;
    slow.receive(1, 50);
  }
  EXPECT_TRUE(silent.wait_closed());
  EXPECT_TRUE(half.wait_closed());
  EXPECT_TRUE(slow.wait_closed());
  GrpcClient client({});
  EXPECT_TRUE(call(*client.channel(address_of(*server)), Payload("x")).status.ok());
}

TEST(AbuseOfConnections, WhoNeverSendsTheMessageOfACallIsHungUpOn) {
  FunctionHandler handler = echo_handler();
  GrpcServerOptions options = local_options();
  options.limits.message = std::chrono::seconds(1);
  auto server = start_server(handler, options);
  RawConnection none(server->port());
  std::string calls = http2_hello();
  for (std::uint32_t i = 0; i < 100; ++i) calls += http2_headers(2 * i + 1, "/s/Echo");
  ASSERT_TRUE(none.send(calls));
  // Part of a message, and then nothing.
  RawConnection part(server->port());
  const std::string whole = http2_hello() + http2_call(1, "/s/Echo", std::string(10'000, 'x'));
  ASSERT_TRUE(part.send(std::string_view(whole).substr(0, 5'000)));
  EXPECT_TRUE(none.wait_closed());
  EXPECT_TRUE(part.wait_closed());
}

TEST(AbuseOfConnections, SlowMessagesAreNotHungUpOn) {
  FunctionHandler handler = echo_handler();
  GrpcServerOptions options = local_options();
  options.limits.message = std::chrono::seconds(1);
  auto server = start_server(handler, options);
  RawConnection slow(server->port());
  const std::string whole = http2_hello() + http2_call(1, "/s/Echo", std::string(16'000, 'x'));
  // 8 KB a second for 2 s: twice what is wanted of it.
  std::string received;
  for (std::size_t at = 0; at < whole.size(); at += 800) {
    ASSERT_TRUE(slow.send(std::string_view(whole).substr(at, 800)));
    received += slow.receive(1, at == 0 ? 1 : 100);
  }
  while (received.find("grpc-status") == std::string::npos) {
    const std::string more = slow.receive(1, 60'000);
    ASSERT_FALSE(more.empty());
    received += more;
  }
}

// Takes as long as the server's patience.
TEST(AbuseOfConnections, SilentPeersAreHungUpOn) {
  if (std::getenv("TUTTI_STRESS") == nullptr) GTEST_SKIP() << "takes 40 s; set TUTTI_STRESS";
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  RawConnection greeted(server->port());
  ASSERT_TRUE(greeted.send(http2_hello()));
  RawConnection half_greeted(server->port());
  ASSERT_TRUE(half_greeted.send(http2_hello().substr(0, 10)));
  EXPECT_TRUE(half_greeted.wait_closed());
  EXPECT_TRUE(greeted.wait_closed());
}

TEST(AbuseOfAnswers, AClientThatNeverReads) {
  const auto large = std::make_shared<std::string>(16 << 20, 'x');
  std::atomic<int> answered{0};
  FunctionHandler handler([&](const IncomingCall& call, const CallHandler::Reply& reply) {
    Payload payload;
    if (call.method == "/s/Large") payload.append(std::as_bytes(std::span(*large)), large);
    reply({}, payload);
    ++answered;
  });
  constexpr int kCalls = 100;
  GrpcServerOptions options = local_options();
  options.limits.calls_per_connection = kCalls;
  options.limits.connection_bytes = 256 << 20;
  auto server = start_server(handler, options);
  const std::int64_t memory = resident_bytes();
  RawConnection deaf(server->port());
  std::string calls = http2_hello();
  for (std::uint32_t i = 0; i < kCalls; ++i) calls += http2_call(2 * i + 1, "/s/Large");
  ASSERT_TRUE(deaf.send(calls));
  while (answered.load() < 17) std::this_thread::yield();
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  EXPECT_TRUE(call(*channel, {}).status.ok());
  // 17 go over the limit of bytes; up to 16 more were being read by then, and each thread may have one between.
  EXPECT_LT(answered.load(), kCalls / 2) << "over the limit of bytes, calls are not read any more";
  EXPECT_LT(resident_bytes() - memory, 100 << 20) << "answers are not copied";
  server->stop();
}

TEST(Limits, CallsOfOneConnection) {
  WaitingHandler handler;
  GrpcServerOptions options = local_options();
  options.limits.calls_per_connection = 4;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(begin_call(*channel, Payload("x")));
  ASSERT_TRUE(handler.wait_for_calls(4));
  const Answer fifth = call(*channel, Payload("x"));
  EXPECT_EQ(fifth.status.code(), Code::kResourceExhausted);
  EXPECT_NE(fifth.status.message().find("4 calls are open, which is the most at a time"), std::string::npos)
      << fifth.status.to_string();
  auto other = client.channel(address_of(*server));
  answers.push_back(begin_call(*other, Payload("x")));
  ASSERT_TRUE(handler.wait_for_calls(5)) << "another connection has its own limit";
  handler.answer_all();
  for (PendingAnswer& answer : answers) EXPECT_TRUE(answer.wait().status.ok());
}

TEST(Limits, CallsOfOneHostInASecond) {
  std::atomic<int> handled{0};
  FunctionHandler handler([&](const IncomingCall&, const CallHandler::Reply& reply) {
    ++handled;
    reply({}, {});
  });
  GrpcServerOptions options = local_options();
  options.limits.calls_per_second = 1;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(begin_call(*channel, Payload("x")));
  int refused = 0;
  for (PendingAnswer& answer : answers) {
    const Status status = answer.wait().status;
    if (status.ok()) continue;
    ++refused;
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    EXPECT_NE(status.message().find("host ipv4:127.0.0.1: more than 1 calls a second (--max-calls-per-second)"),
              std::string::npos)
        << status.to_string();
  }
  EXPECT_GT(refused, 0);
  EXPECT_EQ(handled.load() + refused, 50) << "no work is done for those refused";
}

TEST(Limits, UnansweredBytesOfOneConnection) {
  WaitingHandler handler;
  GrpcServerOptions options = local_options();
  options.limits.connection_bytes = 1 << 20;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  PendingAnswer first = begin_call(*channel, Payload(std::string(600'000, 'x')));
  ASSERT_TRUE(handler.wait_for_calls(1));
  const Answer second = call(*channel, Payload(std::string(600'000, 'x')));
  EXPECT_EQ(second.status.code(), Code::kResourceExhausted) << second.status.to_string();
  PendingAnswer small = begin_call(*channel, Payload(std::string(1000, 'x')));
  ASSERT_TRUE(handler.wait_for_calls(2));
  auto other = client.channel(address_of(*server));
  PendingAnswer unharmed = begin_call(*other, Payload(std::string(600'000, 'x')));
  ASSERT_TRUE(handler.wait_for_calls(3));
  handler.answer_all();
  EXPECT_TRUE(first.wait().status.ok());
  EXPECT_TRUE(small.wait().status.ok());
  EXPECT_TRUE(unharmed.wait().status.ok());
  // What was answered counts no more, from a moment after the answer on.
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  PendingAnswer again = begin_call(*channel, Payload(std::string(600'000, 'x')));
  while (handler.num_calls() == 0 && std::chrono::steady_clock::now() < limit) {
    if (!again.ended()) continue;
    EXPECT_EQ(again.wait().status.code(), Code::kResourceExhausted);
    again = begin_call(*channel, Payload(std::string(600'000, 'x')));
  }
  handler.answer_all();
  EXPECT_TRUE(again.wait().status.ok());
}

TEST(Limits, BytesOfOneMessage) {
  FunctionHandler handler = echo_handler();
  GrpcServerOptions options = local_options();
  options.limits.message_bytes = 1000;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  EXPECT_TRUE(call(*channel, Payload(std::string(1000, 'x'))).status.ok());
  EXPECT_EQ(call(*channel, Payload(std::string(1001, 'x'))).status.code(), Code::kResourceExhausted);
  EXPECT_TRUE(call(*channel, Payload("x")).status.ok());
}

TEST(Limits, MessagesThatGrpcCannotSay) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  auto block = std::make_shared<std::string>(64 << 20, 'x');
  Payload payload;
  for (int i = 0; i < 33; ++i) payload.append(std::as_bytes(std::span(*block)), block);
  const Answer answer = call(*channel, payload);
  EXPECT_EQ(answer.status.code(), Code::kResourceExhausted);
  EXPECT_NE(answer.status.message().find("2214592512 bytes"), std::string::npos) << answer.status.to_string();
}

TEST(Limits, AnswersThatGrpcCannotSay) {
  auto block = std::make_shared<std::string>(64 << 20, 'x');
  FunctionHandler handler([&](const IncomingCall&, const CallHandler::Reply& reply) {
    Payload payload;
    for (int i = 0; i < 33; ++i) payload.append(std::as_bytes(std::span(*block)), block);
    reply({}, payload);
  });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  const Answer answer = call(*channel, {});
  EXPECT_EQ(answer.status.code(), Code::kResourceExhausted);
  EXPECT_NE(answer.status.message().find("2214592512 bytes"), std::string::npos) << answer.status.to_string();
}

}  // namespace tutti::test::abuse_test
