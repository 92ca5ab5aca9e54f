#include "tutti/distributed/internal/step_rendezvous.h"

#include <gtest/gtest.h>

#include "tests/distributed/test_workers.h"
#include "tutti/distributed/derived_status.h"

namespace tutti::step_rendezvous_test {

using internal::RequestIds;
using internal::StepRendezvous;
using testing::device_name;
using testing::key_of;
using testing::task_name;

// A worker that answers RecvTensor when the test says so.
class SlowWorker : public WorkerInterface {
 public:
  struct Call {
    RecvTensorRequest request;
    ReplyDone<RecvTensorReply> done;
    Cancellation* cancellation;
  };
  std::vector<Call> calls;

  void recv_tensor(RecvTensorRequest request, const CallOptions& options, ReplyDone<RecvTensorReply> done) override {
    calls.push_back({std::move(request), std::move(done), options.cancellation});
    // As a transport does: the answer comes inside of the cancellation.
    options.cancellation->register_callback(
        [this, i = calls.size() - 1] { calls[i].done(cancelled("the call was cancelled")); });
  }
  void get_status(const CallOptions&, ReplyDone<GetStatusReply>) override {}
  void create_worker_session(CreateWorkerSessionRequest, const CallOptions&, ReplyDone<EmptyMessage>) override {}
  void delete_worker_session(DeleteWorkerSessionRequest, const CallOptions&, ReplyDone<EmptyMessage>) override {}
  void register_graph(RegisterGraphRequest, const CallOptions&, ReplyDone<RegisterGraphReply>) override {}
  void deregister_graph(DeregisterGraphRequest, const CallOptions&, ReplyDone<EmptyMessage>) override {}
  void run_graph(RunGraphRequest, const CallOptions&, ReplyDone<RunGraphReply>) override {}
  void cleanup_graph(CleanupGraphRequest, const CallOptions&, ReplyDone<EmptyMessage>) override {}
  void cleanup_all(CleanupAllRequest, const CallOptions&, ReplyDone<EmptyMessage>) override {}
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

class StepRendezvousTest : public ::testing::Test {
 protected:
  StepRendezvousTest() { directory_.add(task_name(1), peer_); }

