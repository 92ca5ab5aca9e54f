// Walking several operands that are broadcast against each other (NumPy's rule).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "tutti/core/shape.h"

namespace tutti::cpu {

// The loop nest over the broadcast shape of N operands, neighbouring dimensions joined where every operand walks
// them as one. The innermost loop visits `row_size` elements, where operand i moves by row_step[i] (1, or 0 to repeat).
template <int N>
class Broadcast {
 public:
  Broadcast() {}  // NOLINT: the arrays stay uninitialised on purpose
  // REQUIRES: every shape broadcasts to `out`.
  Broadcast(const Shape& out, const std::array<const Shape*, N>& shapes) { build(out, shapes); }

  std::int64_t rows() const { return rows_; }
  std::int64_t row_size() const { return row_size_; }
  const std::array<int, N>& row_step() const { return row_step_; }

  // Calls fn(out_offset, offsets) for rows [begin, end): where each row starts, in elements.
  template <typename Fn>
  void for_rows(std::int64_t begin, std::int64_t end, const Fn& fn) const {
    if (begin >= end) return;  // a loop may then have size 0
    std::array<std::int64_t, kMaxRank> index;
    std::array<std::int64_t, N> offset{};
    std::int64_t rest = begin;
    for (int l = 0; l < loops_; ++l) {
      index[l] = rest % loop_[l].size;
      rest /= loop_[l].size;
      for (int o = 0; o < N; ++o) offset[o] += index[l] * loop_[l].stride[o];
    }
    for (std::int64_t row = begin; row < end; ++row) {
      fn(row * row_size_, offset);
      for (int l = 0; l < loops_; ++l) {
        for (int o = 0; o < N; ++o) offset[o] += loop_[l].stride[o];
        if (++index[l] < loop_[l].size) break;
        for (int o = 0; o < N; ++o) offset[o] -= loop_[l].size * loop_[l].stride[o];
        index[l] = 0;
      }
    }
  }

  // Calls fn(out_offset, offsets, count) for elements [begin, end) of the result, a row or a part of one at a time: so
  // that a loop can be cut also where the rows are few and long.
  template <typename Fn>
  void for_elements(std::int64_t begin, std::int64_t end, const Fn& fn) const {
    if (begin >= end) return;
    for_rows(begin / row_size_, (end + row_size_ - 1) / row_size_,
             [&](std::int64_t row, const std::array<std::int64_t, N>& offset) {
               const std::int64_t first = std::max(row, begin);
               std::array<std::int64_t, N> from = offset;
               for (int o = 0; o < N; ++o) from[o] += (first - row) * row_step_[o];
               fn(first, from, std::min(row + row_size_, end) - first);
             });
  }

 private:
  struct Loop {
    std::int64_t size;
    std::array<std::int64_t, N> stride;
  };

  void build(const Shape& out, const std::array<const Shape*, N>& shapes) {
    int count = 0;                       // loops so far, the row included, innermost first
    unsigned last_mask = 0;              // of the newest loop: which operands repeat
    std::array<std::int64_t, N> extent;  // elements of each operand inside the dimensions seen so far
    extent.fill(1);
    row_size_ = 1;
    row_step_.fill(0);
    for (int d = out.rank() - 1; d >= 0; --d) {
      const std::int64_t size = out.dim(d);
      if (size == 1) continue;
      unsigned mask = 0;
      for (int o = 0; o < N; ++o) {
        const int at = d - (out.rank() - shapes[o]->rank());
        if (at < 0 || shapes[o]->dim(at) == 1) mask |= 1u << o;
      }
      if (count > 0 && mask == last_mask) {
        (count == 1 ? row_size_ : loop_[count - 2].size) *= size;
      } else {
        add_loop(count++, size, mask, extent);
      }
      last_mask = mask;
      for (int o = 0; o < N; ++o) extent[o] *= (mask >> o & 1u) ? 1 : size;
    }
    loops_ = count > 0 ? count - 1 : 0;
    rows_ = row_size_ == 0 ? 0 : out.num_elements() / row_size_;
  }

  void add_loop(int at, std::int64_t size, unsigned mask, const std::array<std::int64_t, N>& extent) {
    if (at == 0) {
      row_size_ = size;
      for (int o = 0; o < N; ++o) row_step_[o] = (mask >> o & 1u) ? 0 : 1;
      return;
    }
    loop_[at - 1].size = size;
    for (int o = 0; o < N; ++o) loop_[at - 1].stride[o] = (mask >> o & 1u) ? 0 : extent[o];
  }

  std::array<Loop, kMaxRank> loop_;  // outside the row, innermost first
  int loops_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t row_size_ = 0;
  std::array<int, N> row_step_;
};

}  // namespace tutti::cpu
