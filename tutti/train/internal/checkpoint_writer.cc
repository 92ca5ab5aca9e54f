#include "tutti/train/internal/checkpoint_writer.h"

#include <algorithm>

#include "tutti/io/checkpoint_state.h"
#include "tutti/io/paths.h"
#include "tutti/train/internal/checkpoint_files.h"

namespace tutti::internal {

Status CheckpointWriter::write(const Checkpoint& checkpoint, const WriteValues& write_values) {
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix, begin(checkpoint));
  TUTTI_RETURN_IF_ERROR(write_values(prefix));
  return finish(checkpoint, prefix);
}

Result<std::string> CheckpointWriter::begin(const Checkpoint& checkpoint) {
  was_clean_ = clean_directory_ == directory_of(checkpoint.path);
  if (!was_clean_) clean_up(checkpoint.path);
  clean_directory_.clear();
  TUTTI_ASSIGN_OR_RETURN(const bool newest, is_newest(checkpoint.path));
  return newest && checkpoint.write_state ? temporary_name(checkpoint.path) : checkpoint.path;
}

Status CheckpointWriter::finish(const Checkpoint& checkpoint, const std::string& written) {
  if (written != checkpoint.path) TUTTI_RETURN_IF_ERROR(replace_newest(checkpoint.path, written));
  if (checkpoint.meta) TUTTI_RETURN_IF_ERROR(replace_file(fs_, checkpoint.path + ".meta", *checkpoint.meta));
  if (checkpoint.write_state) {
    std::vector<std::string> surplus;
    {
      // From here on it counts, even if it cannot be published: a later save will delete it in its turn.
      MutexLock lock(mu_);
      kept_.add(checkpoint.path, now());
      surplus = kept_.take_surplus();
    }
    TUTTI_RETURN_IF_ERROR(publish(checkpoint.path));
    // The new one stands; an old one that cannot be removed takes room and does no harm.
    for (const std::string& old : surplus) {
      if (!is_kept(base_name(old))) (void)delete_checkpoint(fs_, old);
    }
  }
  if (written != checkpoint.path) (void)delete_checkpoint(fs_, written);
  // What the old state file still named, a temporary prefix say, may go now.
  if (!was_clean_) clean_up(checkpoint.path);
  clean_directory_ = directory_of(checkpoint.path);
  return {};
}

// Paths of earlier runs may spell the same folder in another way, so only the last part tells files apart.
bool CheckpointWriter::is_kept(std::string_view base) const {
  MutexLock lock(mu_);
  return std::ranges::any_of(kept_.list(), [&](const auto& kept) { return base_name(kept.first) == base; });
}

// The caller publishes `path` then; until it has, the state file names `meanwhile`.
Status CheckpointWriter::replace_newest(const std::string& path, const std::string& meanwhile) {
  TUTTI_RETURN_IF_ERROR(publish(meanwhile));
  TUTTI_RETURN_IF_ERROR(delete_checkpoint(fs_, path, /*meta=*/false));
  return copy_checkpoint(fs_, meanwhile, path);
}

Status CheckpointWriter::publish(const std::string& path) {
  CheckpointState state{.model_checkpoint_path = path};
  {
    MutexLock lock(mu_);
    const bool timed = kept_.rule() == KeptCheckpoints::Rule::kManager;
    for (const auto& [kept, time] : kept_.list()) {
      if (kept == path) continue;
      state.all_model_checkpoint_paths.push_back(kept);
      if (timed) state.all_model_checkpoint_timestamps.push_back(time);
    }
    state.all_model_checkpoint_paths.push_back(path);
    if (timed) {
      state.all_model_checkpoint_timestamps.push_back(now());
      state.last_preserved_timestamp = kept_.last_preserved();
    }
  }
  return write_checkpoint_state(fs_, directory_of(path), state, options_.relative_paths, options_.state_file);
}

Result<bool> CheckpointWriter::is_newest(const std::string& path) {
  Result<std::optional<CheckpointState>> state = read_checkpoint_state(fs_, directory_of(path), options_.state_file);
  // A state file that cannot be read names nothing, and is replaced.
  if (!state.ok() && state.status().code() == Code::kDataLoss) return false;
  if (!state.ok()) return state.status();
  return state->has_value() && base_name((*state)->model_checkpoint_path) == base_name(path) &&
         checkpoint_exists(fs_, path);
}

void CheckpointWriter::clean_up(const std::string& path) {
  std::vector<std::string> kept;
  Result<std::optional<CheckpointState>> state = read_checkpoint_state(fs_, directory_of(path), options_.state_file);
  // Whatever it names must stay, so without knowing it nothing may go.
  if (!state.ok()) return;
  if (state->has_value()) kept = (*state)->all_model_checkpoint_paths;
  {
    MutexLock lock(mu_);
    for (const auto& [known, time] : kept_.list()) kept.push_back(known);
  }
  remove_leftovers(fs_, path, options_.state_file, kept);
}

std::vector<KeptCheckpoints::TimedPath> CheckpointWriter::kept() const {
  MutexLock lock(mu_);
  return kept_.list();
}

void CheckpointWriter::set_kept(std::vector<KeptCheckpoints::TimedPath> paths) {
  MutexLock lock(mu_);
  kept_.set_list(std::move(paths));
}

double CheckpointWriter::last_preserved() const {
  MutexLock lock(mu_);
  return kept_.last_preserved();
}

void CheckpointWriter::set_last_preserved(double time) {
  MutexLock lock(mu_);
  kept_.set_last_preserved(time);
}

}  // namespace tutti::internal
