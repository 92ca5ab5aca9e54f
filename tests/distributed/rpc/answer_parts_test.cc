#include "tutti/distributed/rpc/internal/answer_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <thread>

#include "rpc_fixture.h"

namespace tutti::test::answer_parts_test {

using namespace rpc_internal;

// Pieces of these sizes, no two bytes of which are alike for long.
Payload answer_of(const std::vector<std::size_t>& sizes) {
  Payload answer;
  std::mt19937 random(1);
  for (const std::size_t size : sizes) {
    std::string bytes(size, '\0');
    for (std::size_t i = 0; i < size; i += 97) bytes[i] = static_cast<char>(random());
    answer.append(std::move(bytes));
  }
  return answer;
}

Payload outline_with(const std::vector<std::uint64_t>& sizes) {
  return Payload(std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(sizes[0])));
}

class KeptAnswersTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBytes = 5 * kPartBytes / 2;

  std::string keep() { return keep(answer_, "first"); }
  std::string keep(const Payload& answer, const std::string& connection) {
    return kept_.keep(answer, "/job:ps", connection, now_);
  }
  Result<Payload> take(const std::string& name, std::uint64_t part, const std::string& task = "/job:ps") {
    return kept_.take(Payload(part_request(name, part)), task, now_);
  }

  const Payload answer_ = answer_of({kBytes});
  KeptAnswers kept_{3 * kBytes, kBytes};
  TimePoint now_{};
};

TEST_F(KeptAnswersTest, GivesEachPartAsOftenAsItIsAskedFor) {
  const std::string name = keep();
  for (int round = 0; round < 2; ++round) {
    std::string all;
    for (const std::uint64_t part : {0, 1, 2}) all += take(name, part).value_or_throw().flatten();
    EXPECT_TRUE(all == answer_.flatten());
  }
}

TEST_F(KeptAnswersTest, IsDropped) {
  const std::string first = keep(), second = keep(), third = keep();
  kept_.drop(first);
  kept_.drop("unknown");
  EXPECT_EQ(kept_.take(Payload(drop_request(second)), "/job:worker", now_).status().code(), Code::kUnavailable);
  EXPECT_TRUE(kept_.take(Payload(drop_request(second)), "/job:ps", now_).ok());
  EXPECT_FALSE(take(first, 0).ok() || take(second, 0).ok());
  EXPECT_TRUE(take(third, 0).ok());
  EXPECT_FALSE(kept_.empty());
  kept_.clear();
  EXPECT_TRUE(kept_.empty());
  EXPECT_NE(keep(), "");
}

TEST_F(KeptAnswersTest, OnlyToTheTaskThatItIsFor) {
  const std::string name = keep();
  EXPECT_EQ(take(name, 0, "/job:worker").status().code(), Code::kUnavailable);
  EXPECT_EQ(take(name + "0", 0).status().code(), Code::kUnavailable);
  EXPECT_TRUE(take(name, 0).ok());
}

TEST_F(KeptAnswersTest, WhatNobodyAsksForIsForgotten) {
  const std::string slow = keep(), left = keep();
  now_ += kKeptFor - std::chrono::seconds(1);
  EXPECT_TRUE(take(slow, 0).ok());
  now_ += std::chrono::seconds(1);
  kept_.forget_old(now_);
  EXPECT_EQ(take(left, 0).status().code(), Code::kUnavailable);
  EXPECT_TRUE(take(slow, 1).ok());
  now_ += kKeptFor;
  kept_.forget_old(now_);
  EXPECT_TRUE(kept_.empty());
}

TEST_F(KeptAnswersTest, NoMoreThanItsBytes) {
  const std::string first = keep();
  EXPECT_NE(keep(), "");
  EXPECT_NE(keep(), first);
  EXPECT_EQ(keep(), "");
  kept_.drop(first);
  EXPECT_NE(keep(), "");
  EXPECT_EQ(keep(), "");
  EXPECT_NE(keep(answer_, "second"), "") << "one that does not take its own keeps nobody else waiting";
  now_ += kKeptFor;
  EXPECT_NE(keep(), "");
}

TEST_F(KeptAnswersTest, WhatCannotBeSentOtherwiseIsKeptAlone) {
  const Payload huge = answer_of({3 * kBytes + 1});
  const std::string name = keep(huge, "first");
  EXPECT_NE(name, "");
  EXPECT_EQ(keep(huge, "first"), "");
  EXPECT_EQ(keep(), "");
  EXPECT_NE(keep(huge, "second"), "");
  kept_.drop(name);
  EXPECT_NE(keep(), "");
}

