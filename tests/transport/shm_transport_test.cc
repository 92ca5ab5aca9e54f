#include "tutti/transport/shm/shm_transport.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <new>
#include <random>
#include <thread>

#include "call_support.h"

namespace tutti::shm_transport_test {

using namespace std::chrono_literals;
using test::Answer;
using test::append_buffer;
using test::call;
using test::start_call;
using test::TestHandler;
using test::wait_until;

// A server and a client in one process, which no code between them knows.
class ShmTransportTest : public ::testing::Test {
 protected:
  ShmOptions options(const std::string& task) {
    ShmOptions options;
    options.task = task;
    options.secret = "a secret";
    options.clock = clock_.get();
    return options;
  }
  void start(std::size_t segment_bytes = std::size_t{1} << 30, std::size_t ring_bytes = std::size_t{1} << 20) {
    ShmOptions server = options("/job:ps/replica:0/task:0");
    ShmOptions client = options("/job:worker/replica:0/task:1");
    server.segment_bytes = client.segment_bytes = segment_bytes;
    server.ring_bytes = client.ring_bytes = ring_bytes;
    server_ = ShmTransport::create(server, &handler_).value_or_throw();
    client_ = ShmTransport::create(client, nullptr).value_or_throw();
    handler_.allocator = &server_->shared_allocator();
    channel_ = connect();
  }
  std::shared_ptr<Channel> connect() {
    return client_->connect(server_->name(), [this](const Status&) { ++lost_; }).value_or_throw();
  }
  std::int64_t lent_by_client() { return client_->shared_allocator().stats().bytes_in_use; }

