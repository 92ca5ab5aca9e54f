#include "tutti/kernels/cpu/strided_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tutti/kernels/cpu/element.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu {

namespace {

// Tiles of a transposition: 16 x 16 elements keep the lines that are read in the first-level cache.
constexpr std::int64_t kTile = 16;
// Copies below this run on the calling thread: waking another costs as much as moving this many bytes.
constexpr std::int64_t kParallelCopyBytes = 512 << 10;

}  // namespace

template <typename E>
struct LoopRunner {
  using Loop = StridedCopy::Loop;

  static void row(const Loop& loop, E* to, const E* from) {
    if (loop.to_stride == 1 && loop.from_stride == 1) {
      if constexpr (std::is_trivially_copyable_v<E>) {
        std::memcpy(to, from, static_cast<std::size_t>(loop.size) * sizeof(E));
      } else {
        std::copy_n(from, loop.size, to);
      }
    } else if (loop.to_stride == 1 && loop.from_stride == 0) {
      std::fill_n(to, loop.size, *from);
    } else {
      for (std::int64_t i = 0; i < loop.size; ++i) to[i * loop.to_stride] = from[i * loop.from_stride];
    }
  }

  // writes[i * 1 + j * to_stride] for loops (j outer: reads run along it, i inner: writes run along it)
  static void tiles(const Loop& outer, const Loop& inner, E* to, const E* from) {
    for (std::int64_t j0 = 0; j0 < outer.size; j0 += kTile) {
      const std::int64_t j1 = std::min(outer.size, j0 + kTile);
      for (std::int64_t i0 = 0; i0 < inner.size; i0 += kTile) {
        const std::int64_t i1 = std::min(inner.size, i0 + kTile);
        for (std::int64_t j = j0; j < j1; ++j) {
          E* row_to = to + j * outer.to_stride;
          const E* row_from = from + j * outer.from_stride;
          for (std::int64_t i = i0; i < i1; ++i) row_to[i] = row_from[i * inner.from_stride];
        }
      }
    }
  }

  static void nest(const Loop* loops, int count, bool transposing, E* to, const E* from) {
    if (count == 0) {
      *to = *from;
      return;
    }
    const int outer_count = count - (transposing ? 2 : 1);
    std::array<std::int64_t, StridedCopy::kMaxLoops> index;
    std::fill_n(index.begin(), outer_count, 0);
    while (true) {
      if (transposing) {
        tiles(loops[count - 2], loops[count - 1], to, from);
      } else {
        row(loops[count - 1], to, from);
      }
      int d = outer_count - 1;
      for (; d >= 0; --d) {
        to += loops[d].to_stride;
        from += loops[d].from_stride;
        if (++index[d] < loops[d].size) break;
        to -= loops[d].to_stride * loops[d].size;
        from -= loops[d].from_stride * loops[d].size;
        index[d] = 0;
      }
      if (d < 0) return;
    }
  }
};

bool StridedCopy::simplify() {
  int kept = 0;
  for (int i = 0; i < count_; ++i) {
    const Loop loop = loops_[i];
    if (loop.size == 0) return false;
    if (loop.size == 1) continue;
    if (kept > 0) {
      Loop& outer = loops_[kept - 1];
      if (outer.to_stride == loop.to_stride * loop.size && outer.from_stride == loop.from_stride * loop.size) {
        outer = {outer.size * loop.size, loop.to_stride, loop.from_stride};
        continue;
      }
    }
    loops_[kept++] = loop;
  }
  count_ = kept;
  return true;
}

bool StridedCopy::arrange_transposition() {
  if (count_ < 2 || loops_[count_ - 1].to_stride != 1) return false;
  const std::int64_t inner_from = loops_[count_ - 1].from_stride;
  if (inner_from == 1 || inner_from == 0) return false;
  for (int i = count_ - 2; i >= 0; --i) {
    if (loops_[i].from_stride != 1) continue;
    std::rotate(loops_.begin() + i, loops_.begin() + i + 1, loops_.begin() + count_ - 1);
    return true;
  }
  return false;
}

void StridedCopy::run(DType dtype, void* to, const void* from, Team& team) {
  if (!simplify()) return;
  const bool transposing = arrange_transposition();
  std::int64_t bytes = static_cast<std::int64_t>(element_stride(dtype));
  for (int i = 0; i < count_; ++i) bytes *= loops_[i].size;
  with_element(dtype, [&]<typename E>(const E&) {
    E* typed_to = static_cast<E*>(to);
    const E* typed_from = static_cast<const E*>(from);
    if (team.size() <= 1 || bytes < team.grain(kParallelCopyBytes) || count_ == 0) {
      LoopRunner<E>::nest(loops_.data(), count_, transposing, typed_to, typed_from);
      return;
    }
    const Loop outermost = loops_[0];
    const std::int64_t grain =
        std::max<std::int64_t>(1, kParallelCopyBytes / 2 / std::max<std::int64_t>(1, bytes / outermost.size));
    parallel_for(team, outermost.size, grain, [&](std::int64_t begin, std::int64_t end) {
      std::array<Loop, kMaxLoops> part;
      std::copy_n(loops_.begin(), count_, part.begin());
      part[0].size = end - begin;
      LoopRunner<E>::nest(part.data(), count_, transposing, typed_to + begin * outermost.to_stride,
                          typed_from + begin * outermost.from_stride);
    });
  });
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  const int lead = to.rank() - from.rank();
  bool fits = lead >= 0;
  for (int d = 0; fits && d < from.rank(); ++d) fits = from.dim(d) == 1 || from.dim(d) == to.dim(lead + d);
  return fits;
}

void broadcast_elements(const Tensor& from, Tensor& to, Team& team) {
  if (to.num_elements() == 0) return;
  DimList from_strides, to_strides;
  strides_of(from.shape(), &from_strides);
  strides_of(to.shape(), &to_strides);
  const int lead = to.rank() - from.rank();
  StridedCopy copy;
  for (int d = 0; d < to.rank(); ++d) {
    const bool repeated = d < lead || from.dim(d - lead) == 1;
    copy.add_loop(to.dim(d), to_strides[d], repeated ? 0 : from_strides[d - lead]);
  }
  copy.run(to.dtype(), to.raw(), from.raw(), team);
}

}  // namespace tutti::cpu