TEST_F(KeptAnswersTest, MalformedRequests) {
  const std::string name = keep();
  for (const std::string& request : {std::string(), name, name + " ", name + " x", name + " -1", name + " 3",
                                     name + " 99999999999999999999", name + " drops", std::string(1 << 20, ' ')}) {
    EXPECT_EQ(kept_.take(Payload(request), "/job:ps", now_).status().code(), Code::kInvalidArgument)
        << request.substr(0, 60);
  }
}

TEST(GatheredAnswer, IsTheAnswerInWhateverOrderItsPartsCome) {
  for (const std::vector<std::size_t>& sizes :
       std::vector<std::vector<std::size_t>>{{kPartBytes},
                                             {1},
                                             {7, 3 * kPartBytes + 1, 9, 11, kPartBytes - 28, 5},
                                             {100'000, 70'000, 65'536, 65'535, 1, kPartBytes}}) {
    const Payload answer = answer_of(sizes);
    Result<GatheredAnswer> gathered = GatheredAnswer::create(outline_of(answer), answer.size());
    ASSERT_TRUE(gathered.ok()) << gathered.status().to_string();
    for (std::uint64_t part = gathered->num_parts(); part-- > 0;) {
      const std::size_t begin = part * kPartBytes;
      throw_if_error(gathered->put(part, answer.slice(begin, std::min(begin + kPartBytes, answer.size()))));
    }
    EXPECT_TRUE(gathered->answer().flatten() == answer.flatten());
  }
}

TEST(GatheredAnswer, LargePiecesLieAsTensorsDo) {
  const Payload answer = answer_of({5, 1 << 20, 3, 4, 1 << 19});
  const Payload gathered = GatheredAnswer::create(outline_of(answer), answer.size()).value_or_throw().answer();
  ASSERT_EQ(gathered.pieces().size(), 4u) << "neighbours that are small are one";
  for (const int large : {1, 3}) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(gathered.pieces()[large].bytes.data()) % kTensorAlignment, 0u);
  }
}

TEST(GatheredAnswer, MalformedOutlinesAndParts) {
  const auto created = [](const Payload& outline) { return GatheredAnswer::create(outline, 1 << 20).status().code(); };
  EXPECT_EQ(created({}), Code::kDataLoss);
  EXPECT_EQ(created(Payload("seven b")), Code::kDataLoss);
  EXPECT_EQ(created(outline_with({4, 0})), Code::kDataLoss);
  EXPECT_EQ(created(outline_with({4, 4})), Code::kDataLoss) << "neighbours that are small are one";
  EXPECT_EQ(created(outline_with({UINT64_MAX, UINT64_MAX})), Code::kDataLoss);
  EXPECT_EQ(created(Payload(std::string(1 << 20, 'x'))), Code::kDataLoss) << "more pieces than there can be";
  EXPECT_EQ(created(outline_with({1 << 20, 1})), Code::kResourceExhausted);
  auto gathered = GatheredAnswer::create(outline_with({100}), 100).value_or_throw();
  EXPECT_EQ(gathered.put(0, Payload(std::string(99, 'x'))).code(), Code::kDataLoss);
  EXPECT_EQ(gathered.put(0, Payload(std::string(101, 'x'))).code(), Code::kDataLoss);
  EXPECT_EQ(gathered.put(1, {}).code(), Code::kDataLoss);
  EXPECT_EQ(gathered.put(UINT64_MAX, {}).code(), Code::kDataLoss);
  EXPECT_TRUE(gathered.put(0, Payload(std::string(100, 'x'))).ok());
}

// Over the wire.

constexpr std::size_t kLarge = std::size_t{33} << 20;

FunctionHandler large_handler() {
  return FunctionHandler(
      [large = answer_of({kLarge})](const IncomingCall&, const CallHandler::Reply& reply) { reply({}, large); });
}

TEST(AnswerParts, ManyLargeAnswersAtATime) {
  FunctionHandler handler = echo_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  const Payload sent = answer_of({1000, kLarge, 1000});
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 8; ++i) answers.push_back(begin_call(*channel, sent));
  for (PendingAnswer& pending : answers) {
    const Answer answer = pending.wait();
    EXPECT_TRUE(answer.payload.flatten() == sent.flatten()) << answer.status.to_string();
  }
}

