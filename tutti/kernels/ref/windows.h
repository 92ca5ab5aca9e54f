// References of convolutions, pools and normalisations.
#pragma once

#include "tutti/kernels/ref/family.h"

namespace tutti::ref {

void add_window_references(References& all);

}  // namespace tutti::ref
