// References of biases, softmax, losses and their like.
#pragma once

#include "tutti/kernels/ref/family.h"

namespace tutti::ref {

void add_network_references(References& all);

}  // namespace tutti::ref
