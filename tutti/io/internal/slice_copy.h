// Copying where two parts of a tensor meet.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tutti/core/tensor.h"
#include "tutti/io/tensor_slice.h"

namespace tutti {

// A slice with every range in numbers.
struct Box {
  std::vector<std::int64_t> start;
  std::vector<std::int64_t> length;
  std::int64_t num_elements() const;
  bool operator==(const Box&) const = default;
};

// REQUIRES: slice.shape_in(full) is OK.
Box box_of(const TensorSlice& slice, const Shape& full);
// Nothing when they share no element. REQUIRES: equal ranks.
std::optional<Box> intersect(const Box& a, const Box& b);

// Runs of `common` that lie together in a tensor holding `a` and in one holding `b`: offsets in elements in both, and
// how many. Ends early when `visit` returns false, and returns that. REQUIRES: `common` lies in both.
using VisitRun = std::function<bool(std::int64_t in_a, std::int64_t in_b, std::int64_t count)>;
bool for_each_run(const Box& common, const Box& a, const Box& b, const VisitRun& visit);

// Copies `count` elements. REQUIRES: equal types, and that many elements from there on.
void copy_elements(const Tensor& from, std::int64_t from_offset, Tensor& to, std::int64_t to_offset,
                   std::int64_t count);

}  // namespace tutti
