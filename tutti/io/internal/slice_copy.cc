#include "tutti/io/internal/slice_copy.h"

#include <algorithm>
#include <cstring>

namespace tutti {

namespace {

std::int64_t offset_in(const Box& box, const std::vector<std::int64_t>& position) {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < position.size(); ++d) offset = offset * box.length[d] + (position[d] - box.start[d]);
  return offset;
}

}  // namespace

std::int64_t Box::num_elements() const {
  std::int64_t count = 1;
  for (std::int64_t n : length) count *= n;
  return count;
}

Box box_of(const TensorSlice& slice, const Shape& full) {
  Box box;
  for (int d = 0; d < slice.rank(); ++d) {
    const TensorSlice::Extent& extent = slice.extent(d);
    box.start.push_back(extent.whole() ? 0 : extent.start);
    box.length.push_back(extent.whole() ? full.dim(d) : extent.length);
  }
  return box;
}

std::optional<Box> intersect(const Box& a, const Box& b) {
  Box common;
  for (std::size_t d = 0; d < a.start.size(); ++d) {
    const std::int64_t start = std::max(a.start[d], b.start[d]);
    const std::int64_t end = std::min(a.start[d] + a.length[d], b.start[d] + b.length[d]);
    if (start >= end) return std::nullopt;
    common.start.push_back(start);
    common.length.push_back(end - start);
  }
  return common;
}

bool for_each_run(const Box& common, const Box& a, const Box& b, const VisitRun& visit) {
  // Dimensions from `inner` on are one run: behind the first of them, both boxes hold just what is common.
  std::size_t inner = common.length.size();
  std::int64_t run = 1;
  while (inner > 0) {
    --inner;
    run *= common.length[inner];
    if (common.length[inner] != a.length[inner] || common.length[inner] != b.length[inner]) break;
  }
  std::vector<std::int64_t> position = common.start;
  while (true) {
    if (!visit(offset_in(a, position), offset_in(b, position), run)) return false;
    std::size_t d = inner;  // counts up in the dimensions outside a run
    while (d > 0) {
      --d;
      if (++position[d] < common.start[d] + common.length[d]) break;
      position[d] = common.start[d];
      if (d == 0) return true;
    }
    if (inner == 0) return true;
  }
}

void copy_elements(const Tensor& from, std::int64_t from_offset, Tensor& to, std::int64_t to_offset,
                   std::int64_t count) {
  if (from.dtype() == DType::kString) {
    std::copy_n(from.data<std::string>() + from_offset, count, to.data<std::string>() + to_offset);
    return;
  }
  if (from.dtype() == DType::kVariant) {
    std::copy_n(from.data<Variant>() + from_offset, count, to.data<Variant>() + to_offset);
    return;
  }
  const std::size_t stride = element_stride(from.dtype());
  std::memcpy(static_cast<char*>(to.raw()) + static_cast<std::size_t>(to_offset) * stride,
              static_cast<const char*>(from.raw()) + static_cast<std::size_t>(from_offset) * stride,
              static_cast<std::size_t>(count) * stride);
}

}  // namespace tutti
