// Copying between two layouts of the same elements: the engine under transpose, slice, tile, broadcast, reverse,
// pad and concatenation.
#pragma once

#include <array>
#include <cstdint>

#include "tutti/core/dtype.h"
#include "tutti/core/shape.h"
#include "tutti/core/team.h"
#include "tutti/core/tensor.h"

namespace tutti::cpu {

// The loop nest of one copy, outermost first. Strides count elements; a source stride may be 0 (repeat) or
// negative (reverse).
class StridedCopy {
 public:
  StridedCopy() {}  // NOLINT: the array stays uninitialised on purpose
  // Room for twice the dimensions of a tensor: Tile makes two loops of one.
  static constexpr int kMaxLoops = 2 * kMaxRank;

  void add_loop(std::int64_t size, std::int64_t to_stride, std::int64_t from_stride) {
    loops_[count_++] = {size, to_stride, from_stride};
  }
  // REQUIRES: every element that the loops reach lies in its buffer; the buffers do not overlap; no two
  // iterations write the same place. `threads`: how many may share a large copy.
  void run(DType dtype, void* to, const void* from, Team& team = Team::alone());

 private:
  struct Loop {
    std::int64_t size;
    std::int64_t to_stride;
    std::int64_t from_stride;
  };
  template <typename E>
  friend struct LoopRunner;

  // Drops loops of size 1 and joins neighbours that walk memory as one. False when there is nothing to copy.
  bool simplify();
  // Makes the last two loops walk a transposition where there is one: writes run along the last, reads
  // along the one before. Whether it did.
  bool arrange_transposition();

  std::array<Loop, kMaxLoops> loops_;
  int count_ = 0;
};

// Whether values of the one shape may be repeated to fill the other.
bool broadcasts_to(const Shape& from, const Shape& to);
// Repeats what `from` has so that it fills `to`. REQUIRES: broadcasts_to(from.shape(), to.shape()), one dtype.
void broadcast_elements(const Tensor& from, Tensor& to, Team& team);

}  // namespace tutti::cpu