  const std::string task_ = task_name(0);
  SlowWorker peer_;
  testing::TestDirectory directory_;
  RequestIds ids_{7};
  Cancellation cancellation_;
  const std::shared_ptr<StepRendezvous> rendezvous_ = std::make_shared<StepRendezvous>(StepRendezvous::Options{
      .step_id = 42, .task = task_, .peers = &directory_, .request_ids = &ids_, .limit_bytes = 1000});
};

TEST_F(StepRendezvousTest, ValuesOfTheOwnTaskAndOfClientsAreTakenFromTheTable) {
  for (const std::string& key : {key_of(0, 0, "x"), key_of(0, 1, "to the peer"), key_of(1, 1, "client:0")}) {
    Arrival arrival;
    rendezvous_->recv(key, cancellation_, arrival.done());
    EXPECT_EQ(arrival.count, 0);
    EXPECT_TRUE(rendezvous_->send(key, Tensor::scalar(3.0f), false).ok());
    ASSERT_EQ(arrival.count, 1);
    EXPECT_EQ(arrival.value.scalar<float>(), 3.0f);
  }
  EXPECT_TRUE(peer_.calls.empty());
}

TEST_F(StepRendezvousTest, ValuesOfAnotherTaskAreAskedOfItsWorker) {
  Arrival live, dead;
  rendezvous_->recv(key_of(1, 0, "a"), cancellation_, live.done());
  rendezvous_->recv(key_of(1, 0, "b"), cancellation_, dead.done());
  ASSERT_EQ(peer_.calls.size(), 2u);
  EXPECT_TRUE(rendezvous_->waits_for(task_name(1)));
  EXPECT_FALSE(rendezvous_->waits_for(task_name(2)));
  EXPECT_EQ(peer_.calls[0].request.step_id, 42);
  EXPECT_EQ(peer_.calls[0].request.rendezvous_key, key_of(1, 0, "a"));
  EXPECT_NE(peer_.calls[0].request.request_id, 0);
  EXPECT_NE(peer_.calls[0].request.request_id, peer_.calls[1].request.request_id);
  peer_.calls[1].done(RecvTensorReply{.is_dead = true});
  peer_.calls[0].done(RecvTensorReply{.tensor = Tensor::scalar(5.0f)});
  EXPECT_EQ(live.count, 1);
  EXPECT_EQ(live.value.scalar<float>(), 5.0f);
  EXPECT_FALSE(live.dead);
  EXPECT_EQ(dead.count, 1);
  EXPECT_TRUE(dead.dead);
  EXPECT_FALSE(rendezvous_->waits_for(task_name(1)));
}

TEST_F(StepRendezvousTest, ErrorsNameTheTaskAndTheValueUnlessTheyDoAlready) {
  Arrival own, derived, nobody;
  rendezvous_->recv(key_of(1, 0, "a"), cancellation_, own.done());
  rendezvous_->recv(key_of(1, 0, "b"), cancellation_, derived.done());
  rendezvous_->recv(key_of(9, 0, "c"), cancellation_, nobody.done());
  peer_.calls[0].done(unavailable("connection lost"));
  peer_.calls[1].done(derived_from(task_name(3), invalid_argument("bad")));
  EXPECT_EQ(own.status, unavailable("RecvTensor from ", task_name(1), ": a: connection lost"));
  EXPECT_EQ(derived.status, derived_from(task_name(3), invalid_argument("bad")));
  EXPECT_EQ(nobody.status.code(), Code::kNotFound);
  EXPECT_NE(nobody.status.message().find(task_name(9)), std::string::npos);
}

TEST_F(StepRendezvousTest, ACancelledReceiveCancelsItsCallAndTellsTheCause) {
  Arrival arrival, other;
  Cancellation others;
  rendezvous_->recv(key_of(1, 0, "a"), cancellation_, arrival.done());
  rendezvous_->recv(key_of(1, 0, "b"), others, other.done());
  cancellation_.cancel(deadline_exceeded("too slow"));
  EXPECT_EQ(arrival.count, 1);
  EXPECT_EQ(arrival.status, deadline_exceeded("too slow"));
  EXPECT_EQ(other.count, 0);
  Arrival late;
  rendezvous_->recv(key_of(1, 0, "c"), cancellation_, late.done());
  EXPECT_EQ(late.status, deadline_exceeded("too slow"));
  EXPECT_EQ(peer_.calls.size(), 2u) << "nothing was asked for what was cancelled before";
  rendezvous_->abort(aborted("over"));
  EXPECT_EQ(other.status, aborted("over"));
}

TEST_F(StepRendezvousTest, AnAbortEndsEverythingWithTheFirstCause) {
  Arrival remote, local, after;
  rendezvous_->recv(key_of(1, 0, "a"), cancellation_, remote.done());
  rendezvous_->recv(key_of(0, 0, "b"), cancellation_, local.done());
  rendezvous_->abort(aborted("first"));
  rendezvous_->abort(aborted("second"));
  rendezvous_->recv(key_of(1, 0, "c"), cancellation_, after.done());
  for (const Arrival* arrival : {&remote, &local, &after}) {
    EXPECT_EQ(arrival->count, 1);
    EXPECT_EQ(arrival->status, aborted("first"));
  }
  EXPECT_EQ(peer_.calls.size(), 1u);
  EXPECT_EQ(rendezvous_->send(key_of(0, 1, "d"), Tensor::scalar(1.0f), false), aborted("first"));
}

TEST_F(StepRendezvousTest, WhatNobodyReceivesIsLimited) {
  EXPECT_TRUE(rendezvous_->send(key_of(0, 1, "a"), Tensor::vector<float>(std::vector<float>(200)), false).ok());
  const Status status = rendezvous_->send(key_of(0, 1, "b"), Tensor::vector<float>(std::vector<float>(200)), false);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
}

}  // namespace tutti::step_rendezvous_test
