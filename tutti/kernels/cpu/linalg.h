// Decompositions of matrices and what they give: plain code in double precision, for small matrices. Inputs may have
// batch dimensions before the last two; types are float, double and complex ones.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// The lower triangle L with L L^H = input, which must be Hermitian and positive definite; its upper part is not read.
Status cholesky(KernelContext& ctx);
// Attribute adjoint: of the adjoint matrix.
KernelFactory matrix_inverse_kernel();
Status matrix_determinant(KernelContext& ctx);
// Outputs the determinant over its absolute value, and the logarithm of that.
Status log_matrix_determinant(KernelContext& ctx);
// Inputs matrix, rhs; attribute adjoint.
KernelFactory matrix_solve_kernel();
// Further attribute lower. Batch dimensions are broadcast against each other.
KernelFactory matrix_triangular_solve_kernel();

}  // namespace tutti::cpu
