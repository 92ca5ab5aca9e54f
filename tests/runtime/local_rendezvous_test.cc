#include "tutti/runtime/local_rendezvous.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "tutti/core/optional.h"
#include "tutti/core/tensor_list.h"
#include "tutti/core/tensor_variant.h"

namespace tutti::local_rendezvous_test {

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

Cancellation never;

TEST(LocalRendezvous, ProducerFirst) {
  LocalRendezvous rendezvous;
  ASSERT_TRUE(rendezvous.send("k", Tensor::scalar(3.0f), false).ok());
  Arrival arrival;
  rendezvous.recv("k", never, arrival.done());
  ASSERT_EQ(arrival.calls, 1);
  EXPECT_EQ(arrival.value.scalar<float>(), 3.0f);
}

TEST(LocalRendezvous, ConsumerFirst) {
  LocalRendezvous rendezvous;
  Arrival arrival;
  rendezvous.recv("k", never, arrival.done());
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
  rendezvous.recv("k", never, waiting.done());
  rendezvous.abort(aborted("worker 1 died"));
  rendezvous.abort(aborted("second cause"));
  EXPECT_EQ(waiting.calls, 1);
  EXPECT_EQ(waiting.status.message(), "worker 1 died");
  EXPECT_EQ(rendezvous.send("k", Tensor::scalar(1.0f), false).message(), "worker 1 died");
  Arrival late;
  rendezvous.recv("k", never, late.done());
  EXPECT_EQ(late.status.message(), "worker 1 died");
}

TEST(LocalRendezvous, TooManyWaitingBytesAbort) {
  LocalRendezvous rendezvous(1000);
  Arrival waiting;
  rendezvous.recv("never", never, waiting.done());
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
    rendezvous.recv("a", never, arrival.done());
    ASSERT_EQ(arrival.calls, 1);
  }
}

TEST(LocalRendezvous, ACancelledRequestTakesNothing) {
  LocalRendezvous rendezvous;
  Cancellation step;
  Arrival withdrawn;
  Arrival other;
  rendezvous.recv("k", step, withdrawn.done());
  rendezvous.recv("k", never, other.done());
  step.cancel(cancelled("stop"));
  ASSERT_EQ(withdrawn.calls, 1);
  EXPECT_EQ(withdrawn.status, cancelled("stop"));
  ASSERT_TRUE(rendezvous.send("k", Tensor::scalar(3.0f), false).ok());
  ASSERT_EQ(other.calls, 1);
  EXPECT_EQ(other.value.scalar<float>(), 3.0f);
  Arrival late;
  rendezvous.recv("k", step, late.done());
  EXPECT_EQ(late.status, cancelled("stop"));
  rendezvous.abort(aborted("over"));
  EXPECT_EQ(withdrawn.calls, 1);
  EXPECT_EQ(late.calls, 1);
}

TEST(LocalRendezvous, ARequestIsAnsweredOnceWhoeverComesFirst) {
  for (int i = 0; i < 300; ++i) {
    LocalRendezvous rendezvous;
    auto step = std::make_unique<Cancellation>();
    std::atomic<int> calls = 0;
    std::thread sender([&] { static_cast<void>(rendezvous.send("k", Tensor::scalar(1.0f), false)); });
    std::thread canceller([&] { step->cancel(cancelled("stop")); });
    rendezvous.recv("k", *step, [&](const Status&, const Tensor&, bool) { ++calls; });
    sender.join();
    canceller.join();
    step.reset();
    rendezvous.abort(aborted("over"));
    EXPECT_EQ(calls, 1);
  }
}

TEST(LocalRendezvous, StringsAndListsCountWhatTheyHold) {
  const Tensor text = Tensor::scalar(std::string(900, 'x'));
  const Tensor list = Tensor::scalar(Variant(std::make_shared<TensorList>(
      DType::kFloat, PartialShape{}, std::vector<Tensor>{Tensor(DType::kFloat, {200}), Tensor() /* never set */})));
  const Tensor list_of_lists =
      Tensor::scalar(Variant(std::make_shared<TensorList>(DType::kVariant, PartialShape{}, std::vector<Tensor>{list})));
  const Tensor optional = Tensor::scalar(Variant(std::make_shared<Optional>(std::vector<Tensor>{list})));
  const Tensor held = Tensor::scalar(Variant(std::make_shared<TensorVariant>(text)));
  for (const Tensor& value : {text, list, list_of_lists, optional, held}) {
    LocalRendezvous rendezvous(1000);
    for (int i = 0; i < 3; ++i) {  // received ones no longer count
      ASSERT_TRUE(rendezvous.send("a", value, false).ok());
      Arrival arrival;
      rendezvous.recv("a", never, arrival.done());
      ASSERT_EQ(arrival.calls, 1);
    }
    ASSERT_TRUE(rendezvous.send("a", value, false).ok());
    EXPECT_EQ(rendezvous.send("b", value, false).code(), Code::kResourceExhausted);
  }
}

TEST(LocalRendezvous, AListThatHoldsAnotherTwiceManyTimesOverCountsOnce) {
  Tensor value = Tensor::scalar(1.0f);
  for (int i = 0; i < 64; ++i) {
    const DType dtype = value.dtype();
    value =
        Tensor::scalar(Variant(std::make_shared<TensorList>(dtype, PartialShape{}, std::vector<Tensor>{value, value})));
  }
  LocalRendezvous rendezvous(1 << 20);
  EXPECT_TRUE(rendezvous.send("a", value, false).ok());
}

}  // namespace tutti::local_rendezvous_test
