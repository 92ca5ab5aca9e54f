#include "tutti/distributed/rpc/grpc_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "raw_connection.h"
#include "rpc_fixture.h"
#include "tests/support/held_ports.h"
#include "tests/support/threads.h"

namespace tutti::test::grpc_transport_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Payload payload_of(std::size_t bytes) {
  auto text = std::make_shared<std::string>(bytes, '\0');
  for (std::size_t i = 0; i < bytes; i += 4093) (*text)[i] = static_cast<char>(i * 7 + 1);
  Payload payload;
  const std::span<const std::byte> all = std::as_bytes(std::span(*text));
  payload.append(all.first(bytes / 3), text);
  payload.append(all.subspan(bytes / 3), text);
  return payload;
}

TEST(GrpcTransport, EchoesMessagesOfAnySize) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  for (const std::size_t bytes : {0, 1, 255, 256, 257, 4096, 65535, 65536, 1 << 20, 256 << 20}) {
    const Payload sent = payload_of(bytes);
    const Answer answer = call(*channel, sent);
    ASSERT_TRUE(answer.status.ok()) << bytes << ": " << answer.status.to_string();
    EXPECT_EQ(answer.payload.size(), bytes);
    EXPECT_TRUE(answer.payload.flatten() == sent.flatten()) << bytes;
  }
}

TEST(GrpcTransport, HandlerSeesMethodAndConnection) {
  std::string method;
  std::string connection;
  FunctionHandler handler([&](const IncomingCall& call, const CallHandler::Reply& reply) {
    method = call.method;
    connection = call.connection;
    EXPECT_EQ(call.peer_task, "");
    reply({}, {});
  });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server), "/job:ps/replica:0/task:1");
  ASSERT_TRUE(call(*channel, {}, {}, "/tensorflow.WorkerService/GetStatus").status.ok());
  EXPECT_EQ(method, "/tensorflow.WorkerService/GetStatus");
  EXPECT_EQ(connection.substr(0, 15), "ipv4:127.0.0.1:");
  EXPECT_EQ(channel->describe(), "grpc://" + address_of(*server) + " (/job:ps/replica:0/task:1)");
}

TEST(GrpcTransport, StatusesCrossUnchanged) {
  FunctionHandler handler([](const IncomingCall& call, const CallHandler::Reply& reply) {
    const std::string text = call.request.flatten();
    reply(Status(static_cast<Code>(text[0]), text.substr(1)), Payload("ignored"));
  });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  for (int code = 1; code <= static_cast<int>(Code::kUnauthenticated); ++code) {
    const std::string text = str_cat("node \"\xc3\xa4/\xe6\x97\xa5\": 100% of\n", code, " things");
    const Answer answer = call(*channel, Payload(static_cast<char>(code) + text));
    EXPECT_EQ(answer.status, Status(static_cast<Code>(code), text));
    EXPECT_TRUE(answer.payload.empty());
  }
  for (const Code code : {Code::kUnavailable, Code::kDeadlineExceeded, Code::kUnknown, Code::kCancelled}) {
    for (const char* text : {"failed to connect to all addresses", "Socket closed", "Deadline Exceeded", ""}) {
      const Answer answer = call(*channel, Payload(static_cast<char>(code) + std::string(text)));
      EXPECT_EQ(answer.status, Status(code, text)) << "the peer's own, not one of this connection";
    }
  }
  const Answer ascii = call(*channel, Payload('\x0d' + std::string(1 << 20, 'a')));
  EXPECT_EQ(ascii.status, internal_error(std::string(3072, 'a'), " ... [truncated]"));
  std::string wide;
  while (wide.size() < 100'000) wide += "\xf0\x9f\x8e\xb5";
  const Answer unicode = call(*channel, Payload('\x0d' + wide));
  EXPECT_EQ(unicode.status.code(), Code::kInternal);
  EXPECT_EQ(unicode.status.message(), wide.substr(0, 2048) + " ... [truncated]");
}

TEST(GrpcTransport, ManyWaitingCallsTakeNoThreads) {
  WaitingHandler handler;
  GrpcServerOptions options = local_options();
  options.limits.calls_per_connection = 2000;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  answers.push_back(begin_call(*channel, Payload("first")));
  ASSERT_TRUE(handler.wait_for_calls(1));
  const int threads = count_threads();
  for (int i = 1; i < 1000; ++i) answers.push_back(begin_call(*channel, Payload("more")));
  ASSERT_TRUE(handler.wait_for_calls(1000));
  EXPECT_LT(count_threads(), threads + 200) << "gRPC has some of its own, and starts more when the machine is slow";
  handler.answer_all();
  for (PendingAnswer& answer : answers) EXPECT_EQ(answer.wait().payload.flatten(), "late");
}

// Handlers that take long on all threads but the last do not keep the server from answering.
TEST(GrpcTransport, LongHandlersLeaveAThreadToListen) {
  std::promise<void> release;
  std::shared_future<void> released = release.get_future().share();
  std::atomic<int> begun{0};
  FunctionHandler handler([&](const IncomingCall& call, const CallHandler::Reply& reply) {
    if (call.method == "/s/Long") {
      ++begun;
      released.wait_for(kPatience);
    }
    reply({}, {});
  });
  GrpcServerOptions options = local_options();
  options.threads = 2;
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 2; ++i) answers.push_back(begin_call(*channel, {}, {}, "/s/Long"));
  while (begun.load() < 2) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(call(*channel, {}, {}, "/s/Short").status.ok());
  EXPECT_FALSE(answers[0].ended());
  release.set_value();
  for (PendingAnswer& answer : answers) EXPECT_TRUE(answer.wait().status.ok());
}

