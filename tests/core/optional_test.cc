#include "tutti/core/optional.h"

#include <gtest/gtest.h>

#include "tests/support/variant_values.h"

namespace tutti::optional_test {

TEST(Optional, KnowsItsComponentsAndItsDepth) {
  const Optional none({});
  EXPECT_TRUE(none.components().empty());
  EXPECT_EQ(none.depth(), 1);
  const Optional two({Tensor::scalar(1.f), testing::optional_of({testing::optional_of({})})});
  EXPECT_EQ(two.components().size(), 2u);
  EXPECT_EQ(two.depth(), 3);
  EXPECT_EQ(two.debug_string(), "optional of 2 components");
}

}  // namespace tutti::optional_test
