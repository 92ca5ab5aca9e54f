// The checkpoints of one directory: numbered, the newest kept, found again after a restart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tutti/ops/state.h"
#include "tutti/train/saver.h"

namespace tutti {

struct CheckpointManagerOptions {
  // Made, parents included, when it is not there.
  std::string directory;
  // The newest so many stay; nothing: all do.
  std::optional<int> max_to_keep = 5;
  // Besides, one for every so many hours stays for good.
  std::optional<double> keep_checkpoint_every_n_hours;
  // Files are directory/name-N.
  std::string checkpoint_name = "ckpt";
  // With checkpoint_interval: a save comes at the earliest so many counts after the last one.
  std::optional<Var> step_counter;
  std::int64_t checkpoint_interval = 0;
  // What restore_or_initialize calls when there is no checkpoint.
  std::function<void(Session&)> init_fn;
  // Of how values are saved. Its own max_to_keep, hours and paths are not used.
  SaverOptions saver;
};

// As TensorFlow's. On construction it reads the directory's file `checkpoint`, so that numbers and keeping go on where
// an earlier run stopped. What Saver promises of files and values holds here too. Calls from one thread at a time.
// Throws Error: kInvalidArgument for max_to_keep below 1 and for an interval without a counter.
class CheckpointManager {
 public:
  CheckpointManager(Graph& graph, CheckpointManagerOptions options);
  ~CheckpointManager();

  // The path of the new checkpoint; nothing when `check_interval` and it is too soon. `number`: instead of the next
  // one.
  std::optional<std::string> save(Session& session, std::optional<std::int64_t> number = {},
                                  bool check_interval = true);
  // Restores the newest checkpoint and returns its path, or else calls init_fn and returns nothing. One that is still
  // being written in the background is waited for.
  std::optional<std::string> restore_or_initialize(Session& session);
  void restore(Session& session, const std::string& path) { saver_.restore(session, path); }
  // See Saver.
  void wait();
  void close();

  // The newest that is whole, so not one that is still being written in the background. Empty when there is none.
  std::string latest_checkpoint() const;
  // Oldest first, without those that are kept for good.
  std::vector<std::string> checkpoints() const { return saver_.last_checkpoints(); }
  const std::string& directory() const { return options_.directory; }
  std::int64_t checkpoint_interval() const { return options_.checkpoint_interval; }
  Saver& saver() { return saver_; }

 private:
  void recover();
  // Waits for what is written in the background; what went wrong is kept for the next call that tells it.
  void settle();
  std::int64_t steps(Session& session) const;

  const CheckpointManagerOptions options_;
  Saver saver_;
  std::string recovered_;  // the newest of an earlier run
  std::int64_t next_number_ = 1;
  std::optional<std::int64_t> last_step_;    // at the last save or restore
  std::optional<std::int64_t> step_before_;  // at the one before, should the last save fail
  Status lost_;                              // what a save in the background failed with, and nobody was told yet
};

}  // namespace tutti
