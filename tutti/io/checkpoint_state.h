// The file `checkpoint` of a directory: which checkpoints there are. The format is TensorFlow's.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tutti/core/file_system.h"

namespace tutti {

inline constexpr std::string_view kCheckpointStateFile = "checkpoint";

// Paths are prefixes of checkpoints.
struct CheckpointState {
  std::string model_checkpoint_path;                    // the newest
  std::vector<std::string> all_model_checkpoint_paths;  // oldest first; the newest among them
  // Seconds since 1970, one for each path, or none at all.
  std::vector<double> all_model_checkpoint_timestamps;
  double last_preserved_timestamp = 0;

  bool operator==(const CheckpointState&) const = default;
};

// As the file has it: paths are left as they are.
std::string checkpoint_state_text(const CheckpointState& state);
// kDataLoss when it is no such text or names no checkpoint.
Result<CheckpointState> parse_checkpoint_state(std::string_view text);

// Nothing when there is no such file. Relative paths come back with `directory` before them, so that a directory that
// was moved still works; a newest path that the list lacks is put at its end. Errors name the file; kDataLoss as above.
Result<std::optional<CheckpointState>> read_checkpoint_state(FileSystem& fs, const std::string& directory,
                                                             std::string_view filename = kCheckpointStateFile);
// Replaces the file in one step that survives a crash: a reader sees the old text or the new one. `relative`: paths
// are written as seen from `directory`, as they are anyway when `directory` is no absolute path. Errors name the file.
Status write_checkpoint_state(FileSystem& fs, const std::string& directory, const CheckpointState& state,
                              bool relative = false, std::string_view filename = kCheckpointStateFile);

// The newest checkpoint that the state file names, when its files are there.
Result<std::optional<std::string>> latest_checkpoint(FileSystem& fs, const std::string& directory,
                                                     std::string_view filename = kCheckpointStateFile);
// Whether there is a checkpoint with this prefix, of either format.
bool checkpoint_exists(FileSystem& fs, const std::string& prefix);

// Writes a file under another name, syncs it and moves it into place, so that nobody ever sees half of it.
Status replace_file(FileSystem& fs, const std::string& path, std::string_view contents);

}  // namespace tutti
