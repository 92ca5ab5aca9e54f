#include "tutti/distributed/internal/asked_values.h"

#include <gtest/gtest.h>

#include "tutti/runtime/held_work.h"

namespace tutti::internal::asked_values_test {

struct Answer {
  int count = 0;
  Status status;
  std::vector<std::int64_t> indices;
  AskedValues::Done done() {
    return [this](Result<RecvTensorsReply> reply) {
      ++count;
      status = reply.status();
      indices.clear();
      if (!reply.ok()) return;
      for (const ReceivedTensor& value : reply->values) indices.push_back(value.index);
    };
  }
};
using Indices = std::vector<std::int64_t>;

class AskedValuesTest : public ::testing::Test {
 protected:
  void make(std::size_t index) { values_->add(index, {}, Tensor::scalar(1.0f)); }

  Cancellation caller_;
  const std::shared_ptr<AskedValues> values_ = std::make_shared<AskedValues>(4, 1000);
};

TEST_F(AskedValuesTest, ARequestIsAnsweredWithWhatIsThereAndTheNextWithTheRest) {
  Answer first, second, third;
  values_->ask(caller_, first.done());
  EXPECT_EQ(first.count, 0);
  make(2);
  EXPECT_EQ(first.indices, Indices{2});
  make(0);
  make(3);
  values_->ask(caller_, second.done());
  EXPECT_EQ(second.indices, (Indices{0, 3}));
  values_->ask(caller_, third.done());
  EXPECT_EQ(third.count, 0);
  make(1);
  EXPECT_EQ(third.indices, Indices{1});
  EXPECT_EQ(first.count + second.count + third.count, 3);
}

TEST_F(AskedValuesTest, WhatAThreadMakesInOneGoIsAnsweredTogether) {
  Answer answer;
  values_->ask(caller_, answer.done());
  {
    const HeldWork held;
    make(0);
    make(1);
    EXPECT_EQ(answer.count, 0);
  }
  EXPECT_EQ(answer.indices, (Indices{0, 1}));
}

TEST_F(AskedValuesTest, TheLastValueWaitsForNothing) {
  Answer answer;
  values_->ask(caller_, answer.done());
  const HeldWork held;
  for (std::size_t i = 0; i < 4; ++i) make(i);
  EXPECT_EQ(answer.indices, (Indices{0, 1, 2, 3}));
}

TEST_F(AskedValuesTest, LongWorkBringsOutWhatIsWaitedForAndTakesTheRestAlong) {
  const auto values = std::make_shared<AskedValues>(4, std::size_t{1} << 20, Indices{0, 1, 7, -1});
  const auto make_in = [&values](std::size_t index) { values->add(index, {}, Tensor::scalar(1.0f)); };
  Answer first, second;
  {
    const HeldWork held;
    make_in(0);
    values->ask(caller_, first.done());
    HeldWork::run_now();
    EXPECT_EQ(first.count, 0) << "nobody is in a hurry for it";
    make_in(2);
    HeldWork::run_now();
    EXPECT_EQ(first.indices, (Indices{0, 2}));
    values->ask(caller_, second.done());
    make_in(1);
    HeldWork::run_now();
    EXPECT_EQ(second.count, 0);
  }
  EXPECT_EQ(second.indices, Indices{1}) << "the thread is done with the step";
}

TEST_F(AskedValuesTest, MuchIsNotHeldWhateverIsSaidOfIt) {
  const auto values = std::make_shared<AskedValues>(2, std::size_t{1} << 20, Indices{0, 1});
  Answer answer;
  values->ask(caller_, answer.done());
  const HeldWork held;
  values->add(1, {}, Tensor(DType::kFloat, Shape{1 << 16}));
  HeldWork::run_now();
  EXPECT_EQ(answer.indices, Indices{1});
}

TEST_F(AskedValuesTest, WithoutAThreadThatHoldsNothingWaits) {
  const auto values = std::make_shared<AskedValues>(2, std::size_t{1} << 20, Indices{0, 1});
  Answer answer;
  values->ask(caller_, answer.done());
  values->add(0, {}, Tensor::scalar(1.0f));
  EXPECT_EQ(answer.indices, Indices{0});
}

TEST_F(AskedValuesTest, AnErrorEndsItForAllRequests) {
  Answer waiting, later;
  values_->ask(caller_, waiting.done());
  values_->add(1, aborted("over"), {});
  EXPECT_EQ(waiting.status, aborted("over"));
  make(0);
  values_->add(2, aborted("again"), {});
  values_->ask(caller_, later.done());
  EXPECT_EQ(later.status, aborted("over"));
}

TEST_F(AskedValuesTest, ACancelledRequestEndsTheWaitsForTheValues) {
  Answer answer, late;
  values_->ask(caller_, answer.done());
  caller_.cancel(cancelled("gone"));
  EXPECT_EQ(answer.count, 1);
  EXPECT_EQ(answer.status, cancelled("gone"));
  EXPECT_EQ(values_->cancellation().status(), cancelled("gone"));
  values_->ask(caller_, late.done());
  EXPECT_EQ(late.status, cancelled("gone"));
}

TEST_F(AskedValuesTest, ThereIsOneRequestAtATime) {
  Answer first, second;
  values_->ask(caller_, first.done());
  values_->ask(caller_, second.done());
  EXPECT_EQ(second.status.code(), Code::kAborted);
  EXPECT_EQ(first.count, 0);
  make(0);
  EXPECT_EQ(first.indices, Indices{0});
}

TEST_F(AskedValuesTest, AnAnswerIsLimitedAndTheRestComesWithTheNext) {
  const auto values = std::make_shared<AskedValues>(5, std::size_t{1} << 20, Indices{}, 1000);
  const auto make_in = [&values](std::size_t index, std::int64_t floats) {
    values->add(index, {}, Tensor(DType::kFloat, Shape{floats}));
  };
  make_in(3, 100);
  make_in(0, 100);
  make_in(1, 500);  // alone over the limit
  make_in(4, 150);
  make_in(2, 100);
  for (const Indices& expected : {Indices{3, 0}, Indices{1}, Indices{4, 2}}) {
    Answer answer;
    values->ask(caller_, answer.done());
    EXPECT_EQ(answer.count, 1);
    EXPECT_EQ(answer.indices, expected);
  }
}

TEST_F(AskedValuesTest, WhatNobodyAsksForIsLimited) {
  for (std::size_t i = 0; i < 2; ++i) values_->add(i, {}, Tensor(DType::kFloat, Shape{200}));
  Answer answer;
  values_->ask(caller_, answer.done());
  EXPECT_EQ(answer.status.code(), Code::kResourceExhausted);
}

}  // namespace tutti::internal::asked_values_test
