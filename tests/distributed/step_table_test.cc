#include "tutti/distributed/internal/step_table.h"

#include <gtest/gtest.h>

#include "tests/distributed/test_workers.h"
#include "tutti/distributed/derived_status.h"

namespace tutti::internal::step_table_test {

class StepTableTest : public ::testing::Test {
 protected:
  bool has_ended(std::int64_t id) { return table_.find_or_begin(id).status().code() == Code::kAborted; }

  ManualClock clock_;
  testing::TestDirectory directory_;
  RequestIds ids_{1};
  StepTable table_{{.task = testing::task_name(0),
                    .peers = &directory_,
                    .request_ids = &ids_,
                    .clock = &clock_,
                    .step_bytes = 1000,
                    .remembered = std::chrono::seconds(10)}};
};

TEST_F(StepTableTest, AStepIsTheSameUntilItEnds) {
  const std::shared_ptr<Step> step = table_.find_or_begin(7).value_or_throw();
  EXPECT_EQ(table_.find_or_begin(7).value_or_throw(), step);
  EXPECT_NE(table_.find_or_begin(8).value_or_throw(), step);
  table_.end(7, unavailable("gone"));
  EXPECT_EQ(step->cancellation().status(), unavailable("gone"));
  const Status told = step->rendezvous().send(testing::key_of(0, 1, "x"), Tensor::scalar(1.0f), false);
  EXPECT_EQ(told, derived_from(testing::task_name(0), unavailable("gone")));
  EXPECT_TRUE(has_ended(7));
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(StepTableTest, EndedStepsAreRememberedForSoLong) {
  table_.end(1, aborted("over"));
  clock_.advance(std::chrono::seconds(9));
  table_.end(2, aborted("over"));
  table_.end(1, aborted("over again, which changes nothing"));
  clock_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(has_ended(1));
  EXPECT_TRUE(has_ended(2));
}

TEST_F(StepTableTest, NotMoreThanSoManyAreRemembered) {
  const auto count = static_cast<std::int64_t>(StepTable::kMaxRemembered);
  for (std::int64_t id = 0; id <= count; ++id) table_.end(id, aborted("over"));
  EXPECT_FALSE(has_ended(0));
  EXPECT_TRUE(has_ended(2));
  EXPECT_TRUE(has_ended(count));
}

TEST_F(StepTableTest, StepsOfASessionEndWithIt) {
  const int one = 1;
  const int two = 2;
  EXPECT_TRUE(table_.find_or_begin(1).value_or_throw()->claim(&one));
  EXPECT_FALSE(table_.find_or_begin(1).value_or_throw()->claim(&two));
  EXPECT_TRUE(table_.find_or_begin(2).value_or_throw()->claim(&two));
  table_.end_all_of(&one, cancelled("closed"));
  EXPECT_TRUE(has_ended(1));
  EXPECT_FALSE(has_ended(2));
}

TEST_F(StepTableTest, AnAbandonedStepGoesUnlessSomebodyRunsIt) {
  const std::shared_ptr<Step> waits = table_.find_or_begin(1).value_or_throw();
  const std::shared_ptr<Step> runs = table_.find_or_begin(2).value_or_throw();
  EXPECT_TRUE(runs->claim(this));
  for (std::int64_t id : {1, 2, 3}) table_.abandon(id);
  EXPECT_TRUE(has_ended(1));
  EXPECT_FALSE(has_ended(2));
  EXPECT_FALSE(has_ended(3)) << "it never began";
  EXPECT_FALSE(runs->cancellation().cancelled());
  EXPECT_TRUE(is_derived(runs->rendezvous().send(testing::key_of(0, 1, "x"), Tensor::scalar(1.0f), false)));
}

TEST_F(StepTableTest, TheEndOfARunIsToldToWhoAsksBeforeAndAfter) {
  const std::shared_ptr<Step> step = table_.find_or_begin(1).value_or_throw();
  Status before;
  Status after;
  step->when_run_ended([&before](Status status) { before = std::move(status); });
  EXPECT_TRUE(before.ok());
  step->run_ended(invalid_argument("bad"));
  step->when_run_ended([&after](Status status) { after = std::move(status); });
  EXPECT_EQ(before, invalid_argument("bad"));
  EXPECT_EQ(after, invalid_argument("bad"));
  EXPECT_EQ(step->run_status(), invalid_argument("bad"));
}

TEST_F(StepTableTest, NothingBeginsAfterTheStop) {
  const std::shared_ptr<Step> step = table_.find_or_begin(1).value_or_throw();
  table_.stop(unavailable("shutting down"));
  EXPECT_TRUE(step->cancellation().cancelled());
  EXPECT_EQ(table_.find_or_begin(2).status(), unavailable("shutting down"));
}

}  // namespace tutti::internal::step_table_test
