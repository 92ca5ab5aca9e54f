// What bundle_fuzzer.cc and bundle_seeds.cc agree on.
#pragma once

#include <string_view>

namespace tutti::fuzz {

// The pair of an input with this key has the data file.
inline constexpr std::string_view kDataKey = "/data";

}  // namespace tutti::fuzz
