// Tensors filled with random numbers from a place in Philox's sequence: the same bits as TensorFlow, on any number of
// threads.
#pragma once

#include <cstdint>

#include "tutti/core/mutex.h"
#include "tutti/core/team.h"
#include "tutti/core/tensor.h"
#include "tutti/kernels/cpu/philox.h"
#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

enum class RandomLaw { kUniform, kNormal, kTruncatedNormal };

// Blocks that one output element may use up. Generous, so that rejection sampling never runs into the next run's.
inline constexpr std::uint64_t kBlocksPerOutput = 256;

// Of half, bfloat16, float or double; else kUnimplemented.
Status fill_random(Team& team, RandomLaw law, const Philox& generator, Tensor& out);
// Integers of [low, high), scalars of out's type, int32 or int64. kInvalidArgument when there are none.
Status fill_random_integers(Team& team, const Philox& generator, const Tensor& low, const Tensor& high, Tensor& out);
// Integers of all values; int32, int64, uint32 or uint64.
Status fill_random_bits(Team& team, const Philox& generator, Tensor& out);

// The generator of one kernel with attributes seed and seed2, handing disjoint stretches of its sequence to the runs.
// Both seeds 0: seeded from the system's entropy.
class SharedPhilox {
 public:
  explicit SharedPhilox(const KernelInit& init) : generator_(seeded(init)) {}

  Philox reserve(std::uint64_t blocks) {
    MutexLock lock(mu_);
    const Philox start = generator_;
    generator_.skip(blocks);
    return start;
  }
  // For a tensor of that many elements.
  Philox reserve_outputs(std::int64_t count) { return reserve(static_cast<std::uint64_t>(count) * kBlocksPerOutput); }

 private:
  static Philox seeded(const KernelInit& init);

  Mutex mu_;
  Philox generator_ TUTTI_GUARDED_BY(mu_);
};

}  // namespace tutti::cpu
