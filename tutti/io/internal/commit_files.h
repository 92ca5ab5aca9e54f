// Several files that appear together.
#pragma once

#include <string>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti {

struct FileMove {
  std::string from;
  std::string to;
};

// Gives files their final names. The last one is what makes the others count (a checkpoint's index): it appears after
// them, and one that it replaces disappears before them, so that nobody ever sees it with files that are not its own.
// When a step fails, all before it are undone: the old files are back, the new ones under their `from` names, and the
// error names the file. REQUIRES: no path occurs twice.
Status commit_files(FileSystem& fs, const std::vector<FileMove>& moves);

}  // namespace tutti
