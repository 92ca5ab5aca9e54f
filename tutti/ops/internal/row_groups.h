// Rows that have a source file of their own but belong to a larger family, which calls these.
#pragma once

#include "tutti/ops/op_table.h"

namespace tutti::internal {

// Of the array ops.
void add_diagonal_ops(OpTable& ops);  // MatrixBandPart, MatrixDiag*, MatrixSetDiag*, Diag, DiagPart
void add_patch_ops(OpTable& ops);     // ExtractImagePatches, Dilation2D
void add_sequence_ops(OpTable& ops);  // MirrorPad, ReverseSequence, Roll
void add_tensor_scatter_ops(OpTable& ops);
void add_top_k_ops(OpTable& ops);
void add_unique_ops(OpTable& ops);

// Of the element-wise ops.
void add_rare_math_ops(OpTable& ops);         // trigonometry, bits, parts of complex numbers
void add_special_function_ops(OpTable& ops);  // gamma, beta, zeta and their kin

// Of the convolutions.
void add_volume_ops(OpTable& ops);  // Conv3D, AvgPool3D, MaxPool3D

// Of the matrix products.
void add_einsum_ops(OpTable& ops);
void add_linalg_ops(OpTable& ops);  // decompositions, determinants, solvers

}  // namespace tutti::internal
