#include "tutti/runtime/local_rendezvous.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

struct Arrival {
  int calls = 0;
  Status status;
  Tensor value;
  bool dead = false;

  Rendezvous::Done done() {
    return [this](Status s, Tensor v, bool d) {
      ++calls;
      status = std::move(s);
      value = std::move(v);
      dead = d;
    };
  }
};

TEST(LocalRendezvous, ProducerFirst) {
  LocalRendezvous rendezvous;
  ASSERT_TRUE(rendezvous.send("k", Tensor::scalar(3.0f), false).ok());
  Arrival arrival;
  rendezvous.recv("k", arrival.done());
  ASSERT_EQ(arrival.calls, 1);
  EXPECT_EQ(arrival.value.scalar<float>(), 3.0f);
}

TEST(LocalRendezvous, ConsumerFirst) {
  LocalRendezvous rendezvous;
  Arrival arrival;
  rendezvous.recv("k", arrival.done());
  EXPECT_EQ(arrival.calls, 0);
  ASSERT_TRUE(rendezvous.send("other", Tensor::scalar(1.0f), false).ok());
  EXPECT_EQ(arrival.calls, 0);
  ASSERT_TRUE(rendezvous.send("k", Tensor(), true).ok());
  ASSERT_EQ(arrival.calls, 1);
  EXPECT_TRUE(arrival.dead);
}

TEST(LocalRendezvous, AbortReachesWaitersAndLaterCallsWithTheFirstCause) {
  LocalRendezvous rendezvous;
  Arrival waiting;
  rendezvous.recv("k", waiting.done());
  rendezvous.abort(aborted("worker 1 died"));
  rendezvous.abort(aborted("second cause"));
  EXPECT_EQ(waiting.calls, 1);
  EXPECT_EQ(waiting.status.message(), "worker 1 died");
  EXPECT_EQ(rendezvous.send("k", Tensor::scalar(1.0f), false).message(), "worker 1 died");
  Arrival late;
  rendezvous.recv("k", late.done());
  EXPECT_EQ(late.status.message(), "worker 1 died");
}

TEST(LocalRendezvous, TooManyWaitingBytesAbort) {
  LocalRendezvous rendezvous(1000);
  Arrival waiting;
  rendezvous.recv("never", waiting.done());
  ASSERT_TRUE(rendezvous.send("a", Tensor(DType::kFloat, {200}), false).ok());
  Status status = rendezvous.send("b", Tensor(DType::kFloat, {200}), false);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_NE(status.message().find("1600 bytes"), std::string::npos) << status.message();
  EXPECT_EQ(waiting.status.code(), Code::kResourceExhausted);
}

TEST(LocalRendezvous, ReceivedBytesNoLongerCount) {
  LocalRendezvous rendezvous(1000);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rendezvous.send("a", Tensor(DType::kFloat, {200}), false).ok());
    Arrival arrival;
    rendezvous.recv("a", arrival.done());
    ASSERT_EQ(arrival.calls, 1);
  }
}

}  // namespace
}  // namespace tutti
