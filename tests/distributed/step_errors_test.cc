#include "tutti/distributed/internal/step_errors.h"

#include <gtest/gtest.h>

#include "tutti/distributed/derived_status.h"

namespace tutti::internal::step_errors_test {

TEST(StepErrorsTest, OneCauseIsToldAlone) {
  StepErrors errors;
  errors.add("/job:ps/replica:0/task:0", invalid_argument("bad shape"), false);
  errors.add("/job:ps/replica:0/task:1", cancelled("the step failed"), true);
  errors.add("/job:ps/replica:0/task:2", aborted("step 7 was aborted"), true);
  EXPECT_EQ(errors.summary(1), invalid_argument("From /job:ps/replica:0/task:0:\nbad shape"));
}

TEST(StepErrorsTest, WhatTravelledOnIsNotACauseOfItsOwn) {
  const Status cause = invalid_argument("MatMul \"m\": 3 and 4 differ");
  StepErrors errors;  // the receiver's report overtook the sender's
  errors.add("/job:worker/replica:0/task:0", derived_from("/job:ps/replica:0/task:0", cause), false);
  errors.add("/job:worker/replica:0/task:1", cause.with_context("receiving \"x\""), true);
  errors.add("/job:ps/replica:0/task:0", cause, true);
  EXPECT_EQ(errors.summary(0), invalid_argument("From /job:ps/replica:0/task:0:\nMatMul \"m\": 3 and 4 differ"));
  StepErrors twice;
  twice.add("a", cause, false);
  twice.add("b", cause, true);
  EXPECT_EQ(twice.summary(0).message(), "From a:\n" + cause.message());
}

TEST(StepErrorsTest, SeveralCausesAreListed) {
  StepErrors errors;
  errors.add("a", cancelled("queue closed"), false);
  errors.add("b", out_of_range("end of input"), true);
  errors.add("c", cancelled("told to"), true);
  const Status summary = errors.summary(2);
  EXPECT_EQ(summary.code(), Code::kOutOfRange) << "kCancelled only where there is nothing else";
  EXPECT_EQ(summary.message(),
            "2 root error(s) found.\n  (0) Cancelled: From a:\nqueue closed\n  (1) OutOfRange: From b:\nend of input\n"
            "2 successful operations.\n1 derived errors ignored.");
}

TEST(StepErrorsTest, WithoutACauseTheFirstIsTold) {
  StepErrors errors;
  errors.add("a", make_derived(unavailable("b is gone")), false);
  errors.add("c", cancelled("told to"), true);
  EXPECT_EQ(errors.summary(0), unavailable("From a:\nb is gone"));
  EXPECT_TRUE(errors.has_first_hand());
}

TEST(StepErrorsTest, ALongListIsCut) {
  StepErrors errors;
  for (int i = 0; i < 100; ++i) errors.add(str_cat("task", i), internal_error(i, std::string(1000, 'x')), false);
  EXPECT_LE(errors.summary(0).message().size(), 8192u);
}

}  // namespace tutti::internal::step_errors_test
