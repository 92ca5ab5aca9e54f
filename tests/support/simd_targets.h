// Vector loops are compiled for several instruction sets, of which a machine runs the best that it has. Tests run all.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

// The first says which sets the second is about.
// clang-format off
#include "tutti/kernels/cpu/internal/simd_targets.h"
#include <hwy/targets.h>
// clang-format on

namespace tutti::testing {

// Calls `body` once for each instruction set that the loops are compiled for and this machine has. Kernels made in
// there use it.
template <typename Body>
void for_each_simd_target(const Body& body) {
  const std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
  ASSERT_FALSE(targets.empty());
  for (const std::int64_t target : targets) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace tutti::testing
