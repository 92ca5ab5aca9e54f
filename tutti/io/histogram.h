// Counts of values in the buckets that TensorBoard expects.
#pragma once

#include <vector>

namespace tutti {

// Buckets grow by a tenth from 1e-12 to 1e20, on both sides of zero.
class Histogram {
 public:
  Histogram();

  // REQUIRES: a finite value.
  void add(double value);

  // Of no values: the largest and the lowest double.
  double min() const { return min_; }
  double max() const { return max_; }
  double count() const { return count_; }
  double sum() const { return sum_; }
  double sum_of_squares() const { return sum_of_squares_; }

  struct Bucket {
    double limit = 0;  // above its values
    double count = 0;
  };
  // In ascending order, neighbours without values joined; never empty.
  std::vector<Bucket> buckets() const;

 private:
  double min_;
  double max_;
  double count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
  std::vector<double> counts_;
};

}  // namespace tutti
