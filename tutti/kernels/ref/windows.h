// References of convolutions, pools and normalisations.
#pragma once

#include <map>
#include <string>

#include "tutti/kernels/ref/reference.h"

namespace tutti::ref {

void add_window_references(std::map<std::string, ReferenceFn, std::less<>>& all);

}  // namespace tutti::ref