// The threads of a server serve the clients beside it before it is open, while it is, and when it has stopped.
TEST(GrpcTransport, AClientCallsOnTheThreadsOfAServer) {
  FunctionHandler handler = echo_handler();
  auto other = start_server(handler);
  GrpcServer own(local_options());  // goes before its handler
  GrpcClient client({.server = &own});
  auto there = client.channel(address_of(*other));
  EXPECT_EQ(call(*there, Payload("x")).payload.flatten(), "x");
  ASSERT_TRUE(own.open(handler).ok());
  auto here = client.channel(address_of(own));
  EXPECT_EQ(call(*here, Payload("y")).payload.flatten(), "y");
  own.stop();
  EXPECT_EQ(call(*here, Payload("y")).status.code(), Code::kUnavailable);
  EXPECT_EQ(call(*there, Payload("z")).payload.flatten(), "z");
}

// Calls that are answered when calls that they make have ended, on the same threads.
TEST(GrpcTransport, HandlersCallOnTheThreadsThatRunThem) {
  constexpr int kCalls = 40;
  FunctionHandler echo = echo_handler();
  auto other = start_server(echo);
  std::shared_ptr<Channel> onward;
  FunctionHandler handler([&](IncomingCall incoming, const CallHandler::Reply& reply) {
    onward->call("/s/Onward", std::move(incoming.request), {}, reply);
  });
  GrpcServer own(local_options());
  GrpcClient beside({.server = &own});
  onward = beside.channel(address_of(*other));
  ASSERT_TRUE(own.open(handler).ok());
  GrpcClient client({});
  auto channel = client.channel(address_of(own));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < kCalls; ++i) answers.push_back(begin_call(*channel, Payload(str_cat(i))));
  for (int i = 0; i < kCalls; ++i) EXPECT_EQ(answers[i].wait().payload.flatten(), str_cat(i));
}

// One caller after the other, and many at once: the threads change between the two ways of sharing the queue.
TEST(GrpcTransport, ShortAndLongHandlersTakeTurns) {
  FunctionHandler handler([](const IncomingCall& call, const CallHandler::Reply& reply) {
    if (call.request.size() > 1) std::this_thread::sleep_for(milliseconds(1));
    reply({}, call.request);
  });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 60; ++k) {
        const std::string text(static_cast<std::size_t>(1 + (i + k) % 2), 'x');
        if (call(*channel, Payload(text)).payload.flatten() != text) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(GrpcTransport, CancellingEndsTheCallWithItsCauseAndTellsTheServer) {
  std::promise<void> begun;
  std::promise<void> told;
  FunctionHandler handler = cancellable_handler([&] { begun.set_value(); }, [&] { told.set_value(); });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  Cancellation cancellation;
  PendingAnswer answer = begin_call(*channel, Payload("x"), {.cancellation = &cancellation});
  ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  cancellation.cancel(aborted("step 7 was given up"));
  EXPECT_EQ(answer.wait().status, aborted("step 7 was given up"));
  EXPECT_EQ(told.get_future().wait_for(kPatience), std::future_status::ready);
}

TEST(GrpcTransport, CancelledBeforeIsNeverSent) {
  FunctionHandler handler([](const IncomingCall&, const CallHandler::Reply& reply) {
    ADD_FAILURE();
    reply({}, {});
  });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  Cancellation cancellation;
  cancellation.cancel(aborted("early"));
  EXPECT_EQ(call(*channel, Payload("x"), {.cancellation = &cancellation}).status, aborted("early"));
}

TEST(GrpcTransport, CancellationMayGoRightAfterDone) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::atomic<int> ended{0};
  constexpr int kCalls = 1000;
  for (int i = 0; i < kCalls; ++i) {
    auto cancellation = std::make_shared<Cancellation>();
    Cancellation* raw = cancellation.get();
    channel->call("/s/M", Payload("x"), {.cancellation = raw},
                  [&ended, cancellation = std::move(cancellation)](Status, Payload) mutable {
                    cancellation.reset();
                    ++ended;
                  });
    while (ended.load() < i - 100) std::this_thread::yield();
  }
  while (ended.load() < kCalls) std::this_thread::yield();
}

