// The files of checkpoints, as a Saver handles them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti::internal {

// Removes the files of a checkpoint, the index first, so that what is left after a crash is no checkpoint. `meta`: and
// its P.meta. Keeps the first error, but goes on.
Status delete_checkpoint(FileSystem& fs, const std::string& prefix, bool meta = true);

// Copies a checkpoint to a prefix that has none; the index comes last, when everything else is on the disk.
Status copy_checkpoint(FileSystem& fs, const std::string& from, const std::string& to);

// What the prefixes of a sharded save's parts begin with after the checkpoint's own: "_temp" and something that no
// other save has, a directory that remove_leftovers knows.
std::string unique_parts_suffix();

// Removes what saves that were cut short have left behind under `prefix`, with any step or none: directories of parts,
// files under temporary names (those of `state_file` too), data files without an index. What belongs to one of `kept`
// stays. What cannot be removed is only in the way: errors are dropped. REQUIRES: nobody saves under this prefix now.
void remove_leftovers(FileSystem& fs, const std::string& prefix, std::string_view state_file,
                      const std::vector<std::string>& kept);

}  // namespace tutti::internal
