#include "tutti/io/histogram.h"

#include <algorithm>
#include <limits>

namespace tutti {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

std::vector<double> make_limits() {
  std::vector<double> limits;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) limits.push_back(limit);
  limits.push_back(kLargest);
  std::vector<double> all;
  for (auto it = limits.rbegin(); it != limits.rend(); ++it) all.push_back(-*it);
  all.push_back(0);
  all.insert(all.end(), limits.begin(), limits.end());
  return all;
}

const std::vector<double>& limits() {
  static const std::vector<double> all = make_limits();
  return all;
}

}  // namespace

Histogram::Histogram() : min_(kLargest), max_(-kLargest), counts_(limits().size()) {}

void Histogram::add(double value) {
  const auto above = std::upper_bound(limits().begin(), limits().end(), value);
  // The largest double has no limit above it; it goes with those next to it.
  const auto bucket = std::min<std::size_t>(static_cast<std::size_t>(above - limits().begin()), counts_.size() - 1);
  ++counts_[bucket];
  min_ = std::min(min_, value);
  max_ = std::max(max_, value);
  ++count_;
  sum_ += value;
  sum_of_squares_ += value * value;
}

std::vector<Histogram::Bucket> Histogram::buckets() const {
  std::vector<Bucket> joined;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    if (!joined.empty() && joined.back().count == 0 && counts_[i] == 0) {
      joined.back().limit = limits()[i];
    } else {
      joined.push_back({limits()[i], counts_[i]});
    }
  }
  return joined;
}

}  // namespace tutti
