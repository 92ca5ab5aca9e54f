// Shared memory between real processes that die, stand still or run as somebody else.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <random>
#include <sstream>
#include <thread>

#include "call_support.h"
#include "tutti/transport/shm/shm_transport.h"

namespace tutti::shm_process_test {

using namespace std::chrono_literals;
using test::Answer;
using test::append_buffer;
using test::call;
using test::start_call;
using test::TestHandler;
using test::wait_until;

constexpr int kNobody = 65534;

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
    if (signal == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);  // until it has stopped
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
  wait_until([&] { return large.pieces()[0].owner.use_count() == 1; });  // nobody holds it any more
}

TEST_F(ShmProcessTest, AServerKilledAtAnyMomentLeavesNothing) {
  const int descriptors = test::count_entries("/proc/self/fd");
  for (unsigned seed = 0; seed < 10; ++seed) {
    std::mt19937 random(seed);
    Peer peer({"0", "serve"});
    auto client = make_transport(nullptr, /*segment_bytes=*/4 << 20);
    auto channel = connect(*client, peer.read_line());
    const int last = static_cast<int>(random() % 200);
    std::vector<std::future<Answer>> answers;
    for (int i = 0; i <= last; ++i) {
      const std::size_t bytes = random() % (std::size_t{1} << (random() % 22));
      const char* method = std::array{"/echo", "/hold", "/wait"}[random() % 3];
      Payload request = random() % 2 ? shared_payload(*client, bytes) : Payload(std::string(bytes, 'h'));
      answers.push_back(start_call(*channel, method, std::move(request)));
    }
    peer.kill(SIGKILL);
    for (auto& answer : answers) {
      const Status status = answer.get().status;
      EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.to_string();
    }
    answers.clear();
    wait_until([&] { return lent(*client) == 0; });
    wait_until([&] { return lost_ == static_cast<int>(seed) + 1; });
  }
  EXPECT_EQ(test::count_entries("/proc/self/fd"), descriptors);
  EXPECT_EQ(test::count_mappings(), 0);
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
  wait_until([&] { return large.pieces()[0].owner.use_count() <= 3; });
  peer.kill(SIGCONT);
  EXPECT_EQ(call(*channel, "/echo", Payload("awake")).payload.flatten(), "awake");
  wait_until([&] { return lent(*client) == 0; });
  EXPECT_EQ(lost_, 0);
}

TEST_F(ShmProcessTest, WhatAStoppedProcessHasBorrowedStaysTheSame) {
  Peer peer({"0", "serve"});
  const std::string name = peer.read_line();
  auto client = make_transport(nullptr);
  auto channel = connect(*client, name);
  ASSERT_TRUE(call(*channel, "/hold", shared_payload(*client, 1 << 20)).status.ok());
  peer.kill(SIGSTOP);
  channel.reset();  // it was given up
  const BufferPtr other = client->shared_allocator().allocate(1 << 20);
  std::memset(other->data(), 'x', other->bytes());
  peer.kill(SIGCONT);
  channel = connect(*client, name);
  EXPECT_TRUE(call(*channel, "/held").payload.flatten() == std::string(1 << 20, 's'));
  const std::int64_t before = lent(*client);
  ASSERT_TRUE(call(*channel, "/drop").status.ok());
  wait_until([&] { return lent(*client) < before; });
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

struct Usage {
  int threads = 0;
  int descriptors = 0;
  int mappings = 0;
};

Usage usage_of(Channel& channel) {
  std::istringstream numbers(call(channel, "/usage").payload.flatten());
  Usage usage;
  numbers >> usage.threads >> usage.descriptors >> usage.mappings;
  return usage;
}

TEST_F(ShmProcessTest, AServerKeepsNothingOfClientsThatCameAndWent) {
  Peer peer({"0", "serve"});
  const std::string name = peer.read_line();
  auto client = make_transport(nullptr);
  auto channel = connect(*client, name);
  // Makes the server's own segment, of which it will have no second.
  ASSERT_TRUE(call(*channel, "/make", Payload("1000000")).status.ok());
  const Usage before = usage_of(*channel);
  for (int round = 0; round < 30; ++round) {
    auto other = make_transport(nullptr);
    auto brief = connect(*other, name);
    auto waiting = start_call(*brief, "/wait", shared_payload(*other, 1 << 20));
    ASSERT_TRUE(call(*brief, "/echo", shared_payload(*other, 1 << 20)).status.ok());
    brief.reset();
    EXPECT_EQ(waiting.get().status.code(), Code::kCancelled);
  }
  wait_until([&] {
    const Usage after = usage_of(*channel);
    return after.descriptors <= before.descriptors && after.mappings <= before.mappings;
  });
  // Spare threads are a fixed number, and may have started.
  EXPECT_LE(usage_of(*channel).threads,
            before.threads + std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
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

}  // namespace tutti::shm_process_test