TEST(GrpcTransport, CancellingRacesWithTheAnswer) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  int answered = 0;
  for (int i = 0; i < 300; ++i) {
    Cancellation cancellation;
    std::thread canceller([&] {
      for (int spins = 0; spins < i * 30; ++spins) std::atomic_thread_fence(std::memory_order_seq_cst);
      cancellation.cancel(aborted("raced"));
    });
    const Answer answer = call(*channel, Payload("x"), {.cancellation = &cancellation});
    canceller.join();
    if (answer.status.ok()) {
      ++answered;
    } else {
      EXPECT_EQ(answer.status, aborted("raced"));
    }
  }
  RecordProperty("answered", answered);
}

TEST(GrpcTransport, DeadlineEndsTheCallAndTellsTheServer) {
  std::atomic<int> begun = 0, told = 0;
  FunctionHandler handler = cancellable_handler([&] { ++begun; }, [&] { ++told; });
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  ASSERT_EQ(call(*channel, {}, {.deadline = steady_clock::now() - milliseconds(1)}).status.code(),
            Code::kDeadlineExceeded);
  // On a slow machine a short deadline may pass before the server has heard of the call.
  Answer answer;
  for (milliseconds limit(300); begun == 0 && limit < kPatience; limit *= 2) {
    answer = call(*channel, Payload("x"), {.deadline = steady_clock::now() + limit, .wait_for_ready = true});
    ASSERT_EQ(answer.status.code(), Code::kDeadlineExceeded);
  }
  EXPECT_EQ(answer.status.message(),
            "grpc://" + address_of(*server) + ": no answer to /test.Service/Method before the deadline");
  EXPECT_GT(begun, 0);
  const auto limit = steady_clock::now() + kPatience;
  while (told < begun && steady_clock::now() < limit) std::this_thread::yield();
  EXPECT_EQ(told, begun);
}

TEST(GrpcTransport, FarDeadlinesDoNotOverflow) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  EXPECT_TRUE(call(*channel, {}, {.deadline = TimePoint::max()}).status.ok());
  EXPECT_EQ(call(*channel, {}, {.deadline = TimePoint::min()}).status.code(), Code::kDeadlineExceeded);
}

TEST(GrpcTransport, FailsAtOnceWhenNobodyListens) {
  GrpcClient client({});
  const HeldPorts ports(1);
  const std::string address = str_cat("127.0.0.1:", ports[0]);
  auto channel = client.channel(address, "/job:ps/replica:0/task:0");
  const Answer answer = call(*channel, Payload("x"));
  EXPECT_EQ(answer.status.code(), Code::kUnavailable);
  EXPECT_EQ(answer.status.message().find("grpc://" + address +
                                         " (/job:ps/replica:0/task:0): cannot connect; the call was not sent"),
            0u)
      << answer.status.to_string();
  EXPECT_NE(answer.status.message().find("Connection refused"), std::string::npos) << answer.status.to_string();
}

TEST(GrpcTransport, WaitsForAServerThatIsNotThereYet) {
  GrpcClient client({});
  const HeldPorts ports(1);
  auto channel = client.channel(str_cat("127.0.0.1:", ports[0]));
  ASSERT_EQ(call(*channel, {}).status.code(), Code::kUnavailable);
  PendingAnswer answer = begin_call(*channel, Payload("hello"), {.wait_for_ready = true});
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler, local_options(ports[0]));
  EXPECT_EQ(answer.wait().payload.flatten(), "hello");
}

