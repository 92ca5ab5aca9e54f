// How a checkpoint appears in a directory: whole, in one step, and the old ones go.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/core/clock.h"
#include "tutti/core/file_system.h"
#include "tutti/core/mutex.h"
#include "tutti/io/checkpoint_state.h"
#include "tutti/train/internal/kept_checkpoints.h"

namespace tutti::internal {

struct CheckpointWriterOptions {
  bool relative_paths = false;
  std::string state_file = "checkpoint";
};

// 1. What an earlier save left behind, when it crashed or failed, is removed.
// 2. The values are written under the path, and everything is synced: until here nobody knows of them.
// 3. The state file is replaced. From now on this is the newest checkpoint.
// 4. Old checkpoints that are not listed any more are deleted.
// Where the path is that of the newest checkpoint, which must not be touched before there is another, 2 and 3 are done
// twice: under a temporary name, then, by copying, under the path; also when the state file is to stay as it is, which
// it then does but for a moment. At every moment the state file names a whole checkpoint.
//
// begin, finish and write by one thread at a time; the rest thread-safe.
class CheckpointWriter {
 public:
  // Writes the values under a prefix, visible as a whole or not at all, and synced.
  using WriteValues = std::function<Status(const std::string& prefix)>;

  // `fs` and `clock` outlive this.
  CheckpointWriter(FileSystem& fs, Clock& clock, KeptCheckpoints kept, CheckpointWriterOptions options)
      : fs_(fs), clock_(clock), options_(std::move(options)), kept_(std::move(kept)) {}

  struct Checkpoint {
    std::string path;
    std::optional<std::string> meta;  // bytes of path.meta
    bool write_state = true;          // false: steps 3 and 4 are left out, and nothing is kept or deleted for it
  };
  // After an error the state file names what it named before, or the new checkpoint; nothing was deleted.
  Status write(const Checkpoint& checkpoint, const WriteValues& write_values);
  // The same in two halves: where to write the values, and what is to be done when they are there. When they could not
  // be written, the second half is left out.
  Result<std::string> begin(const Checkpoint& checkpoint);
  Status finish(const Checkpoint& checkpoint, const std::string& written);
  // Removes what a save that failed has left behind.
  void give_up(const Checkpoint& checkpoint) { clean_up(checkpoint.path); }

  // The newest that the state file was given; empty: none was by this writer.
  std::string published() const;
  std::vector<KeptCheckpoints::TimedPath> kept() const;
  void set_kept(std::vector<KeptCheckpoints::TimedPath> paths);
  double last_preserved() const;
  void set_last_preserved(double time);
  // Seconds since 1970.
  double now() const { return static_cast<double>(clock_.wall_micros()) * 1e-6; }

 private:
  Status replace_newest(const Checkpoint& checkpoint, const std::string& meanwhile);
  // Publishes, then deletes what is too many.
  Status keep(const std::string& path);
  Status publish(const std::string& path, const KeptCheckpoints& kept);
  Status write_state(const std::string& path, const CheckpointState& state);
  bool is_kept(std::string_view base) const TUTTI_EXCLUDES(mu_);
  Result<bool> is_newest(const std::string& path);
  void clean_up(const std::string& path);

  FileSystem& fs_;
  Clock& clock_;
  const CheckpointWriterOptions options_;

  mutable Mutex mu_;
  KeptCheckpoints kept_ TUTTI_GUARDED_BY(mu_);
  std::string published_ TUTTI_GUARDED_BY(mu_);

  // Of the thread that writes.
  std::string clean_directory_;  // nothing is left behind there, because the last save there succeeded
  bool was_clean_ = false;       // when this save began
};

}  // namespace tutti::internal
