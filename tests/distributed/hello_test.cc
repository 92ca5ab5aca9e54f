#include "tutti/distributed/hello.h"

#include <gtest/gtest.h>

namespace tutti::hello_test {

using namespace std::chrono_literals;

const std::string kWorker = "/job:worker/replica:0/task:0";
const std::string kPs = "/job:ps/replica:0/task:1";

HelloGate::Options gate_options(std::string token = {}) {
  HelloGate::Options options;
  options.self = {.task = kPs, .incarnation = 99, .host_id = "host", .shm_name = "tutti-123"};
  options.token = std::move(token);
  return options;
}

HelloRequest request() {
  return {.task = kWorker, .incarnation = 5, .host_id = "host", .to_task = kPs, .nonce = random_nonce()};
}

class HelloTest : public ::testing::Test {
 protected:
  const TimePoint now_ = TimePoint() + 1h;
};

TEST_F(HelloTest, MessagesThereAndBack) {
  HelloRequest sent = request();
  sent.challenge = std::string("\0c", 2);
  sent.proof = "p";
  HelloRequest got;
  ASSERT_TRUE(decode(encode(sent), got).ok());
  EXPECT_EQ(got.version, kHelloVersion);
  EXPECT_EQ(got.task, sent.task);
  EXPECT_EQ(got.incarnation, 5u);
  EXPECT_EQ(got.host_id, "host");
  EXPECT_EQ(got.to_task, kPs);
  EXPECT_EQ(got.nonce, sent.nonce);
  EXPECT_EQ(got.challenge, sent.challenge);
  EXPECT_EQ(got.proof, "p");
  HelloReply reply;
  ASSERT_TRUE(decode(encode(HelloReply{.task = kPs,
                                       .incarnation = 9,
                                       .shm_name = "s",
                                       .your_task = kWorker,
                                       .shm_ticket = std::string("\0\xff", 2)}),
                     reply)
                  .ok());
  EXPECT_EQ(reply.your_task, kWorker);
  EXPECT_EQ(reply.shm_ticket, std::string("\0\xff", 2));
  EXPECT_EQ(reply.task, kPs);
  EXPECT_EQ(reply.shm_name, "s");
  LeaseRequest lease;
  ASSERT_TRUE(decode(encode(LeaseRequest{.task = kPs, .incarnation = 1, .session_handle = "h"}), lease).ok());
  EXPECT_EQ(lease.session_handle, "h");
  LeaseReply lease_reply;
  ASSERT_TRUE(decode(encode(LeaseReply{.incarnation = 77}), lease_reply).ok());
  EXPECT_EQ(lease_reply.incarnation, 77u);
}

TEST_F(HelloTest, BadMessagesAreRefused) {
  HelloRequest got;
  EXPECT_EQ(decode(Payload(std::string("\xff\xff\xff", 3)), got).code(), Code::kInvalidArgument);
  EXPECT_EQ(decode(Payload(std::string(1 << 20, '\n')), got).code(), Code::kInvalidArgument);
  HelloRequest large = request();
  large.task = std::string(2000, 'x');
  const Status status = decode(encode(large), got);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("HelloRequest.task"), std::string::npos);
}

TEST_F(HelloTest, WithoutATokenOneTurnIsEnough) {
  HelloGate gate(gate_options());
  const auto reply = gate.answer(request(), now_);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->task, kPs);
  EXPECT_EQ(reply->incarnation, 99u);
  EXPECT_EQ(reply->shm_name, "tutti-123");
  EXPECT_TRUE(reply->challenge.empty());
}

TEST_F(HelloTest, AnotherVersionOrTaskIsRefused) {
  HelloGate gate(gate_options());
  HelloRequest hello = request();
  hello.version = 2;
  EXPECT_EQ(gate.answer(hello, now_).status().code(), Code::kUnimplemented);
  hello = request();
  hello.to_task = kWorker;
  const Status status = gate.answer(hello, now_).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_NE(status.message().find(kWorker), std::string::npos);
  EXPECT_NE(status.message().find(kPs), std::string::npos);
  hello.to_task.clear();
  EXPECT_TRUE(gate.answer(hello, now_).ok());
}

TEST_F(HelloTest, WithATokenBothSidesProveThatTheyKnowIt) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest first = request();
  const auto challenge = gate.answer(first, now_);
  ASSERT_TRUE(challenge.ok());
  EXPECT_FALSE(challenge->challenge.empty());
  EXPECT_EQ(challenge->shm_name, "");
  const auto second = answer_challenge(first, *challenge, "secret");
  ASSERT_TRUE(second.ok()) << second.status().to_string();
  const auto reply = gate.answer(*second, now_);
  ASSERT_TRUE(reply.ok()) << reply.status().to_string();
  EXPECT_EQ(reply->shm_name, "tutti-123");
  EXPECT_TRUE(check_reply(*second, *reply, "secret").ok());
}

TEST_F(HelloTest, AReplayedHelloIsRefused) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest first = request();
  const auto second = answer_challenge(first, *gate.answer(first, now_), "secret");
  ASSERT_TRUE(gate.answer(*second, now_).ok());
  EXPECT_EQ(gate.answer(*second, now_).status().code(), Code::kUnauthenticated);
}

TEST_F(HelloTest, AnOldChallengeIsRefused) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest first = request();
  const auto second = answer_challenge(first, *gate.answer(first, now_), "secret");
  EXPECT_EQ(gate.answer(*second, now_ + 31s).status().code(), Code::kUnauthenticated);
}

TEST_F(HelloTest, AProofIsForOneSenderOnly) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest first = request();
  auto second = answer_challenge(first, *gate.answer(first, now_), "secret");
  second->task = "/job:worker/replica:0/task:7";
  EXPECT_EQ(gate.answer(*second, now_).status().code(), Code::kUnauthenticated);
}

TEST_F(HelloTest, WithoutTheTokenNobodyIsBelieved) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest first = request();
  const auto challenge = gate.answer(first, now_);
  EXPECT_EQ(answer_challenge(first, *challenge, "").status().code(), Code::kUnauthenticated);
  // The asking side notices that the peer knows another one, before it proves anything.
  EXPECT_EQ(answer_challenge(first, *challenge, "other").status().code(), Code::kUnauthenticated);
  HelloRequest guess = first;
  guess.challenge = challenge->challenge;
  guess.proof = std::string(32, 'x');
  EXPECT_EQ(gate.answer(guess, now_).status().code(), Code::kUnauthenticated);
  // An open server is no proof to one that wants it.
  HelloGate open(gate_options());
  EXPECT_EQ(check_reply(first, *open.answer(first, now_), "secret").code(), Code::kUnauthenticated);
}

TEST_F(HelloTest, AFloodOfFirstTurnsIsBounded) {
  HelloGate gate(gate_options("secret"));
  const HelloRequest early = request();
  const auto early_second = answer_challenge(early, *gate.answer(early, now_), "secret");
  for (int i = 0; i < 10'001; ++i) ASSERT_TRUE(gate.answer(early, now_).ok());
  EXPECT_EQ(gate.answer(*early_second, now_).status().code(), Code::kUnauthenticated);
  const HelloRequest late = request();
  const auto late_second = answer_challenge(late, *gate.answer(late, now_), "secret");
  EXPECT_TRUE(gate.answer(*late_second, now_).ok());
}

TEST_F(HelloTest, IncarnationsDiffer) {
  EXPECT_NE(random_incarnation(), 0u);
  EXPECT_NE(random_incarnation(), random_incarnation());
}

}  // namespace tutti::hello_test
