#include "tutti/train/checkpoint_manager.h"

#include <algorithm>
#include <utility>

#include "tutti/io/paths.h"
#include "tutti/train/internal/checkpoint_writer.h"

namespace tutti {
namespace {

FileSystem& files_of(const CheckpointManagerOptions& options) {
  return options.saver.files ? *options.saver.files : local_file_system();
}

CheckpointManagerOptions checked(CheckpointManagerOptions options) {
  if (options.directory.empty()) throw_error(invalid_argument("CheckpointManager: no directory was given"));
  if (options.max_to_keep && *options.max_to_keep <= 0) {
    throw_error(invalid_argument("CheckpointManager: max_to_keep is ", *options.max_to_keep,
                                 "; expected a positive number, or none to keep all"));
  }
  if (options.checkpoint_interval < 0 || (options.checkpoint_interval > 0 && !options.step_counter)) {
    throw_error(invalid_argument("CheckpointManager: a checkpoint_interval of ", options.checkpoint_interval,
                                 " needs a step_counter and must not be negative"));
  }
  while (options.directory.size() > 1 && options.directory.ends_with('/')) options.directory.pop_back();
  throw_if_error(files_of(options).make_directories(options.directory));
  return options;
}

SaverOptions saver_options(const CheckpointManagerOptions& options) {
  SaverOptions saver = options.saver;
  saver.max_to_keep = options.max_to_keep.value_or(0);
  saver.keep_checkpoint_every_n_hours = options.keep_checkpoint_every_n_hours.value_or(0);
  saver.save_relative_paths = true;
  return saver;
}

// The N of "ckpt-N"; nothing for another path.
std::optional<std::int64_t> number_of(const std::string& path, const std::string& name) {
  std::string_view base = base_name(path);
  if (!base.starts_with(name + "-")) return {};
  base.remove_prefix(name.size() + 1);
  std::int64_t number = 0;
  // After a crash, a checkpoint that was being replaced goes by a temporary name: "ckpt-7.tempstate123".
  if (!parse_int64(base.substr(0, base.find('.')), &number)) return {};
  return number;
}

}  // namespace

CheckpointManager::CheckpointManager(Graph& graph, CheckpointManagerOptions options)
    : options_(checked(std::move(options))), saver_(Saver::ForManager{}, graph, saver_options(options_)) {
  recover();
}

CheckpointManager::~CheckpointManager() = default;

void CheckpointManager::recover() {
  internal::CheckpointWriter& writer = saver_.writer();
  const double now = writer.now();
  const std::optional<CheckpointState> state =
      read_checkpoint_state(files_of(options_), options_.directory, options_.saver.latest_filename).value_or_throw();
  if (!state) {
    // A little earlier, so that a manager made right after this one counts from the same moment.
    writer.set_last_preserved(now - 1);
    return;
  }
  recovered_ = state->model_checkpoint_path;
  const double preserved = std::min(state->last_preserved_timestamp, now);
  writer.set_last_preserved(preserved);
  std::vector<Saver::TimedPath> kept;
  const auto& paths = state->all_model_checkpoint_paths;
  const auto& times = state->all_model_checkpoint_timestamps;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (const auto number = number_of(paths[i], options_.checkpoint_name)) {
      next_number_ = std::max(next_number_, *number + 1);
    }
    // A state without times is a Saver's: all of it counts as just written.
    kept.emplace_back(paths[i], i < times.size() ? std::min(times[i], now) : now);
  }
  std::erase_if(kept, [&](const Saver::TimedPath& path) { return path.second <= preserved; });
  writer.set_kept(std::move(kept));
}

std::int64_t CheckpointManager::steps(Session& session) const {
  const Tensor value = session.run({}, {options_.step_counter->read()})[0];
  if (value.num_elements() == 1 && value.dtype() == DType::kInt64) return value.scalar<std::int64_t>();
  if (value.num_elements() == 1 && value.dtype() == DType::kInt32) return value.scalar<std::int32_t>();
  throw_error(invalid_argument("CheckpointManager: step_counter \"", printable(options_.step_counter->name()),
                               "\" is no whole number: ", value.to_string()));
}

void CheckpointManager::settle() {
  const Status written = saver_.try_wait();
  if (!written.ok()) last_step_ = step_before_;  // the next save is not too soon after one that is none
  lost_.update(written);
}

void CheckpointManager::wait() {
  settle();
  throw_if_error(std::exchange(lost_, {}));
}

void CheckpointManager::close() {
  settle();
  saver_.close();
  throw_if_error(std::exchange(lost_, {}));
}

std::string CheckpointManager::latest_checkpoint() const {
  const std::string published = saver_.writer().published();
  return published.empty() ? recovered_ : published;
}

std::optional<std::string> CheckpointManager::save(Session& session, std::optional<std::int64_t> number,
                                                   bool check_interval) {
  std::optional<std::int64_t> step;
  if (options_.step_counter) step = steps(session);
  if (check_interval && options_.checkpoint_interval > 0 && last_step_ &&
      *step < *last_step_ + options_.checkpoint_interval) {
    return {};
  }
  wait();
  const std::int64_t chosen = number.value_or(next_number_);
  const std::string path = saver_.save(session, str_cat(options_.directory, "/", options_.checkpoint_name), chosen);
  if (path.empty()) return {};
  next_number_ = std::max(next_number_, chosen + 1);
  step_before_ = std::exchange(last_step_, step);
  return path;
}

std::optional<std::string> CheckpointManager::restore_or_initialize(Session& session) {
  // What is being written is the newest as soon as it is whole, and the one before it may then be gone. A save that
  // failed is the next save's matter.
  settle();
  if (const std::string latest = latest_checkpoint(); !latest.empty()) {
    saver_.restore(session, latest);
    if (options_.step_counter) last_step_ = steps(session);
    return latest;
  }
  if (options_.init_fn) options_.init_fn(session);
  return {};
}

}  // namespace tutti
