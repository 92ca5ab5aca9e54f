// Splitting one loop over the threads that a kernel may use.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tutti/core/team.h"

namespace tutti::cpu {

// Below this many elements a second thread costs more (about 5 us to wake and join) than it saves in a loop
// that reads and writes memory at several GB/s.
inline constexpr std::int64_t kElementGrain = 32768;

// How many pieces `n` units are worth, each at least `grain` units.
inline int parallel_pieces(const Team& team, std::int64_t n, std::int64_t grain) {
  const std::int64_t worth = n / std::max<std::int64_t>(team.grain(grain), 1);
  return static_cast<int>(std::min<std::int64_t>(team.size(), std::max<std::int64_t>(1, worth)));
}

// Calls fn(piece, begin, end) for consecutive ranges that cover [0, n), on the team's threads. The cut depends on
// the team's size, `n` and `grain` only, so results are the same on every run. fn must not throw.
template <typename Fn>
void parallel_ranges(Team& team, std::int64_t n, std::int64_t grain, const Fn& fn) {
  const int pieces = parallel_pieces(team, n, grain);
  if (pieces <= 1) {
    if (n > 0) fn(0, std::int64_t{0}, n);
    return;
  }
  // Ranges start at multiples of 64 where they are long, so that no two threads write one cache line.
  const std::int64_t unit = n / pieces >= 1024 ? 64 : 1;
  const std::int64_t step = ((n + pieces - 1) / pieces + unit - 1) / unit * unit;
  team.run(pieces, [&](int i) {
    const std::int64_t begin = std::min(n, i * step);
    const std::int64_t end = std::min(n, begin + step);
    if (begin < end) fn(i, begin, end);
  });
}

// The same with fn(begin, end).
template <typename Fn>
void parallel_for(Team& team, std::int64_t n, std::int64_t grain, const Fn& fn) {
  parallel_ranges(team, n, grain, [&fn](int, std::int64_t begin, std::int64_t end) { fn(begin, end); });
}

}  // namespace tutti::cpu
