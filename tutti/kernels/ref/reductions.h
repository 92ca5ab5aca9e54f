// References of reductions over axes.
#pragma once

#include "tutti/kernels/ref/family.h"

namespace tutti::ref {

void add_reduction_references(References& all);

}  // namespace tutti::ref
