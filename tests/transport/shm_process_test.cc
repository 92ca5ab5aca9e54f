// Shared memory between real processes that die, stand still or run as somebody else.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "call_support.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti {
namespace {

using namespace std::chrono_literals;
using test::Answer;
using test::append_buffer;
using test::call;
using test::start_call;
using test::TestHandler;

constexpr int kNobody = 65534;

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(1ms);
}

// A shm_peer, killed and collected at the latest when this goes.
class Peer {
 public:
  explicit Peer(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), TUTTI_SHM_PEER);
    int in[2] = {-1, -1};
    int out[2] = {-1, -1};
    EXPECT_EQ(::pipe2(in, O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Peer() {
    kill(SIGKILL);
    ::close(to_);
    ::close(from_);
  }

  // Empty at the end of its output.
  std::string read_line() {
    std::string line;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  void kill(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    if (signal != SIGKILL) return;
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
};

class ShmProcessTest : public ::testing::Test {
 protected:
  ShmProcessTest() {
    clock_->call_at(clock_->now(), [] {});
  }

  std::unique_ptr<ShmTransport> make_transport(CallHandler* handler, std::size_t segment_bytes = 64 << 20,
                                               std::size_t ring_bytes = 1 << 16) {
    ShmOptions options;
    options.task = "the test";
    options.secret = "a secret";
    options.clock = clock_.get();
    options.segment_bytes = segment_bytes;
    options.ring_bytes = ring_bytes;
    return ShmTransport::create(options, handler).value_or_throw();
  }
  std::shared_ptr<Channel> connect(ShmTransport& client, const std::string& name) {
    return client
        .connect(name,
                 [this](const Status& status) {
                   EXPECT_EQ(status.code(), Code::kUnavailable);
                   ++lost_;
                 })
        .value_or_throw();
  }
  static Payload shared_payload(ShmTransport& transport, std::size_t bytes) {
    const BufferPtr buffer = transport.shared_allocator().allocate(bytes);
    std::memset(buffer->data(), 's', bytes);
    Payload payload;
    append_buffer(payload, buffer);
    return payload;
  }
  static std::int64_t lent(ShmTransport& transport) { return transport.shared_allocator().stats().bytes_in_use; }

  std::unique_ptr<Clock> clock_ = make_system_clock();
  TestHandler handler_;
  std::atomic<int> lost_{0};
};

TEST_F(ShmProcessTest, TwoProcessesCallEachOther) {
  Peer peer({"0", "serve"});
  auto client = make_transport(nullptr);
  auto channel = connect(*client, peer.read_line());
  const Payload request = shared_payload(*client, 3'000'000);
  const Answer echo = call(*channel, "/echo", request);
  ASSERT_TRUE(echo.status.ok()) << echo.status.to_string();
  EXPECT_TRUE(echo.payload.flatten() == request.flatten());
  const Answer made = call(*channel, "/make", Payload("5000000"));
  ASSERT_TRUE(made.status.ok()) << made.status.to_string();
  EXPECT_EQ(made.payload.flatten(), std::string(5'000'000, 'm'));
  EXPECT_EQ(call(*channel, "/who").payload.flatten(), "the test");
}

TEST_F(ShmProcessTest, AKilledServerIsLostInMidCall) {
  const int descriptors = test::count_entries("/proc/self/fd");
  {
    Peer peer({"0", "serve"});
    auto client = make_transport(nullptr);
    auto channel = connect(*client, peer.read_line());
    ASSERT_TRUE(call(*channel, "/hold", shared_payload(*client, 1 << 20)).status.ok());
    auto waiting = start_call(*channel, "/wait", shared_payload(*client, 1 << 20));
    const Answer made = call(*channel, "/make", Payload("100000"));
    EXPECT_GT(lent(*client), 0);
    peer.kill(SIGKILL);
    const Status status = waiting.get().status;
    EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
    EXPECT_NE(status.message().find("shm to peer"), std::string::npos) << status.to_string();
    wait_until([&] { return lost_ == 1; });
    wait_until([&] { return lent(*client) == 0; });
    EXPECT_EQ(made.payload.flatten(), std::string(100'000, 'm')) << "what was received stays readable";
    EXPECT_EQ(call(*channel, "/echo").status.code(), Code::kUnavailable);
  }
  EXPECT_EQ(test::count_entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(test::count_mappings(), 0);
  EXPECT_EQ(lost_, 1);
}

TEST_F(ShmProcessTest, AKilledServerIsLostInMidTransfer) {
  Peer peer({"0", "serve"});
  auto client = make_transport(nullptr, /*segment_bytes=*/1 << 20);
  auto channel = connect(*client, peer.read_line());
  ASSERT_TRUE(call(*channel, "/echo").status.ok());
  peer.kill(SIGSTOP);
  // Larger than the segments and the ring, so most of it waits.
  const Payload large(std::string(32 << 20, 'x'));
  auto sending = start_call(*channel, "/echo", large);
  auto behind = start_call(*channel, "/echo", Payload("small"));
  peer.kill(SIGKILL);
  EXPECT_EQ(sending.get().status.code(), Code::kUnavailable);
  EXPECT_EQ(behind.get().status.code(), Code::kUnavailable);
  EXPECT_EQ(large.pieces()[0].owner.use_count(), 1) << "nobody holds it any more";
}

TEST_F(ShmProcessTest, AKilledClientCancelsItsCalls) {
  const int descriptors = test::count_entries("/proc/self/fd");
  {
    auto server = make_transport(&handler_);
    Peer waits({"0", "call", server->name(), "/wait"});
    Peer holds({"0", "call", server->name(), "/hold"});
    EXPECT_EQ(waits.read_line(), "called");
    EXPECT_EQ(holds.read_line(), "called");
    wait_until([&] { return handler_.calls == 2 && handler_.waiting == 1; });
    waits.kill(SIGKILL);
    holds.kill(SIGKILL);
    wait_until([&] { return handler_.waiting == 0; });
    // The server goes on; what it holds of the dead goes when dropped.
    auto client = make_transport(nullptr);
    auto channel = connect(*client, server->name());
    ASSERT_TRUE(call(*channel, "/drop").status.ok());
  }
  EXPECT_EQ(test::count_entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(test::count_mappings(), 0);
}

TEST_F(ShmProcessTest, CallsToAStoppedProcessEndByTheirDeadline) {
  Peer peer({"0", "serve"});
  auto client = make_transport(nullptr, /*segment_bytes=*/1 << 20);
  auto channel = connect(*client, peer.read_line());
  ASSERT_TRUE(call(*channel, "/echo").status.ok());
  peer.kill(SIGSTOP);
  const Payload large(std::string(1 << 20, 'x'));
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 100; ++i) {
    answers.push_back(start_call(*channel, "/echo", large, {.deadline = clock_->now() + 50ms}));
  }
  for (auto& answer : answers) EXPECT_EQ(answer.get().status.code(), Code::kDeadlineExceeded);
  // The ones that had begun are the only ones that are still held.
  EXPECT_LE(large.pieces()[0].owner.use_count(), 3);
  peer.kill(SIGCONT);
  EXPECT_EQ(call(*channel, "/echo", Payload("awake")).payload.flatten(), "awake");
  wait_until([&] { return lent(*client) == 0; });
  EXPECT_EQ(lost_, 0);
}

TEST_F(ShmProcessTest, WhatWaitsForAStoppedProcessIsBounded) {
  Peer peer({"0", "serve"});
  auto client = make_transport(nullptr, /*segment_bytes=*/1 << 20);
  auto channel = connect(*client, peer.read_line());
  ASSERT_TRUE(call(*channel, "/echo").status.ok());
  peer.kill(SIGSTOP);
  const Payload large(std::string(64 << 20, 'x'));
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(start_call(*channel, "/echo", large));
  int refused = 0;
  for (auto& answer : answers) {
    if (answer.wait_for(0s) != std::future_status::ready) continue;
    const Status status = answer.get().status;
    EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    ++refused;
  }
  EXPECT_GE(refused, 80) << "more than a gigabyte waits";
  EXPECT_LT(refused, 100);
}

TEST_F(ShmProcessTest, AServerKeepsNothingOfClientsThatCameAndWent) {
  Peer peer({"0", "serve"});
  const std::string name = peer.read_line();
  auto client = make_transport(nullptr);
  auto channel = connect(*client, name);
  std::string usage;
  for (int round = 0; round < 30; ++round) {
    auto other = make_transport(nullptr);
    auto brief = connect(*other, name);
    auto waiting = start_call(*brief, "/wait", shared_payload(*other, 1 << 20));
    ASSERT_TRUE(call(*brief, "/echo", shared_payload(*other, 1 << 20)).status.ok());
    brief.reset();
    EXPECT_EQ(waiting.get().status.code(), Code::kCancelled);
  }
  // Threads, descriptors and mappings (its rings, its own segment) as with one client.
  wait_until([&] {
    std::istringstream numbers(call(*channel, "/usage").payload.flatten());
    int threads = 0, descriptors = 0, mappings = 0;
    numbers >> threads >> descriptors >> mappings;
    return threads <= 16 && descriptors <= 16 && mappings <= 2;
  });
}

TEST_F(ShmProcessTest, OtherUsersAreRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  auto server = make_transport(&handler_);
  Peer stranger({std::to_string(kNobody), "call", server->name(), "/echo"});
  EXPECT_EQ(stranger.read_line().substr(0, 16), "PermissionDenied");
  EXPECT_EQ(handler_.calls, 0);

  Peer strange_server({std::to_string(kNobody), "serve"});
  auto client = make_transport(nullptr);
  const auto refused = client->connect(strange_server.read_line(), nullptr);
  EXPECT_EQ(refused.status().code(), Code::kPermissionDenied) << refused.status().to_string();
}

}  // namespace
}  // namespace tutti
