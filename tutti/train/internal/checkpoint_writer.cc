#include "tutti/train/internal/checkpoint_writer.h"

#include <algorithm>

#include "tutti/io/paths.h"
#include "tutti/train/internal/checkpoint_files.h"

namespace tutti::internal {

Status CheckpointWriter::write(const Checkpoint& checkpoint, const WriteValues& write_values) {
  TUTTI_ASSIGN_OR_RETURN(const std::string prefix, begin(checkpoint));
  Status status = write_values(prefix);
  if (status.ok()) status = finish(checkpoint, prefix);
  if (!status.ok()) give_up(checkpoint);
  return status;
}

Result<std::string> CheckpointWriter::begin(const Checkpoint& checkpoint) {
  was_clean_ = clean_directory_ == directory_of(checkpoint.path);
  if (!was_clean_) clean_up(checkpoint.path);
  clean_directory_.clear();
  TUTTI_ASSIGN_OR_RETURN(const bool newest, is_newest(checkpoint.path));
  return newest ? temporary_name(checkpoint.path) : checkpoint.path;
}

Status CheckpointWriter::finish(const Checkpoint& checkpoint, const std::string& written) {
  if (written != checkpoint.path) TUTTI_RETURN_IF_ERROR(replace_newest(checkpoint, written));
  if (checkpoint.meta) TUTTI_RETURN_IF_ERROR(replace_file(fs_, checkpoint.path + ".meta", *checkpoint.meta));
  if (checkpoint.write_state) TUTTI_RETURN_IF_ERROR(keep(checkpoint.path));
  if (written != checkpoint.path) (void)delete_checkpoint(fs_, written);
  // What the old state file still named, a temporary prefix say, may go now.
  if (!was_clean_) clean_up(checkpoint.path);
  clean_directory_ = directory_of(checkpoint.path);
  return {};
}

Status CheckpointWriter::keep(const std::string& path) {
  const KeptCheckpoints before = [&] {
    MutexLock lock(mu_);
    // From here on it counts, even if it cannot be published: a later save will delete it in its turn.
    kept_.add(path, now());
    return kept_;
  }();
  KeptCheckpoints after = before;
  const std::vector<std::string> surplus = after.take_surplus();
  TUTTI_RETURN_IF_ERROR(publish(path, after));
  {
    MutexLock lock(mu_);
    // Not the whole list: it may have been set since.
    for (const auto& [old, time] : before.list()) {
      if (!after.lists(old)) kept_.forget(old);
    }
    kept_.set_last_preserved(after.last_preserved());
    published_ = path;
  }
  // The new one stands; an old one that cannot be removed takes room and does no harm.
  for (const std::string& old : surplus) {
    if (!is_kept(base_name(old))) (void)delete_checkpoint(fs_, old);
  }
  return {};
}

// Paths of earlier runs may spell the same folder in another way, so only the last part tells files apart.
bool CheckpointWriter::is_kept(std::string_view base) const {
  MutexLock lock(mu_);
  return std::ranges::any_of(kept_.list(), [&](const auto& kept) { return base_name(kept.first) == base; });
}

// The state file names `meanwhile` until the caller publishes the path, or, where that is not wanted, until this gives
// it back what it said.
Status CheckpointWriter::replace_newest(const Checkpoint& checkpoint, const std::string& meanwhile) {
  const std::string& path = checkpoint.path;
  CheckpointState before;
  if (checkpoint.write_state) {
    const KeptCheckpoints kept = [&] {
      MutexLock lock(mu_);
      return kept_;
    }();
    TUTTI_RETURN_IF_ERROR(publish(meanwhile, kept));
  } else {
    TUTTI_ASSIGN_OR_RETURN(std::optional<CheckpointState> state,
                           read_checkpoint_state(fs_, directory_of(path), options_.state_file));
    if (!state) return failed_precondition(options_.state_file, " is gone while \"", printable(path), "\" is saved");
    before = *state;
    std::ranges::replace(state->all_model_checkpoint_paths, before.model_checkpoint_path, meanwhile);
    state->model_checkpoint_path = meanwhile;
    TUTTI_RETURN_IF_ERROR(write_state(path, *state));
  }
  TUTTI_RETURN_IF_ERROR(delete_checkpoint(fs_, path, /*meta=*/false));
  TUTTI_RETURN_IF_ERROR(copy_checkpoint(fs_, meanwhile, path));
  return checkpoint.write_state ? Status() : write_state(path, before);
}

Status CheckpointWriter::publish(const std::string& path, const KeptCheckpoints& kept) {
  CheckpointState state{.model_checkpoint_path = path};
  const bool timed = kept.rule() == KeptCheckpoints::Rule::kManager;
  for (const auto& [old, time] : kept.list()) {
    if (old == path) continue;
    state.all_model_checkpoint_paths.push_back(old);
    if (timed) state.all_model_checkpoint_timestamps.push_back(time);
  }
  state.all_model_checkpoint_paths.push_back(path);
  if (timed) {
    state.all_model_checkpoint_timestamps.push_back(now());
    state.last_preserved_timestamp = kept.last_preserved();
  }
  return write_state(path, state);
}

Status CheckpointWriter::write_state(const std::string& path, const CheckpointState& state) {
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

std::string CheckpointWriter::published() const {
  MutexLock lock(mu_);
  return published_;
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