  std::unique_ptr<Clock> clock_ = make_system_clock();
  TestHandler handler_;
  std::atomic<int> lost_{0};
  std::unique_ptr<ShmTransport> server_;
  std::unique_ptr<ShmTransport> client_;
  std::shared_ptr<Channel> channel_;
};

TEST_F(ShmTransportTest, CallsAndReplies) {
  start();
  const Answer echo = call(*channel_, "/echo", Payload("hello"));
  ASSERT_TRUE(echo.status.ok()) << echo.status.to_string();
  EXPECT_EQ(echo.payload.flatten(), "hello");
  EXPECT_TRUE(call(*channel_, "/echo").payload.empty());
  EXPECT_EQ(call(*channel_, "/who").payload.flatten(), "/job:worker/replica:0/task:1");
  EXPECT_EQ(call(*channel_, "/nothing").status, unimplemented("no method /nothing"));
  EXPECT_EQ(channel_->describe(), "shm to /job:ps/replica:0/task:0");
}

TEST_F(ShmTransportTest, NamesAndHosts) {
  start();
  EXPECT_TRUE(client_->name().empty());
  EXPECT_FALSE(server_->name().empty());
  EXPECT_EQ(ShmTransport::host_id(), ShmTransport::host_id());
  const auto nobody = client_->connect("tutti-nobody", nullptr);
  EXPECT_EQ(nobody.status().code(), Code::kUnavailable) << nobody.status().to_string();
  EXPECT_EQ(client_->connect("", nullptr).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(client_->connect(std::string(1000, 'x'), nullptr).status().code(), Code::kInvalidArgument);
}

TEST_F(ShmTransportTest, AnotherSecretIsRefused) {
  start();
  ShmOptions other = options("worker:2");
  other.secret = "another secret";
  auto stranger = ShmTransport::create(other, nullptr).value_or_throw();
  const auto refused = stranger->connect(server_->name(), nullptr);
  EXPECT_EQ(refused.status().code(), Code::kUnauthenticated) << refused.status().to_string();
  EXPECT_EQ(handler_.calls, 0);
}

TEST_F(ShmTransportTest, WithTicketsANameMustBeProved) {
  ShmOptions wary = options("/job:ps/replica:0/task:0");
  wary.tickets = true;
  auto server = ShmTransport::create(wary, &handler_).value_or_throw();
  auto other = ShmTransport::create(wary, &handler_).value_or_throw();
  auto client = ShmTransport::create(options("/job:worker/replica:0/task:1"), nullptr).value_or_throw();
  const std::string task = "/job:worker/replica:0/task:1";
  const std::string ticket = server->ticket(task);
  auto channel = client->connect(server->name(), nullptr, {.task = task, .ticket = ticket});
  ASSERT_TRUE(channel.ok()) << channel.status().to_string();
  EXPECT_EQ(call(**channel, "/who").payload.flatten(), task);
  const auto refused = [&](const std::string& name, const ShmTicket& with) {
    return client->connect(name, nullptr, with).status().code();
  };
  EXPECT_EQ(refused(server->name(), {}), Code::kUnauthenticated) << "the secret alone";
  EXPECT_EQ(refused(server->name(), {.task = "/job:ps/replica:0/task:1", .ticket = ticket}), Code::kUnauthenticated);
  EXPECT_EQ(refused(server->name(), {.task = "", .ticket = ticket}), Code::kUnauthenticated);
  EXPECT_EQ(refused(other->name(), {.task = task, .ticket = ticket}), Code::kUnauthenticated) << "of another process";
  ShmOptions stranger = options("stranger");
  stranger.secret = "another secret";
  auto without = ShmTransport::create(stranger, nullptr).value_or_throw();
  EXPECT_EQ(without->connect(server->name(), nullptr, {.task = task, .ticket = ticket}).status().code(),
            Code::kUnauthenticated)
      << "the ticket alone";
  EXPECT_EQ(client->ticket(task), "") << "who wants none gives none";
}

// Bytes that differ from place to place.
void fill(void* data, std::size_t bytes, std::uint64_t seed) {
  auto* out = static_cast<unsigned char*>(data);
  std::uint64_t state = seed * 2 + 1;
  for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(out + i, &state, 8);
  }
}

// `bytes` bytes cut at random, each piece from the heap or from the allocator.
Payload random_payload(std::size_t bytes, Allocator& shared, std::mt19937_64& random) {
  Payload payload;
  while (payload.size() < bytes) {
    const std::size_t left = bytes - payload.size();
    const std::size_t limit = std::size_t{1} << (random() % 29);
    const std::size_t piece = std::min(left, 1 + random() % limit);
    const BufferPtr buffer = (random() % 2 ? shared : heap_allocator()).allocate(piece);
    fill(buffer->data(), piece, random());
    append_buffer(payload, buffer);
    if (payload.pieces().size() > 5000) {
      const BufferPtr rest = heap_allocator().allocate(bytes - payload.size());
      fill(rest->data(), rest->bytes(), random());
      append_buffer(payload, rest);
    }
  }
  return payload;
}

bool same_bytes(const Payload& a, const Payload& b) {
  if (a.size() != b.size()) return false;
  std::size_t i = 0, j = 0, i_at = 0, j_at = 0;
  while (i < a.pieces().size() && j < b.pieces().size()) {
    const auto x = a.pieces()[i].bytes.subspan(i_at);
    const auto y = b.pieces()[j].bytes.subspan(j_at);
    const std::size_t bytes = std::min(x.size(), y.size());
    if (std::memcmp(x.data(), y.data(), bytes) != 0) return false;
    if (i_at += bytes; i_at == a.pieces()[i].bytes.size()) ++i, i_at = 0;
    if (j_at += bytes; j_at == b.pieces()[j].bytes.size()) ++j, j_at = 0;
  }
  return true;
}

TEST_F(ShmTransportTest, EchoesAllSizes) {
  start();
  std::mt19937_64 random(1);
  for (const std::size_t bytes : {0ull, 1ull, 31ull, 4095ull, 4096ull, 32767ull, 32768ull, 100'000ull, 1048576ull,
                                  1048577ull, 5'000'001ull, 64ull << 20, 256ull << 20}) {
    const Payload request = random_payload(bytes, client_->shared_allocator(), random);
    const Answer answer = call(*channel_, "/echo", request);
    ASSERT_TRUE(answer.status.ok()) << bytes << ": " << answer.status.to_string();
    EXPECT_TRUE(same_bytes(request, answer.payload)) << bytes;
  }
  wait_until([&] { return lent_by_client() == 0; });
  wait_until([&] { return server_->shared_allocator().stats().bytes_in_use == 0; });
}

TEST_F(ShmTransportTest, ManyLayoutsThroughSmallRingsAndSegments) {
  start(/*segment_bytes=*/1 << 20, /*ring_bytes=*/1 << 12);
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    const std::size_t bytes = random() % (std::size_t{1} << (random() % 23));
    const Payload request = random_payload(bytes, client_->shared_allocator(), random);
    const Answer answer = call(*channel_, "/echo", request);
    ASSERT_TRUE(answer.status.ok()) << bytes << ": " << answer.status.to_string();
    ASSERT_TRUE(same_bytes(request, answer.payload)) << bytes << " in round " << round;
  }
  wait_until([&] { return lent_by_client() == 0; });
}

