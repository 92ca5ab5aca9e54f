// QR decomposition of matrices.
#pragma once

#include "tutti/kernels/kernel.h"

namespace tutti::cpu {

// Input [..., m, n]; outputs q and r, with attribute full_matrices [..., m, m] and [..., m, n], else [..., m, p] and
// [..., p, n] where p = min(m, n). By Householder's reflections; the diagonal of r takes the sign that they give it.
KernelFactory qr_kernel();

}  // namespace tutti::cpu