// gRPC has no message as long.
TEST(AnswerParts, MoreThan2GiB) {
  auto block = std::make_shared<std::string>(64 << 20, 'x');
  Payload sent;
  for (int i = 0; i < 33; ++i) sent.append(std::as_bytes(std::span(*block)), block);
  FunctionHandler handler([&](const IncomingCall&, const CallHandler::Reply& reply) { reply({}, sent); });
  auto server = start_server(handler);
  GrpcClient client({.message_bytes = std::size_t{4} << 30});
  auto channel = client.channel(address_of(*server));
  const Answer answer = call(*channel, {});
  ASSERT_TRUE(answer.status.ok()) << answer.status.to_string();
  ASSERT_EQ(answer.payload.size(), sent.size());
  for (const Payload::Piece& piece : answer.payload.pieces()) EXPECT_TRUE(piece.view() == *block);
}

TEST(AnswerParts, WhereTooMuchIsKeptItGoesWhole) {
  FunctionHandler handler = large_handler();
  GrpcServerOptions options = local_options();
  options.limits.connection_bytes = kLarge + (1 << 20);
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(begin_call(*channel, {}));
  const std::string large = answer_of({kLarge}).flatten();
  for (PendingAnswer& pending : answers) {
    const Answer answer = pending.wait();
    EXPECT_TRUE(answer.payload.flatten() == large) << answer.status.to_string();
  }
}

TEST(AnswerParts, ALimitThatKeepsPartsAwayLosesTheAnswer) {
  FunctionHandler handler = large_handler();
  GrpcServerOptions options = local_options();
  options.limits.calls_per_second = 4;  // the answer has 17 parts
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  const Status status = call(*channel, {}).status;
  EXPECT_EQ(status.code(), Code::kUnavailable) << status.to_string();
  EXPECT_NE(status.message().find("was lost"), std::string::npos) << status.to_string();
}

// However many large answers come at a time, their parts are never more calls than a server takes.
TEST(AnswerParts, PartsOfManyAnswersTakeTurns) {
  constexpr int kAnswers = 36;
  FunctionHandler handler([large = answer_of({4 * kPartBytes})](const IncomingCall&, const CallHandler::Reply& reply) {
    reply({}, large);
  });
  GrpcServerOptions options = local_options();
  options.limits.calls_per_connection = kAnswers + 10;  // half of all parts, over each of two connections, were 72
  auto server = start_server(handler, options);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  ASSERT_TRUE(call(*channel, {}).status.ok());  // connected
  std::vector<PendingAnswer> answers;
  for (int i = 0; i < kAnswers; ++i) answers.push_back(begin_call(*channel, {}));
  for (PendingAnswer& pending : answers) {
    const Answer answer = pending.wait();
    EXPECT_TRUE(answer.status.ok()) << answer.status.to_string();
    EXPECT_EQ(answer.payload.size(), 4 * kPartBytes);
  }
}

// Closing fails those that wait for their turn, too.
TEST(AnswerParts, ClosingEndsPartsThatWaitForTheirTurn) {
  constexpr int kAnswers = 36;
  FunctionHandler handler = large_handler();
  auto server = start_server(handler);
  for (int ms = 0; ms < 30; ms += 5) {
    std::vector<PendingAnswer> answers;
    {
      GrpcClient client({});
      auto channel = client.channel(address_of(*server));
      for (int i = 0; i < kAnswers; ++i) answers.push_back(begin_call(*channel, {}));
      std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    }
    for (PendingAnswer& pending : answers) {
      ASSERT_TRUE(pending.ended()) << "the client waits for its calls";
      const Status status = pending.wait().status;
      EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.to_string();
    }
  }
}

TEST(AnswerParts, CancellingEndsItInAnyPart) {
  FunctionHandler handler = large_handler();
  auto server = start_server(handler);
  GrpcClient client({});
  auto channel = client.channel(address_of(*server));
  for (int ms = 0; ms < 60; ms += 4) {
    Cancellation cancellation;
    PendingAnswer answer = begin_call(*channel, {}, {.cancellation = &cancellation});
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    cancellation.cancel(aborted("enough"));
    const Status status = answer.wait().status;
    EXPECT_TRUE(status.ok() || status == aborted("enough")) << status.to_string();
  }
  EXPECT_TRUE(call(*channel, {}).status.ok());
}

TEST(AnswerParts, AServerThatDiesUnderItIsUnavailable) {
  FunctionHandler handler = large_handler();
  GrpcClient client({});
  for (int ms = 0; ms < 60; ms += 4) {
    auto server = start_server(handler);
    auto channel = client.channel(address_of(*server));
    PendingAnswer answer = begin_call(*channel, {});
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    server->stop();
    const Status status = answer.wait().status;
    EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.to_string();
  }
}

}  // namespace tutti::test::answer_parts_test