TEST_F(ShmTransportTest, SharedValuesAreNotCopied) {
  start();
  const Answer answer = call(*channel_, "/make", Payload("1000000"));
  ASSERT_TRUE(answer.status.ok());
  ASSERT_EQ(answer.payload.pieces().size(), 1u);
  EXPECT_EQ(answer.payload.pieces()[0].view()[500'000], 'm');

  // The sender still sees the memory that the receiver looks at.
  const BufferPtr buffer = client_->shared_allocator().allocate(100'000);
  std::memset(buffer->data(), 'a', 100'000);
  Payload request;
  append_buffer(request, buffer);
  const Answer echo = call(*channel_, "/hold", request);
  ASSERT_TRUE(echo.status.ok());
  request = {};
  EXPECT_GT(lent_by_client(), 0);
  EXPECT_GT(buffer.use_count(), 1) << "the loan holds it";
  ASSERT_TRUE(call(*channel_, "/drop").status.ok());
  wait_until([&] { return buffer.use_count() == 1; });
}

// A handler that shows what it was given.
class KeepingHandler : public CallHandler {
 public:
  void handle(IncomingCall call, Reply reply) override {
    kept = std::move(call.request);
    reply({}, {});
  }
  Payload kept;
};

TEST_F(ShmTransportTest, TheReceiverLooksAtTheSendersMemory) {
  start();
  KeepingHandler keeper;
  auto server = ShmTransport::create(options("keeper"), &keeper).value_or_throw();
  auto channel = client_->connect(server->name(), nullptr).value_or_throw();
  const BufferPtr buffer = client_->shared_allocator().allocate(1 << 20);
  std::memset(buffer->data(), 'a', buffer->bytes());
  Payload request;
  append_buffer(request, buffer);
  ASSERT_TRUE(call(*channel, "/keep", request).status.ok());
  ASSERT_EQ(keeper.kept.pieces().size(), 1u);
  const std::string_view seen = keeper.kept.pieces()[0].view();
  EXPECT_NE(static_cast<const void*>(seen.data()), buffer->data()) << "another mapping";
  EXPECT_EQ(seen[1000], 'a');
  static_cast<char*>(buffer->data())[1000] = 'b';
  EXPECT_EQ(*const_cast<const volatile char*>(&seen[1000]), 'b');
  channel.reset();
  server.reset();
  EXPECT_EQ(seen[2000], 'a') << "readable after the end of both";
}

TEST_F(ShmTransportTest, WhatWasReceivedStaysTheSameAfterTheChannelsEnd) {
  start();
  Answer first = call(*channel_, "/make", Payload("1000000"));
  ASSERT_TRUE(first.status.ok());
  const auto unchanged = [&] { return first.payload.flatten() == std::string(1'000'000, 'm'); };
  channel_.reset();
  channel_ = connect();
  // The server has another value of this size for somebody else.
  const auto overwrite = [&] {
    const BufferPtr other = server_->shared_allocator().allocate(1'000'000);
    std::memset(other->data(), 'x', other->bytes());
  };
  ASSERT_TRUE(call(*channel_, "/echo").status.ok());
  overwrite();
  EXPECT_TRUE(unchanged());
  client_.reset();
  overwrite();
  EXPECT_TRUE(unchanged());
  EXPECT_GT(server_->shared_allocator().stats().bytes_in_use, 0);
  channel_.reset();
  first = {};
  wait_until([&] { return server_->shared_allocator().stats().bytes_in_use == 0; });
}

TEST_F(ShmTransportTest, WhatAStoppedTransportHasLentIsNotUsedAgain) {
  start();
  const Answer answer = call(*channel_, "/make", Payload("1000000"));
  ASSERT_TRUE(answer.status.ok());
  server_->stop();
  const BufferPtr other = server_->shared_allocator().allocate(1'000'000);
  std::memset(other->data(), 'x', other->bytes());
  EXPECT_TRUE(answer.payload.flatten() == std::string(1'000'000, 'm'));
}

TEST_F(ShmTransportTest, LoansBothWaysEndWithBothConnections) {
  start();
  Answer answer = call(*channel_, "/make", Payload("1000000"));
  const BufferPtr buffer = client_->shared_allocator().allocate(1 << 20);
  Payload request;
  append_buffer(request, buffer);
  ASSERT_TRUE(call(*channel_, "/hold", std::move(request)).status.ok());
  channel_.reset();
  EXPECT_GT(buffer.use_count(), 1) << "the server still reads it";
  channel_ = connect();
  ASSERT_TRUE(call(*channel_, "/drop").status.ok());
  wait_until([&] { return buffer.use_count() == 1; });
  answer = {};
  wait_until([&] { return server_->shared_allocator().stats().bytes_in_use == 0; });
}

TEST_F(ShmTransportTest, PiecesThroughTheRingAreKeptOneByOne) {
  start(/*segment_bytes=*/0);
  Payload request;
  for (const std::size_t bytes : {100, 5'000, 200, 50'000}) {
    const BufferPtr buffer = heap_allocator().allocate(bytes);
    fill(buffer->data(), bytes, bytes);
    append_buffer(request, buffer);
  }
  const Answer answer = call(*channel_, "/echo", request);
  ASSERT_TRUE(same_bytes(answer.payload, request));
  const auto& pieces = answer.payload.pieces();
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_NE(pieces[1].owner, pieces[3].owner);
  EXPECT_NE(pieces[0].owner, pieces[1].owner);
  EXPECT_EQ(pieces[0].owner, pieces[2].owner) << "small ones share";
}

TEST_F(ShmTransportTest, AFullSegmentFallsBackToCopies) {
  start(/*segment_bytes=*/1 << 20);
  std::vector<BufferPtr> buffers;
  for (int i = 0; i < 20; ++i) {
    buffers.push_back(client_->shared_allocator().allocate(200'000));
    ASSERT_NE(buffers.back(), nullptr);
    fill(buffers.back()->data(), 200'000, static_cast<std::uint64_t>(i));
  }
  EXPECT_LE(client_->shared_allocator().stats().bytes_reserved, 1 << 20);
  for (const BufferPtr& buffer : buffers) {
    Payload request;
    append_buffer(request, buffer);
    const Answer answer = call(*channel_, "/echo", request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
    EXPECT_TRUE(same_bytes(request, answer.payload));
  }
}

TEST_F(ShmTransportTest, LargeValuesThatFindTheSegmentsFullGetTheirOwn) {
  start(/*segment_bytes=*/4 << 20, /*ring_bytes=*/1 << 12);
  const BufferPtr full = client_->shared_allocator().allocate(4 << 20);
  ASSERT_EQ(client_->shared_allocator().stats().bytes_reserved, 4 << 20);
  const int mappings = test::count_mappings();
  const BufferPtr value = heap_allocator().allocate(3 << 20);
  fill(value->data(), value->bytes(), 7);
  Payload request;
  append_buffer(request, value);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(call(*channel_, "/hold", request).status.ok());
    EXPECT_EQ(client_->shared_allocator().stats().bytes_in_use, 7 << 20);
    EXPECT_TRUE(same_bytes(call(*channel_, "/held").payload, request));
    ASSERT_TRUE(call(*channel_, "/drop").status.ok());
    wait_until([&] { return client_->shared_allocator().stats().bytes_in_use == 4 << 20; });
  }
  // The server has a segment of its own for its replies, which both have mapped.
  wait_until([&] { return test::count_mappings() <= mappings + 2; });
}

TEST_F(ShmTransportTest, SegmentsAreGivenUpForOthers) {
  start(/*segment_bytes=*/8 << 20);
  for (const std::size_t bytes : {1 << 20, 3 << 20, 5 << 20, 7 << 20, 100'000, 6 << 20}) {
    const BufferPtr buffer = client_->shared_allocator().allocate(bytes);
    fill(buffer->data(), bytes, bytes);
    Payload request;
    append_buffer(request, buffer);
    const Answer answer = call(*channel_, "/echo", request);
    ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
    EXPECT_TRUE(same_bytes(request, answer.payload));
    EXPECT_LE(client_->shared_allocator().stats().bytes_reserved, 8 << 20);
  }
}

TEST_F(ShmTransportTest, SmallBlocksDoNotBreakUpLargeSegments) {
  start(/*segment_bytes=*/512 << 20);
  Allocator& shared = client_->shared_allocator();
  BufferPtr large = shared.allocate(std::size_t{200} << 20);
  large.reset();
  const std::int64_t reserved = shared.stats().bytes_reserved;
  const BufferPtr small = shared.allocate(10'000);
  EXPECT_GT(shared.stats().bytes_reserved, reserved) << "a segment of its own kind";
  const std::int64_t with_small = shared.stats().bytes_reserved;
  large = shared.allocate(std::size_t{200} << 20);
  EXPECT_EQ(shared.stats().bytes_reserved, with_small);
}

TEST_F(ShmTransportTest, ManySmallCallsFromManyThreads) {
  start();
  constexpr int kThreads = 8;
  constexpr int kCalls = 12'500;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::future<Answer>> waiting;
      for (int i = 0; i < kCalls; ++i) {
        waiting.push_back(start_call(*channel_, "/echo", Payload(str_cat(t, ":", i))));
        if (waiting.size() < 100 && i + 1 < kCalls) continue;
        for (std::size_t k = 0; k < waiting.size(); ++k) {
          const Answer answer = waiting[k].get();
          const std::string wanted = str_cat(t, ":", i + 1 - static_cast<int>(waiting.size() - k));
          if (!answer.status.ok() || answer.payload.flatten() != wanted) ++wrong;
        }
        waiting.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(handler_.calls, kThreads * kCalls);
}

TEST_F(ShmTransportTest, WaitingCallsNeedNoThreads) {
  start();
  ASSERT_TRUE(call(*channel_, "/echo").status.ok());
  const int threads = test::count_entries("/proc/self/task");
  Cancellation cancellation;
  std::vector<std::future<Answer>> waiting;
  for (int i = 0; i < 1000; ++i) {
    waiting.push_back(start_call(*channel_, "/wait", {}, {.cancellation = &cancellation}));
  }
  wait_until([&] { return handler_.waiting == 1000; });
  EXPECT_TRUE(call(*channel_, "/echo").status.ok());
  // Spare threads are a fixed number, and may have started.
  EXPECT_LE(test::count_entries("/proc/self/task"),
            threads + 2 * std::max(2, static_cast<int>(std::thread::hardware_concurrency())));
  cancellation.cancel(aborted("enough"));
  for (auto& future : waiting) EXPECT_EQ(future.get().status, aborted("enough"));
  wait_until([&] { return handler_.waiting == 0; });
}

TEST_F(ShmTransportTest, ADeadlineEndsTheCallAndTellsThePeer) {
  start();
  const Answer answer = call(*channel_, "/wait", {}, {.deadline = clock_->now() + 20ms});
  EXPECT_EQ(answer.status.code(), Code::kDeadlineExceeded);
  EXPECT_NE(answer.status.message().find("/job:ps/replica:0/task:0 /wait"), std::string::npos);
  wait_until([&] { return handler_.waiting == 0; });
  EXPECT_EQ(call(*channel_, "/echo", {}, {.deadline = clock_->now() - 1s}).status.code(), Code::kDeadlineExceeded);
  EXPECT_TRUE(call(*channel_, "/echo", {}, {.deadline = TimePoint::max()}).status.ok());
}

TEST_F(ShmTransportTest, NoCancellationIsLostOnItsWay) {
  start();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        Cancellation cancellation;
        auto canceller = std::async(std::launch::async, [&] { cancellation.cancel(aborted("now")); });
        EXPECT_EQ(call(*channel_, "/wait", {}, {.cancellation = &cancellation}).status, aborted("now"));
        canceller.get();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // Each that reached the handler is told, even if the cancellation overtook it.
  EXPECT_TRUE(call(*channel_, "/echo").status.ok());
  wait_until([&] { return handler_.waiting == 0; });
}

TEST_F(ShmTransportTest, DestroyingTheChannelEndsItsCallsAndCancelsTheirHandlers) {
  start();
  auto future = start_call(*channel_, "/wait");
  wait_until([&] { return handler_.waiting == 1; });
  channel_.reset();
  EXPECT_EQ(future.get().status.code(), Code::kCancelled);
  wait_until([&] { return handler_.waiting == 0; });
  EXPECT_EQ(lost_, 0);
}

TEST_F(ShmTransportTest, AStoppedServerIsLost) {
  start();
  auto future = start_call(*channel_, "/wait");
  wait_until([&] { return handler_.waiting == 1; });
  server_->stop();
  const Status status = future.get().status;
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
  EXPECT_NE(status.message().find("/job:ps/replica:0/task:0"), std::string::npos) << status.to_string();
  wait_until([&] { return lost_ == 1; });
  EXPECT_EQ(handler_.waiting, 0);
  const Status after = call(*channel_, "/echo").status;
  EXPECT_EQ(after.code(), Code::kUnavailable);
  EXPECT_NE(after.message().find("was not sent"), std::string::npos) << after.to_string();
  EXPECT_EQ(client_->connect(server_->name(), nullptr).status().code(), Code::kUnavailable);
}

TEST_F(ShmTransportTest, AStoppedClientEndsItsCalls) {
  start();
  auto future = start_call(*channel_, "/wait");
  client_->stop();
  client_->stop();
  EXPECT_EQ(future.get().status.code(), Code::kCancelled);
  EXPECT_EQ(call(*channel_, "/echo").status.code(), Code::kCancelled);
  client_.reset();
  channel_.reset();
  wait_until([&] { return handler_.waiting == 0; });
  EXPECT_EQ(lost_, 0);
}

TEST_F(ShmTransportTest, ManyConnections) {
  start();
  std::vector<std::shared_ptr<Channel>> channels;
  std::vector<std::future<Answer>> answers;
  for (int i = 0; i < 64; ++i) {
    channels.push_back(connect());
    answers.push_back(start_call(*channels.back(), "/echo", Payload(str_cat(i))));
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(answers[i].get().payload.flatten(), str_cat(i));
}

TEST_F(ShmTransportTest, NothingIsLeftBehind) {
  clock_->call_at(clock_->now(), [] {});  // its thread stays
  const int descriptors = test::count_entries("/proc/self/fd");
  const int threads = test::count_entries("/proc/self/task");
  for (int round = 0; round < 20; ++round) {
    start();
    std::vector<std::future<Answer>> answers;
    for (int i = 0; i < 10; ++i) {
      const BufferPtr buffer = client_->shared_allocator().allocate(100'000);
      Payload request;
      append_buffer(request, buffer);
      answers.push_back(start_call(*channel_, i % 2 ? "/echo" : "/wait", request));
    }
    // Stopped in any order, at any moment.
    if (round % 3 == 0) server_->stop();
    if (round % 3 == 1) client_->stop();
    if (round % 3 == 2) channel_.reset();
    for (auto& answer : answers) answer.wait();
    answers.clear();
    channel_.reset();
    server_.reset();
    client_.reset();
    EXPECT_EQ(test::count_mappings(), 0);
    EXPECT_EQ(test::count_entries("/proc/self/fd"), descriptors);
  }
  wait_until([&] { return test::count_entries("/proc/self/task") <= threads; });
}

TEST_F(ShmTransportTest, MessagesThatAreTooLargeAreNotSent) {
  ShmOptions limited = options("limited");
  limited.message_bytes = 100'000;
  auto server = ShmTransport::create(limited, &handler_).value_or_throw();
  auto client = ShmTransport::create(limited, nullptr).value_or_throw();
  auto channel = client->connect(server->name(), nullptr).value_or_throw();
  EXPECT_TRUE(call(*channel, "/echo", Payload(std::string(100'000, 'x'))).status.ok());
  const Status request = call(*channel, "/echo", Payload(std::string(100'001, 'x'))).status;
  EXPECT_EQ(request.code(), Code::kResourceExhausted) << request.to_string();
  EXPECT_EQ(handler_.calls, 1);
  const Status reply = call(*channel, "/make", Payload("100001")).status;
  EXPECT_EQ(reply.code(), Code::kResourceExhausted) << reply.to_string();
  EXPECT_TRUE(call(*channel, "/echo", Payload("goes on")).status.ok());
}

TEST_F(ShmTransportTest, MessagesThatAreTooLargeAreNotTaken) {
  start();
  ShmOptions limited = options("limited");
  limited.message_bytes = 100'000;
  limited.segment_bytes = 0;
  auto server = ShmTransport::create(limited, &handler_).value_or_throw();
  // By reference, through the ring, and both.
  auto without = options("no segments");
  without.segment_bytes = 0;
  auto copies = ShmTransport::create(without, nullptr).value_or_throw();
  for (ShmTransport* client : {client_.get(), copies.get()}) {
    auto channel = client->connect(server->name(), nullptr).value_or_throw();
    Payload both(std::string(20'000, 'x'));
    append_buffer(both, client->shared_allocator().allocate(100'000));
    for (const Payload& request : {Payload(std::string(5'000'000, 'x')), both}) {
      const Status status = call(*channel, "/echo", request).status;
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
    }
    EXPECT_EQ(call(*channel, "/echo", Payload("goes on")).payload.flatten(), "goes on");
  }
  // A reply that its caller does not take.
  auto small = ShmTransport::create(limited, nullptr).value_or_throw();
  auto channel = small->connect(server_->name(), nullptr).value_or_throw();
  const Status reply = call(*channel, "/make", Payload("1000000")).status;
  EXPECT_EQ(reply.code(), Code::kResourceExhausted) << reply.to_string();
  EXPECT_NE(reply.message().find("/job:ps/replica:0/task:0"), std::string::npos) << reply.to_string();
  EXPECT_EQ(call(*channel, "/echo", Payload("goes on")).payload.flatten(), "goes on");
  wait_until([&] { return lent_by_client() == 0 && server_->shared_allocator().stats().bytes_in_use == 0; });
}

TEST_F(ShmTransportTest, RequestsThatWaitForTheirReplyAreBounded) {
  ShmOptions limited = options("limited");
  limited.connection_bytes = 100'000;
  auto server = ShmTransport::create(limited, &handler_).value_or_throw();
  auto client = ShmTransport::create(options("client"), nullptr).value_or_throw();
  auto channel = client->connect(server->name(), nullptr).value_or_throw();
  Cancellation cancellation;
  auto first = start_call(*channel, "/wait", Payload(std::string(200'000, 'x')), {.cancellation = &cancellation});
  wait_until([&] { return handler_.waiting == 1; });
  const Status second = call(*channel, "/echo", Payload("x")).status;
  EXPECT_EQ(second.code(), Code::kResourceExhausted) << second.to_string();
  EXPECT_TRUE(call(*channel, "/echo").status.ok());
  cancellation.cancel(aborted("enough"));
  EXPECT_EQ(first.get().status, aborted("enough"));
  wait_until([&] { return call(*channel, "/echo", Payload("x")).status.ok(); });
}

// Has no memory.
class PoorHandler : public CallHandler {
 public:
  void handle(IncomingCall, Reply) override { throw std::bad_alloc(); }
};

TEST_F(ShmTransportTest, AHandlerWithoutMemorySaysSo) {
  PoorHandler poor;
  auto server = ShmTransport::create(options("poor"), &poor).value_or_throw();
  auto client = ShmTransport::create(options("client"), nullptr).value_or_throw();
  auto channel = client->connect(server->name(), nullptr).value_or_throw();
  const Status status = call(*channel, "/any").status;
  EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.to_string();
}

// Works until it is told to stop.
class BusyHandler : public CallHandler {
 public:
  void handle(IncomingCall call, Reply reply) override {
    if (call.method == "/work") {
      ++working;
      while (!stop) std::this_thread::yield();
    }
    reply({}, {});
  }
  std::atomic<int> working{0};
  std::atomic<bool> stop{false};
};

TEST_F(ShmTransportTest, HandlersAtWorkDoNotKeepOthersFromBeingHeard) {
  BusyHandler busy;
  ShmOptions with_threads = options("busy");
  with_threads.threads = 2;
  auto server = ShmTransport::create(with_threads, &busy).value_or_throw();
  auto client = ShmTransport::create(options("client"), nullptr).value_or_throw();
  auto channel = client->connect(server->name(), nullptr).value_or_throw();
  std::vector<std::future<Answer>> working;
  for (int i = 0; i < 2; ++i) working.push_back(start_call(*channel, "/work"));
  wait_until([&] { return busy.working == 2; });
  EXPECT_TRUE(call(*channel, "/quick").status.ok());
  busy.stop = true;
  for (auto& future : working) EXPECT_TRUE(future.get().status.ok());
}

// A thread that waits for a reply takes it in itself, and nothing else ends on it.
TEST_F(ShmTransportTest, AThreadThatWaitsHelps) {
  start();
  (void)call(*channel_, "/echo");  // looked at is who has sent something
  for (int round = 0; round < 200; ++round) {
    std::atomic<bool> done{false};
    std::atomic<bool> other_here{false};
    const auto me = std::this_thread::get_id();
    std::promise<void> other_done;
    channel_->call("/echo", Payload("other"), {}, [&](const Status&, const Payload&) {
      other_here = std::this_thread::get_id() == me;
      other_done.set_value();
    });
    CallOptions options;
    options.waiter = &done;
    Payload answer;
    channel_->call("/echo", Payload("mine"), options, [&](const Status&, const Payload& payload) {
      answer = payload;
      done = true;
    });
    client_->help(&done, done, 1ms);
    wait_until([&done] { return done.load(); });
    EXPECT_EQ(answer.flatten(), "mine");
    other_done.get_future().get();
    EXPECT_FALSE(other_here);
  }
}

TEST_F(ShmTransportTest, HelpEndsWhenNothingComes) {
  start();
  (void)call(*channel_, "/echo");
  const std::atomic<bool> done{false};
  client_->help(&done, done, 1ms);
  EXPECT_EQ(call(*channel_, "/echo", Payload("after")).payload.flatten(), "after");
}

// Those who look and those who sleep take turns; no message is lost between them.
TEST_F(ShmTransportTest, NoWakeUpIsLostBetweenLookingAndSleeping) {
  start();
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(call(*channel_, "/echo", Payload("x")).payload.flatten(), "x");
    if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
  }
}

TEST_F(ShmTransportTest, QuickCallsAreHandledBeforeOthers) {
  ShmOptions quick = options("/job:ps/replica:0/task:0");
  quick.quick = [](std::string_view method) { return method == "/who"; };
  server_ = ShmTransport::create(quick, &handler_).value_or_throw();
  client_ = ShmTransport::create(options("/job:worker/replica:0/task:1"), nullptr).value_or_throw();
  channel_ = connect();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(call(*channel_, "/who").payload.flatten(), "/job:worker/replica:0/task:1");
    EXPECT_EQ(call(*channel_, "/echo", Payload("x")).payload.flatten(), "x");
  }
  EXPECT_EQ(handler_.calls, 200);
}

// Copying a large reply takes long; what the peer says meanwhile, its heartbeats among it, is heard.
TEST_F(ShmTransportTest, ALargeReplyToAQuickCallDoesNotKeepTheOthersWaiting) {
  class Large : public CallHandler {
   public:
    Large() { append_buffer(large_, heap_allocator().allocate(std::size_t{256} << 20)); }
    void handle(IncomingCall call, Reply reply) override { reply({}, call.method == "/large" ? large_ : Payload()); }

   private:
    Payload large_;
  };
  Large handler;
  ShmOptions quick = options("/job:ps/replica:0/task:0");
  quick.quick = [](std::string_view) { return true; };
  server_ = ShmTransport::create(quick, &handler).value_or_throw();
  client_ = ShmTransport::create(options("/job:worker/replica:0/task:1"), nullptr).value_or_throw();
  channel_ = connect();
  std::vector<std::string> ended;
  Mutex mu;
  const auto start = [&](std::string_view method, std::promise<std::size_t>& size) {
    channel_->call(method, {}, {}, [&, method](const Status&, const Payload& payload) {
      {
        MutexLock lock(mu);
        ended.emplace_back(method);
      }
      size.set_value(payload.size());
    });
  };
  std::promise<std::size_t> large, small;
  start("/large", large);
  start("/small", small);
  EXPECT_EQ(small.get_future().get(), 0u);
  EXPECT_EQ(large.get_future().get(), std::size_t{256} << 20);
  EXPECT_EQ(ended, (std::vector<std::string>{"/small", "/large"}));
}

// Values that were given back quietly come back with the next message, or when there are many.
TEST_F(ShmTransportTest, SmallValuesAreGivenBackInTime) {
  start();
  const auto lent = [this] { return server_->shared_allocator().stats().bytes_in_use; };
  const auto before = lent();
  for (int i = 0; i < 10; ++i) (void)call(*channel_, "/make", Payload("40000"));
  (void)call(*channel_, "/echo");
  wait_until([&] { return lent() == before; });
  std::vector<Answer> held;
  for (int i = 0; i < 64; ++i) held.push_back(call(*channel_, "/make", Payload("40000")));
  EXPECT_GT(lent(), before);
  held.clear();  // the last of them rings
  wait_until([&] { return lent() == before; });
  Answer large = call(*channel_, "/make", Payload("2000000"));
  large = {};
  wait_until([&] { return lent() == before; });
}

}  // namespace tutti::shm_transport_test
