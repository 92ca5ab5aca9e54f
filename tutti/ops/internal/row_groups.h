// Rows that have a source file of their own but belong to a larger family, which calls these.
#pragma once

#include "tutti/ops/op_table.h"

namespace tutti::internal {

// Of the array ops.
void add_diagonal_ops(OpTable& ops);  // MatrixBandPart, MatrixDiag*, MatrixSetDiag*, Diag, DiagPart
void add_patch_ops(OpTable& ops);     // ExtractImagePatches
void add_sequence_ops(OpTable& ops);  // MirrorPad, ReverseSequence, Roll
void add_tensor_scatter_ops(OpTable& ops);
void add_top_k_ops(OpTable& ops);
void add_unique_ops(OpTable& ops);

// Of the element-wise ops.
void add_rare_math_ops(OpTable& ops);  // trigonometry, bits, parts of complex numbers

// Of the matrix products.
void add_einsum_ops(OpTable& ops);

}  // namespace tutti::internal
