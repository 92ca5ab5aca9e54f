// References of products of matrices.
#pragma once

#include "tutti/kernels/ref/family.h"

namespace tutti::ref {

void add_product_references(References& all);

}  // namespace tutti::ref
