// Ends of servers, clients and channels with calls in every state.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "raw_connection.h"
#include "rpc_fixture.h"
#include "tests/support/held_ports.h"
#include "tests/support/threads.h"

namespace tutti::test::shutdown_test {

TEST(Shutdown, StoppingCancelsHandledCalls) {
  std::atomic<int> begun{0};
  FunctionHandler handler = cancellable_handler([&] { ++begun; });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 100; ++i) answers.push_back(begin_call(*channel, Payload("x")));
  while (begun.load() < 100) std::this_thread::yield();
  server->stop();
  server->stop();
  for (PendingAnswer& answer : answers) EXPECT_EQ(answer.wait().status, unavailable("the server is stopping"));
  EXPECT_EQ(call(*channel, {}).status.code(), Code::kUnavailable);
}

TEST(Shutdown, StoppingWaitsForReplies) {
  WaitingHandler handler;
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  PendingAnswer answer = begin_call(*channel, Payload("x"));
  ASSERT_TRUE(handler.wait_for_calls(1));
  std::atomic<bool> stopped{false};
  std::thread stopper([&] {
    server->stop();
    stopped = true;
  });
  // The caller hears of the end although the handler has not answered.
  EXPECT_EQ(answer.wait().status.code(), Code::kUnavailable);
  EXPECT_FALSE(stopped.load());
  handler.answer_all();
  stopper.join();
}

TEST(Shutdown, AHandlerThatDropsItsReplyIsAnsweredFor) {
  FunctionHandler handler([](const IncomingCall&, const CallHandler::Reply&) {});
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  EXPECT_EQ(call(*channel, {}).status.code(), Code::kInternal);
}

TEST(Shutdown, DestroyingTheChannelEndsItsCalls) {
  WaitingHandler handler;
  auto server = start_server(handler);
  GrpcClient client({});
  auto other = client.channel(address_of(*server));
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 50; ++i) answers.push_back(begin_call(*channel, Payload("x")));
  ASSERT_TRUE(handler.wait_for_calls(50));
  PendingAnswer unharmed = begin_call(*other, Payload("x"));
  ASSERT_TRUE(handler.wait_for_calls(51));
  const std::string name = channel->describe();
  channel.reset();
  for (PendingAnswer& answer : answers) EXPECT_EQ(answer.wait().status, cancelled(name, ": the channel was closed"));
  handler.answer_all();
  EXPECT_TRUE(unharmed.wait().status.ok());
}

TEST(Shutdown, DestroyingTheClientEndsItsCallsAndThreads) {
  WaitingHandler handler;
  auto server = start_server(handler);
  const HeldPorts ports(1);
  std::shared_ptr<Channel> channel;
  std::vector<PendingAnswer> answers;
  {
    GrpcClient client({});
    channel = client.channel(address_of(*server));
    auto nobody = client.channel(str_cat("127.0.0.1:", ports[0]));
    for (int i = 0; i < 50; ++i) answers.push_back(begin_call(*channel, Payload("x")));
    for (int i = 0; i < 50; ++i) answers.push_back(begin_call(*nobody, Payload("x"), {.wait_for_ready = true}));
    ASSERT_TRUE(handler.wait_for_calls(50));
  }
  for (PendingAnswer& answer : answers) {
    ASSERT_TRUE(answer.ended()) << "the client waits for its calls";
    EXPECT_EQ(answer.wait().status.code(), Code::kCancelled);
  }
  EXPECT_EQ(call(*channel, {}).status.code(), Code::kCancelled) << "a channel that is left over";
  handler.answer_all();
}

TEST(Shutdown, CallsFromDoneAndTheLastChannelInDone) {
  FunctionHandler until_cancelled = cancellable_handler([] {});
  FunctionHandler handler([&](IncomingCall call, CallHandler::Reply reply) {
    if (call.method == "/s/First") return reply({}, std::move(call.request));
    until_cancelled.handle(std::move(call), std::move(reply));
  });
  auto server = start_server(handler);
  auto client = std::make_unique<GrpcClient>(GrpcClient::Options{});
  auto channel = client->channel(address_of(*server));
  PendingAnswer second;
  Channel* raw = channel.get();
  raw->call("/s/First", Payload("x"), {},
            [done = second.done(), channel = std::move(channel)](const Status& status, Payload payload) mutable {
              ASSERT_TRUE(status.ok()) << status.to_string();
              Channel& alive = *channel;
              alive.call("/s/Second", std::move(payload), {}, done);
              channel.reset();
            });
  EXPECT_EQ(second.wait().status.code(), Code::kCancelled);
  client.reset();
}

