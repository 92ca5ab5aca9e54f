// File names by pattern.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti {

// Whether a name (without '/') fits: `*` any characters, `?` one, `[a-z]` one of these, `[!a-z]` one of the others,
// `\` takes the next literally. Never slow, whatever the pattern.
bool glob_matches(std::string_view pattern, std::string_view name);

// The paths that exist and fit, sorted; wildcards work in every part between slashes and never match a slash. No match
// is an empty list. A directory that does not exist, may not be read or is none, or a link to itself, has nothing in
// it, as in TensorFlow; any other failure to read one is returned.
Result<std::vector<std::string>> glob(FileSystem& fs, std::string_view pattern);

}  // namespace tutti