TEST(GrpcTransport, WaitingForAServerEndsWithDeadlineOrCancellation) {
  GrpcClient client({});
  const HeldPorts ports(1);
  auto channel = client.channel(str_cat("127.0.0.1:", ports[0]));
  const auto soon = steady_clock::now() + milliseconds(100);
  EXPECT_EQ(call(*channel, {}, {.deadline = soon, .wait_for_ready = true}).status.code(), Code::kDeadlineExceeded);
  Cancellation cancellation;
  PendingAnswer answer = begin_call(*channel, {}, {.wait_for_ready = true, .cancellation = &cancellation});
  cancellation.cancel(aborted("enough"));
  EXPECT_EQ(answer.wait().status, aborted("enough"));
}

TEST(GrpcTransport, FindsAServerThatWasRestartedOnItsPort) {
  FunctionHandler handler = echo_handler();
  const HeldPorts ports(1);
  auto server = start_server(handler, local_options(ports[0]));
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  ASSERT_TRUE(call(*channel, Payload("a")).status.ok());
  for (int round = 0; round < 3; ++round) {
    server.reset();
    EXPECT_EQ(call(*channel, Payload("b")).status.code(), Code::kUnavailable);
    server = start_server(handler, local_options(ports[0]));
    ASSERT_NE(server, nullptr);
    const Answer answer = call(*channel, Payload("c"), {.wait_for_ready = true});
    EXPECT_EQ(answer.payload.flatten(), "c") << answer.status.to_string();
  }
}

// What the server knows of a connection then is that it has sent much and no complete request.
TEST(GrpcTransport, TheFirstMessageOfAConnectionMayBeLarge) {
  FunctionHandler handler = echo_handler();
  for (const char* address : {"127.0.0.1:0", "[::1]:0", "localhost:0"}) {
    GrpcServerOptions options = local_options();
    options.address = address;
    auto server = GrpcServer::start(options, handler);
    if (!server.ok() && address == std::string("[::1]:0")) continue;  // a host without IPv6
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    const std::string host(address, std::string(address).rfind(':'));
    for (int i = 0; i < 3; ++i) {
      GrpcClient client({});
      auto channel = client.channel(str_cat(host, ":", (*server)->port()));
      const Answer answer = call(*channel, Payload(std::string(64 << 20, 'x')));
      ASSERT_TRUE(answer.status.ok()) << address << ": " << answer.status.to_string();
      EXPECT_EQ(answer.payload.size(), 64u << 20);
    }
  }
}

TEST(GrpcTransport, ATakenPortIsAnError) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  auto second = GrpcServer::start(local_options(server->port()), handler);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnknown);
  EXPECT_EQ(second.status().message(),
            "could not start gRPC server: " + address_of(*server) + " is in use by another server");
}

TEST(GrpcTransport, BadAddressesAreErrors) {
  FunctionHandler handler = echo_handler();
  for (const char* address : {"", "localhost", "127.0.0.1:", "127.0.0.1:port", "127.0.0.1:70000", "127.0.0.1:-1"}) {
    GrpcServerOptions options;
    options.address = address;
    EXPECT_EQ(GrpcServer::start(options, handler).status().code(), Code::kInvalidArgument) << address;
  }
  GrpcServerOptions options;
  options.address = "192.0.2.1:0";  // an address for documentation, nobody's
  options.security.insecure = true;
  EXPECT_EQ(GrpcServer::start(options, handler).status().code(), Code::kUnknown);
}

TEST(GrpcTransport, SeveralServersInOneProcess) {
  std::vector<std::unique_ptr<FunctionHandler>> handlers;
  std::vector<std::unique_ptr<GrpcServer>> servers;
  for (int i = 0; i < 8; ++i) {
    handlers.push_back(std::make_unique<FunctionHandler>(
        [i](const IncomingCall&, const CallHandler::Reply& reply) { reply({}, Payload(str_cat("server ", i))); }));
    servers.push_back(start_server(*handlers.back()));
  }
  GrpcClient client({});
  for (int i = 0; i < 8; ++i) {
    auto channel = client.channel(address_of(*servers[i]));
    EXPECT_EQ(call(*channel, {}).payload.flatten(), str_cat("server ", i));
  }
}

}  // namespace tutti::test::grpc_transport_test
