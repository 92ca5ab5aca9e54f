#include "tutti/distributed/internal/batched_receive.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/distributed/fake_worker.h"
#include "tests/distributed/test_workers.h"
#include "tutti/distributed/derived_status.h"
#include "tutti/distributed/internal/step_rendezvous.h"

namespace tutti::internal::batched_receive_test {

using testing::key_of;
using testing::task_name;

// Answers RecvTensors when the test says so.
class BatchWorker : public testing::FakeWorker {
 public:
  BatchWorker() : FakeWorker(task_name(1), 101) {}
  testing::FakeMethod<RecvTensorsRequest, RecvTensorsReply> batches;
  void recv_tensors(RecvTensorsRequest request, const CallOptions& options, ReplyDone<RecvTensorsReply> done) override {
    batches.call(std::move(request), options, std::move(done));
  }
};

struct Arrival {
  int count = 0;
  Status status;
  Tensor value;
  bool dead = false;
  Rendezvous::Done done() {
    return [this](Status s, Tensor v, bool d) {
      ++count;
      status = std::move(s);
      value = std::move(v);
      dead = d;
    };
  }
};

RecvTensorsReply reply_with(std::vector<std::pair<std::int64_t, float>> values) {
  RecvTensorsReply reply;
  for (const auto& [index, value] : values) reply.values.push_back({index, Tensor::scalar(value)});
  return reply;
}

class BatchedReceiveTest : public ::testing::Test {
 protected:
  BatchedReceiveTest() {
    directory_.add(task_name(1), peer_);
    peer_.batches.hold();
    peer_.receives.hold();
    rendezvous_->expect(received_, [this](const std::function<void()>& deliver) {
      ++deliveries_;
      deliver();
    });
  }
  ~BatchedReceiveTest() override { rendezvous_->abort(aborted("the test is over")); }
  void recv(const std::string& name, Arrival& arrival) {
    rendezvous_->recv(key_of(1, 0, name), cancellation_, arrival.done());
  }