// Calls of every kind are under way when one side ends at a moment that the seed picks.
class Storm {
 public:
  explicit Storm(unsigned seed)
      : large_(std::string(seed % 4 == 0 ? 20 << 20 : 1, 'l')),
        random_(seed),
        handler_([this](IncomingCall call, CallHandler::Reply reply) { handle(std::move(call), std::move(reply)); }) {}

  void run() {
    server_ = start_server(handler_);
    // With some seeds the calls end on the threads of another server.
    GrpcServer beside(local_options());
    client_ = std::make_unique<GrpcClient>(GrpcClient::Options{.server = random_() % 2 == 0 ? &beside : nullptr});
    std::vector<std::shared_ptr<Channel>> channels;
    for (int i = 0; i < 3; ++i) channels.push_back(client_->channel(address_of(*server_)));
    RawConnection half(server_->port());
    half.send(http2_hello().substr(0, 10));
    RawConnection reading(server_->port());
    reading.send(http2_hello() + http2_call(1, "/s/Echo").substr(0, 120));
    constexpr int kCalls = 150;
    const int end_server_at = static_cast<int>(random_() % kCalls);
    const int end_client_at = static_cast<int>(random_() % kCalls);
    const bool end_client_first = random_() % 2 == 0;
    std::thread ender;
    for (int i = 0; i < kCalls; ++i) {
      if (i == end_server_at) {
        ender = std::thread([this] { server_->stop(); });
      }
      if (i == end_client_at && end_client_first) client_.reset();
      begin(*channels[random_() % channels.size()]);
      if (i == kCalls / 2) channels[0] = channels[1];
    }
    client_.reset();
    ender.join();
    server_.reset();
    EXPECT_EQ(done_.load(), kCalls);
    EXPECT_EQ(handled_.load(), answered_.load());
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void begin(Channel& channel) {
    static constexpr const char* kMethods[] = {"/s/Echo", "/s/Large", "/s/Wait", "/s/Thread"};
    const std::size_t bytes = random_() % 8 == 0 ? 1 << 20 : random_() % 500;
    channel.call(kMethods[random_() % 4], Payload(std::string(bytes, 'x')), {.wait_for_ready = random_() % 4 == 0},
                 [this](const Status&, const Payload&) { ++done_; });
  }

  void handle(IncomingCall call, CallHandler::Reply reply) {
    ++handled_;
    auto answer = [this, reply](const Status& status, Payload payload) {
      ++answered_;
      reply(status, std::move(payload));
    };
    if (call.method == "/s/Wait") {
      Cancellation* cancellation = call.cancellation;
      const auto token =
          cancellation->register_callback([cancellation, answer] { answer(cancellation->status(), {}); });
      if (token == 0) answer(cancellation->status(), {});
    } else if (call.method == "/s/Large" && call.request.size() > 400) {
      answer({}, large_);
    } else if (call.method == "/s/Thread") {
      MutexLock lock(mu_);
      threads_.emplace_back([answer, request = std::move(call.request)] { answer({}, request); });
    } else {
      answer({}, std::move(call.request));
    }
  }

  const Payload large_;  // with some seeds it comes in parts
  std::mt19937 random_;
  FunctionHandler handler_;
  std::unique_ptr<GrpcServer> server_;
  std::unique_ptr<GrpcClient> client_;
  std::atomic<int> done_{0};
  std::atomic<int> handled_{0};
  std::atomic<int> answered_{0};
  Mutex mu_;
  std::vector<std::thread> threads_;
};

TEST(Shutdown, AnySideMayEndUnderCallsInAnyState) {
  const int before = count_threads();
  const unsigned rounds = std::getenv("TUTTI_STRESS") != nullptr ? 1000 : 40;
  for (unsigned seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    Storm(seed).run();
  }
  // gRPC keeps a few of its own, and lets others that it had started go after a while.
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (count_threads() >= before + 20 && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LT(count_threads(), before + 20);
}

}  // namespace tutti::test::shutdown_test
