#include "tutti/core/status.h"

#include <gtest/gtest.h>

namespace tutti::status_test {

TEST(Status, DefaultIsOk) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status.code(), Code::kOk);
  EXPECT_EQ(status.message(), "");
  EXPECT_EQ(status.to_string(), "OK");
  EXPECT_EQ(&status.message(), &Status().message());
}

TEST(Status, OkCodeDropsTheMessage) {
  const Status status(Code::kOk, "nothing happened");
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(status, Status());
}

TEST(Status, BuildersGiveCodeAndMessage) {
  const Status status = invalid_argument("MatMul: inner dimensions ", 784, " and ", 512, " differ");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_EQ(status.to_string(), "InvalidArgument: MatMul: inner dimensions 784 and 512 differ");
  EXPECT_EQ(data_loss("x").code(), Code::kDataLoss);
  EXPECT_EQ(internal_error("x").code(), Code::kInternal);
}

TEST(Status, ContextGoesInFront) {
  EXPECT_EQ(not_found("node").with_context("worker:1").to_string(), "NotFound: worker:1: node");
  EXPECT_TRUE(Status().with_context("worker:1").ok());
}

TEST(Status, UpdateKeepsTheFirstError) {
  Status status;
  status.update(Status());
  EXPECT_TRUE(status.ok());
  status.update(aborted("first"));
  status.update(not_found("second"));
  status.update(Status());
  EXPECT_EQ(status, aborted("first"));
}

TEST(Status, ComparesCodeAndMessage) {
  EXPECT_EQ(aborted("a"), aborted("a"));
  EXPECT_FALSE(aborted("a") == aborted("b"));
  EXPECT_FALSE(aborted("a") == cancelled("a"));
}

TEST(Code, EveryNumberHasAName) {
  EXPECT_EQ(code_name(Code::kOk), "OK");
  EXPECT_EQ(code_name(Code::kUnauthenticated), "Unauthenticated");
  EXPECT_EQ(code_name(static_cast<Code>(99)), "Unknown");
  for (int i = 3; i <= 16; ++i) EXPECT_NE(code_name(static_cast<Code>(i)), "Unknown") << i;
}

TEST(Error, CarriesTheStatus) {
  EXPECT_NO_THROW(throw_if_error(Status()));
  try {
    throw_if_error(unavailable("ps:0 is gone"));
    FAIL() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::kUnavailable);
    EXPECT_EQ(error.status().message(), "ps:0 is gone");
    EXPECT_STREQ(error.what(), "Unavailable: ps:0 is gone");
  }
}

Result<int> half_of(int value) {
  if (value % 2 != 0) return invalid_argument(value, " is odd");
  return value / 2;
}

Result<int> quarter_of(int value) {
  TUTTI_ASSIGN_OR_RETURN(const int half, half_of(value));
  return half_of(half);
}

Status check_quarter(int value) {
  TUTTI_RETURN_IF_ERROR(quarter_of(value).status());
  return {};
}

TEST(Result, ValueOrStatus) {
  EXPECT_TRUE(half_of(4).ok());
  EXPECT_EQ(*half_of(4), 2);
  EXPECT_TRUE(half_of(4).status().ok());
  EXPECT_FALSE(half_of(3).ok());
  EXPECT_EQ(half_of(3).status(), invalid_argument("3 is odd"));
}

TEST(Result, MacrosPassErrorsOn) {
  EXPECT_EQ(*quarter_of(8), 2);
  EXPECT_EQ(quarter_of(7).status(), invalid_argument("7 is odd"));
  EXPECT_EQ(quarter_of(6).status(), invalid_argument("3 is odd"));
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_FALSE(check_quarter(6).ok());
}

TEST(Result, HoldsWhatOnlyMoves) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(5);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 5);
}

TEST(Result, ThrowsAtTheEdge) {
  EXPECT_EQ(half_of(4).value_or_throw(), 2);
  EXPECT_THROW(half_of(3).value_or_throw(), Error);
}

TEST(CheckDeathTest, PrintsConditionAndValues) {
  const int rank = 3;
  EXPECT_DEATH(TUTTI_CHECK(rank == 2, "rank ", rank), "status_test.cc:.*rank == 2: rank 3");
  TUTTI_CHECK(rank == 3);
}

}  // namespace tutti::status_test