  const std::string task_ = task_name(0);
  BatchWorker peer_;
  testing::TestDirectory directory_;
  RequestIds ids_{7};
  Cancellation cancellation_;
  int deliveries_ = 0;
  const std::shared_ptr<ReceivedValues> received_ = std::make_shared<ReceivedValues>(
      task_, std::vector<std::string>{key_of(1, 0, "c"), key_of(1, 0, "a"), key_of(0, 0, "own"), key_of(1, 0, "b"),
                                      key_of(1, 0, "a")});
  const std::shared_ptr<StepRendezvous> rendezvous_ = std::make_shared<StepRendezvous>(StepRendezvous::Options{
      .step_id = 42, .task = task_, .peers = &directory_, .request_ids = &ids_, .limit_bytes = 1000});
};

TEST_F(BatchedReceiveTest, ValuesOfOneTaskAreAskedForTogetherAndTheRestAgain) {
  ASSERT_EQ(peer_.batches.count(), 1u);
  const RecvTensorsRequest first = peer_.batches.request(0);
  EXPECT_EQ(first.step_id, 42);
  EXPECT_EQ(first.rendezvous_keys, (std::vector<std::string>{key_of(1, 0, "a"), key_of(1, 0, "b"), key_of(1, 0, "c")}));
  EXPECT_TRUE(rendezvous_->waits_for(task_name(1)));
  EXPECT_FALSE(rendezvous_->waits_for(task_name(1), testing::incarnation_of(1)));
  Arrival a, b, c;
  recv("a", a);
  recv("c", c);
  peer_.batches.answer(0, reply_with({{0, 1.0f}, {2, 3.0f}}));
  EXPECT_EQ(deliveries_, 1);
  EXPECT_EQ(a.value.scalar<float>(), 1.0f);
  EXPECT_EQ(c.value.scalar<float>(), 3.0f);
  ASSERT_EQ(peer_.batches.count(), 2u);
  EXPECT_EQ(peer_.batches.request(1).continues, first.request_id);
  EXPECT_TRUE(peer_.batches.request(1).rendezvous_keys.empty());
  EXPECT_NE(peer_.batches.request(1).request_id, first.request_id);
  RecvTensorsReply dead;
  dead.values.push_back({.index = 1, .tensor = {}});
  peer_.batches.answer(1, dead);
  EXPECT_EQ(peer_.batches.count(), 2u);
  EXPECT_FALSE(rendezvous_->waits_for(task_name(1)));
  recv("b", b);  // it was there before it was wanted
  EXPECT_TRUE(b.status.ok() && b.dead);
  EXPECT_EQ(a.count + b.count + c.count, 3);
  EXPECT_EQ(peer_.receives.count(), 0u);
}

TEST_F(BatchedReceiveTest, AnErrorReachesThoseThatWaitAndThoseThatComeLater) {
  Arrival a, b;
  recv("a", a);
  peer_.batches.answer(0, unavailable("connection lost"));
  recv("b", b);
  EXPECT_EQ(a.status, unavailable("RecvTensor from ", task_name(1), ": connection lost"));
  EXPECT_EQ(b.status, a.status);
  EXPECT_FALSE(rendezvous_->waits_for(task_name(1)));
}

TEST_F(BatchedReceiveTest, DerivedErrorsStayAsTheyAre) {
  Arrival a;
  recv("a", a);
  peer_.batches.answer(0, derived_from(task_name(3), invalid_argument("bad")));
  EXPECT_EQ(a.status, derived_from(task_name(3), invalid_argument("bad")));
}

TEST_F(BatchedReceiveTest, AnAbortCancelsTheCall) {
  Arrival a;
  recv("a", a);
  rendezvous_->abort(aborted("first"));
  EXPECT_EQ(a.count, 1);
  EXPECT_EQ(a.status, aborted("first"));
  EXPECT_TRUE(peer_.batches.answered(0));
}

TEST_F(BatchedReceiveTest, ACancelledReceiveTakesNoValueAndOthersDo) {
  Arrival a, b;
  Cancellation others;
  recv("a", a);
  rendezvous_->recv(key_of(1, 0, "b"), others, b.done());
  cancellation_.cancel(deadline_exceeded("too slow"));
  EXPECT_EQ(a.status, deadline_exceeded("too slow"));
  peer_.batches.answer(0, reply_with({{0, 1.0f}, {1, 2.0f}}));
  EXPECT_EQ(a.count, 1);
  EXPECT_EQ(b.value.scalar<float>(), 2.0f);
}

TEST_F(BatchedReceiveTest, AWorkerThatDoesNotKnowItIsAskedForEach) {
  Arrival a, b;
  recv("a", a);
  peer_.batches.answer(0, unimplemented("/tutti.TaskService/RecvTensors: no such method here"));
  recv("b", b);
  ASSERT_EQ(peer_.receives.count(), 2u);
  EXPECT_EQ(peer_.receives.request(0).rendezvous_key, key_of(1, 0, "a"));
  peer_.receives.answer(0, RecvTensorReply{.tensor = Tensor::scalar(5.0f)});
  EXPECT_EQ(a.value.scalar<float>(), 5.0f);
  EXPECT_TRUE(received_->sources()[0]->plain) << "later steps do not ask again";
  peer_.receives.answer(1, RecvTensorReply{.tensor = Tensor::scalar(6.0f)});
  EXPECT_EQ(b.value.scalar<float>(), 6.0f);
}

TEST_F(BatchedReceiveTest, SoIsATensorFlowWorkerWhichSaysTheCodeOnly) {
  Arrival a;
  recv("a", a);
  peer_.batches.answer(0, unimplemented());
  ASSERT_EQ(peer_.receives.count(), 1u);
  EXPECT_TRUE(received_->sources()[0]->plain);
  peer_.receives.answer(0, RecvTensorReply{.tensor = Tensor::scalar(5.0f)});
  EXPECT_EQ(a.value.scalar<float>(), 5.0f);
}

TEST_F(BatchedReceiveTest, AnUnimplementedErrorOfAKernelIsAnError) {
  for (const Status& error : {unimplemented("a kernel cannot do this"),
                              derived_from(task_name(1), unimplemented("a kernel cannot do this"))}) {
    auto rendezvous = std::make_shared<StepRendezvous>(StepRendezvous::Options{
        .step_id = 43, .task = task_, .peers = &directory_, .request_ids = &ids_, .limit_bytes = 1000});
    rendezvous->expect(received_, [](const std::function<void()>& deliver) { deliver(); });
    Arrival a;
    rendezvous->recv(key_of(1, 0, "a"), cancellation_, a.done());
    peer_.batches.answer(peer_.batches.count() - 1, error);
    EXPECT_EQ(a.status.code(), Code::kUnimplemented) << a.status.to_string();
    EXPECT_NE(a.status.message().find("a kernel cannot do this"), std::string::npos) << a.status.to_string();
    EXPECT_EQ(peer_.receives.count(), 0u) << "its value has been taken";
    EXPECT_FALSE(received_->sources()[0]->plain) << "later steps ask for values together";
  }
}

TEST_F(BatchedReceiveTest, AnswersThatMakeNoSenseAreErrors) {
  for (const RecvTensorsReply& nonsense :
       {RecvTensorsReply{}, reply_with({{7, 1.0f}}), reply_with({{-1, 1.0f}}), reply_with({{1, 1.0f}, {1, 2.0f}})}) {
    auto rendezvous = std::make_shared<StepRendezvous>(StepRendezvous::Options{
        .step_id = 43, .task = task_, .peers = &directory_, .request_ids = &ids_, .limit_bytes = 1000});
    rendezvous->expect(received_, [](const std::function<void()>& deliver) { deliver(); });
    Arrival a;
    rendezvous->recv(key_of(1, 0, "a"), cancellation_, a.done());
    peer_.batches.answer(peer_.batches.count() - 1, nonsense);
    EXPECT_EQ(a.status.code(), Code::kInternal) << a.status.to_string();
  }
}

TEST_F(BatchedReceiveTest, WhatNobodyTakesIsLimited) {
  RecvTensorsReply large;
  for (std::int64_t i = 0; i < 2; ++i) large.values.push_back({i, Tensor(DType::kFloat, Shape{200})});
  peer_.batches.answer(0, large);
  Arrival a;
  recv("a", a);
  EXPECT_EQ(a.status.code(), Code::kResourceExhausted);
}

}  // namespace tutti::internal::batched_receive_test
