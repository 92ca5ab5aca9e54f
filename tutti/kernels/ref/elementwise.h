// References of element-wise ops.
#pragma once

#include "tutti/kernels/ref/family.h"

namespace tutti::ref {

void add_elementwise_references(References& all);

}  // namespace tutti::ref
