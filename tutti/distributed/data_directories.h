// Files within some directories only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti {

// Passes on to `base`, which must outlive it, what lies in one of `directories` once symbolic links and ".." are
// resolved; all else is kPermissionDenied, which names the path and the directories. None: nothing is allowed. The
// directories are resolved now: a missing one is kNotFound.
Result<std::unique_ptr<FileSystem>> make_data_directories(FileSystem& base,
                                                          const std::vector<std::string>& directories);

}  // namespace tutti
