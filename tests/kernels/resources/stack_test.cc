#include "tutti/kernels/resources/stack.h"

#include <gtest/gtest.h>

namespace tutti::stack_test {

TEST(Stack, LastInFirstOut) {
  Stack stack("s", DType::kFloat, -1);
  ASSERT_TRUE(stack.push(Tensor::scalar(1.0f)).ok());
  ASSERT_TRUE(stack.push(Tensor::scalar(2.0f)).ok());
  EXPECT_EQ(stack.debug_string(), "stack of 2 float");
  EXPECT_EQ(stack.pop()->scalar<float>(), 2);
  EXPECT_EQ(stack.pop()->scalar<float>(), 1);
  EXPECT_EQ(stack.pop().status(), invalid_argument("Stack[s] is empty when calling Pop()."));
}

TEST(Stack, LimitsAndTypes) {
  Stack stack("s", DType::kFloat, 1);
  ASSERT_TRUE(stack.push(Tensor::scalar(1.0f)).ok());
  EXPECT_EQ(stack.push(Tensor::scalar(1.0f)), invalid_argument("Stack[s] overflowed its max_size (1)"));
  EXPECT_EQ(stack.push(Tensor::scalar(1.0)), invalid_argument("Must have type float but got double"));
}

TEST(Stack, ClosedStackFails) {
  Stack stack("s", DType::kFloat, -1);
  ASSERT_TRUE(stack.push(Tensor::scalar(1.0f)).ok());
  stack.close();
  EXPECT_EQ(stack.pop().status(), invalid_argument("Stack[s] has already been closed."));
  EXPECT_EQ(stack.push(Tensor::scalar(1.0f)), invalid_argument("Stack[s] has already been closed."));
}

}  // namespace tutti::stack_test
