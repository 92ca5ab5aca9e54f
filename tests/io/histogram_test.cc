#include "tutti/io/histogram.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace tutti::histogram_test {

constexpr double kLargest = std::numeric_limits<double>::max();

TEST(Histogram, OfNothingIsOneBucket) {
  const Histogram histogram;
  EXPECT_EQ(histogram.min(), kLargest);
  EXPECT_EQ(histogram.max(), -kLargest);
  ASSERT_EQ(histogram.buckets().size(), 1u);
  EXPECT_EQ(histogram.buckets()[0].limit, kLargest);
  EXPECT_EQ(histogram.buckets()[0].count, 0);
}

TEST(Histogram, CountsBetweenLimits) {
  Histogram histogram;
  for (double value : {0.0, 1e-13, -1e-13, 1.0, 1.0}) histogram.add(value);
  // Of the tiny ones, the negative lies below 0 and the others between 0 and 1e-12.
  double below_zero = 0, at_zero = 0, at_one = 0, before = -kLargest;
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    EXPECT_GT(bucket.limit, before);
    if (bucket.limit == 0) below_zero = bucket.count;
    if (bucket.limit == 1e-12) at_zero = bucket.count;
    if (before <= 1 && bucket.limit > 1) at_one = bucket.count;
    before = bucket.limit;
  }
  EXPECT_EQ(below_zero, 1);
  EXPECT_EQ(at_zero, 2);
  EXPECT_EQ(at_one, 2);
  EXPECT_EQ(histogram.sum(), 2);
  EXPECT_EQ(histogram.count(), 5);
  EXPECT_EQ(histogram.min(), -1e-13);
  EXPECT_EQ(histogram.max(), 1);
}

TEST(Histogram, EveryValueIsCountedOnceUnderItsLimit) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 1e3);
  Histogram histogram;
  std::vector<double> values = {kLargest, -kLargest, 1e300, -1e300, std::numeric_limits<double>::denorm_min()};
  for (int i = 0; i < 1000; ++i) values.push_back(normal(random));
  for (double value : values) histogram.add(value);
  double total = 0, before = -kLargest;
  for (const Histogram::Bucket& bucket : histogram.buckets()) {
    double expected = 0;
    for (double value : values) {
      expected += (value >= before || before == -kLargest) && (value < bucket.limit || bucket.limit == kLargest);
    }
    if (bucket.limit != -kLargest) {
      EXPECT_EQ(bucket.count, expected) << bucket.limit;
    }
    before = bucket.limit;
    total += bucket.count;
  }
  EXPECT_EQ(total, static_cast<double>(values.size()));
}

}  // namespace tutti::histogram_test
