#include "tutti/kernels/resources/gradient_ledger.h"

#include <gtest/gtest.h>

#include "tests/support/kernel_runner.h"
#include "tutti/kernels/resources/slots.h"

namespace tutti::gradient_ledger_test {

TEST(GradientLedgerTest, CountsByWorkerAndAccumulator) {
  GradientLedger ledger;
  ledger.count("w1", "b", GradientFate::kApplied);
  ledger.count("w1", "a", GradientFate::kStale);
  ledger.count("", "a", GradientFate::kApplied);
  ledger.count("w1", "a", GradientFate::kRetried);
  ledger.count("w1", "a", GradientFate::kStale);
  const auto rows = ledger.rows();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].worker, "unknown");
  EXPECT_EQ(rows[0].applied, 1);
  EXPECT_EQ(rows[1].worker, "w1");
  EXPECT_EQ(rows[1].accumulator, "a");
  EXPECT_EQ(rows[1].applied, 0);
  EXPECT_EQ(rows[1].stale, 2);
  EXPECT_EQ(rows[1].retried, 1);
  EXPECT_EQ(rows[2].accumulator, "b");
  EXPECT_EQ(rows[2].applied, 1);
}

TEST(GradientLedgerTest, NamesFromOutsideDoNotFillTheMemory) {
  GradientLedger ledger;
  for (std::size_t i = 0; i < GradientLedger::kMaxRows + 10; ++i) {
    ledger.count(str_cat("w", i), "a", GradientFate::kApplied);
  }
  const auto rows = ledger.rows();
  EXPECT_EQ(rows.size(), GradientLedger::kMaxRows + 1);
  EXPECT_EQ(rows[0].worker, GradientLedger::kOthers);
  EXPECT_EQ(rows[0].applied, 10);
  EXPECT_TRUE(check_worker_name(std::string(GradientLedger::kMaxWorkerName, 'w')).ok());
  EXPECT_EQ(check_worker_name(std::string(GradientLedger::kMaxWorkerName + 1, 'w')).code(), Code::kInvalidArgument);
}

TEST(GradientLedgerTest, OneInEveryContainer) {
  const auto store = testing::make_test_store();
  const auto ledger = gradient_ledger_in(*store, "");
  ASSERT_TRUE(ledger.ok());
  EXPECT_EQ(*ledger, *gradient_ledger_in(*store, ResourceStore::kDefaultContainer));
  EXPECT_NE(*ledger, *gradient_ledger_in(*store, "other"));
  class Something : public Resource {
    std::string debug_string() const override { return "something"; }
  };
  store->slot("taken", GradientLedger::kName)->get_or_create([] { return std::make_shared<Something>(); });
  EXPECT_EQ(gradient_ledger_in(*store, "taken").status().code(), Code::kInvalidArgument);
}

}  // namespace tutti::gradient_ledger_test
