// Making one checkpoint of several.
#pragma once

#include <span>
#include <string>

#include "tutti/core/file_system.h"

namespace tutti {

struct MergeOptions {
  // Sources that do not exist are left out, as long as one does.
  bool allow_missing = false;
};

// The tensors of all bundles under one prefix. Data files are renamed, not copied, and the source indices removed, so
// that the sources are gone afterwards. A name in two sources is an error unless both hold slices of it. When anything
// fails, the sources are as they were and nothing is visible under `destination` that was not before. Errors name the
// file; kInvalidArgument, as TensorFlow has it, for a source that is missing.
Status merge_bundles(FileSystem& fs, std::span<const std::string> sources, const std::string& destination,
                     const MergeOptions& options = {});

}  // namespace tutti
