// Float products on oneDNN's plain gemm, each call on one thread. Its matmul primitive is slower on one thread (by 7 %
// over the products of an MLP step at batch 32, 4 % at 128: AVX-512, measured alternating), and its own threads are
// OpenMP's, whose barriers stand still when the cores are shared with other processes. Loops of our own that pack
// nothing, or only a few rows, have 0.88 to 0.99 of its speed on those products: it is at 96 % of what the core can
// multiply.
#include <algorithm>
#include <atomic>

#include "tutti/kernels/cpu/gemm.h"
#include "tutti/kernels/cpu/internal/onednn.h"
#include "tutti/kernels/cpu/parallel.h"

namespace tutti::cpu::internal {
namespace {

// A piece of a product has at least this many multiply-adds: waking a second thread costs about as much.
constexpr double kProductPieceWork = 250'000;
// Pieces begin at multiples of a vector, so that no two threads write one cache line of an aligned row.
constexpr std::int64_t kPieceUnit = 16;

// A range of c's rows and columns.
struct Block {
  std::int64_t row = 0, rows = 0, column = 0, columns = 0;
};

dnnl_status_t multiply_block(const GemmShape& s, const GemmStrides& strides, const float* a, const float* b, float* c,
                             GemmResult result, const Block& block) {
  const float* left = s.transpose_a ? a + block.row : a + block.row * strides.a;
  const float* right = s.transpose_b ? b + block.column * strides.b : b + block.column;
  return dnnl_sgemm(s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', block.rows, block.columns, s.k, 1.0f, left,
                    strides.a, right, strides.b, result == GemmResult::kAdd ? 1.0f : 0.0f,
                    c + block.row * strides.c + block.column, strides.c);
}

}  // namespace

Status onednn_gemm(const GemmShape& s, const GemmStrides& strides, const float* a, const float* b, float* c, Team& team,
                   GemmResult result) {
  // The operand that is cut is packed in pieces, the other one by every thread: the larger one is cut.
  const bool by_rows = s.m >= s.n;
  const std::int64_t size = by_rows ? s.m : s.n;
  // In double: three dimensions may overflow 64 bits.
  const double work = static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  const double grain = static_cast<double>(size) * kProductPieceWork / work;
  const std::int64_t units = (size + kPieceUnit - 1) / kPieceUnit;
  std::atomic<dnnl_status_t> failure = dnnl_success;
  parallel_for(team, units, static_cast<std::int64_t>(grain / kPieceUnit) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 const onednn::StayOnThisThread alone;
                 const std::int64_t from = begin * kPieceUnit, to = std::min(size, end * kPieceUnit);
                 const Block block = by_rows ? Block{from, to - from, 0, s.n} : Block{0, s.m, from, to - from};
                 const dnnl_status_t status = multiply_block(s, strides, a, b, c, result, block);
                 if (status != dnnl_success) failure = status;
               });
  if (failure == dnnl_success) return {};
  return internal_error("oneDNN failed with status ", static_cast<int>(failure.load()), " on the product of ", s.m, "x",
                        s.k, " and ", s.k, "x", s.n);
}

}  // namespace tutti::cpu::internal
