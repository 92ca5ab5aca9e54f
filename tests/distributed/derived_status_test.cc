#include "tutti/distributed/derived_status.h"

#include <gtest/gtest.h>

namespace tutti::derived_status_test {

TEST(DerivedStatusTest, TheMarkSurvivesContextAndIsSetOnce) {
  const Status cause = invalid_argument("MatMul \"m\": bad");
  EXPECT_FALSE(is_derived(cause));
  EXPECT_FALSE(is_derived({}));
  EXPECT_TRUE(make_derived({}).ok());
  const Status derived = derived_from("/job:ps/replica:0/task:0", cause);
  EXPECT_EQ(derived.code(), Code::kInvalidArgument);
  const Status farther = derived.with_context("_Recv \"r\"");
  EXPECT_TRUE(is_derived(farther));
  EXPECT_EQ(make_derived(farther), farther);
  EXPECT_EQ(derived_from("/job:ps/replica:0/task:1", farther), farther) << "names the task where it began";
  EXPECT_EQ(without_derived_mark(farther),
            invalid_argument("_Recv \"r\": From /job:ps/replica:0/task:0:\nMatMul \"m\": bad"));
  EXPECT_EQ(without_derived_mark(cause), cause);
  EXPECT_EQ(without_derived_mark(make_derived(cause)), cause);
}

}  // namespace tutti::derived_status_test
