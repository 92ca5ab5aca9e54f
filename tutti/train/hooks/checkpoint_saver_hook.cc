#include "tutti/train/hooks/checkpoint_saver_hook.h"

#include <utility>

#include "tutti/core/file_system.h"
#include "tutti/graph/graph_def.h"
#include "tutti/io/event_writer.h"
#include "tutti/train/event_log.h"
#include "tutti/train/global_step.h"
#include "tutti/train/internal/join_path.h"
#include "tutti/train/internal/preemption.h"
#include "tutti/train/saver.h"
#include "tutti/train/scaffold.h"

namespace tutti {

CheckpointSaverHook::CheckpointSaverHook(CheckpointSaverOptions options)
    : options_(std::move(options)), timer_(options_.save_secs, options_.save_steps) {
  if (options_.checkpoint_dir.empty()) throw_error(invalid_argument("CheckpointSaverHook: needs a checkpoint_dir"));
  if (options_.saver && options_.scaffold) {
    throw_error(invalid_argument("You cannot provide both saver and scaffold."));
  }
  if (!options_.saver && !options_.scaffold) {
    throw_error(invalid_argument("CheckpointSaverHook: needs a saver or a scaffold"));
  }
}

Saver& CheckpointSaverHook::saver() const { return options_.saver ? *options_.saver : *options_.scaffold->saver; }

void CheckpointSaverHook::begin(HookContext& context) {
  context_ = &context;
  step_.find(context.graph, "CheckpointSaverHook");
  throw_if_error(context.files.make_directories(options_.checkpoint_dir));
  events_ = context.events.at(options_.checkpoint_dir);
  for (const auto& listener : options_.listeners) listener->begin();
}

void CheckpointSaverHook::write_graph() {
  const std::string path = internal::join_path(options_.checkpoint_dir, "graph.pbtxt");
  throw_if_error(replace_file(context_->files, path, graph_def_text(context_->graph)));
}

void CheckpointSaverHook::after_create_session(Session& session, Coordinator&) {
  const std::int64_t step = step_.read(session);
  if (options_.save_graph_def) write_graph();
  events_->add_graph(export_graph_def(context_->graph));
  events_->add_meta_graph(saver().export_meta_graph());
  static_cast<void>(save_or_warn(session, step));
  timer_.update_last_triggered_step(step, context_->clock.now());
}

std::optional<RunArgs> CheckpointSaverHook::before_run(RunContext&) { return RunArgs{.fetches = {step_.fetch()}}; }

void CheckpointSaverHook::after_run(RunContext& context, const RunValues& values) {
  if (const Status failed = saver().take_background_error(); !failed.ok()) {
    last_save_ = failed;
    warn(failed);
  }
  const TimePoint now = context_->clock.now();
  if (!timer_.should_trigger_for_step(step_value(values.results[0]) + 1, now)) return;
  const std::int64_t step = step_.read(context.session());
  if (!timer_.should_trigger_for_step(step, now)) return;
  timer_.update_last_triggered_step(step, now);
  if (save_or_warn(context.session(), step)) context.request_stop();
}

void CheckpointSaverHook::end(Session& session) {
  const Status earlier = saver().try_wait();
  const std::int64_t step = step_.read(session);
  // One that failed at this very step is tried again.
  if (timer_.last_triggered_step() != step || !earlier.ok() || !last_save_.ok()) {
    if (!earlier.ok()) warn(earlier);
    static_cast<void>(save(session, step));
  }
  saver().wait();
  for (const auto& listener : options_.listeners) listener->end(session, step);
}

// The session is still there for what is being saved.
void CheckpointSaverHook::failed(Session&, const Status& error) {
  if (!internal::is_preemption(error)) wait_and_say();
}

// A saver in the background uses the session until it is done.
void CheckpointSaverHook::after_close_session(Session&) { wait_and_say(); }

void CheckpointSaverHook::wait_and_say() {
  if (const Status lost = saver().try_wait(); !lost.ok()) {
    context_->log(str_cat("A checkpoint was not finished: ", lost.to_string()));
  }
}

void CheckpointSaverHook::warn(const Status& failed) const {
  context_->log(str_cat("A checkpoint could not be saved; training goes on and tries again at the next save. ",
                        failed.to_string()));
}

// What is wrong with a disk may pass, and is no reason to lose what was trained. A lost task ends the session.
bool CheckpointSaverHook::save_or_warn(Session& session, std::int64_t step) {
  try {
    last_save_ = {};
    return save(session, step);
  } catch (const Error& error) {
    last_save_ = error.status();
    if (!saver().saves_in_background() || internal::is_preemption(last_save_)) throw;
    warn(last_save_);
    return false;
  }
}

bool CheckpointSaverHook::save(Session& session, std::int64_t step) {
  for (const auto& listener : options_.listeners) listener->before_save(session, step);
  const std::string prefix = internal::join_path(options_.checkpoint_dir, options_.checkpoint_basename);
  context_->log(str_cat("Saving checkpoints for ", step, " into ", prefix, "."));
  SaveOptions how;
  how.write_meta_graph = options_.save_graph_def;
  saver().save(session, prefix, step, how);
  if (!options_.listeners.empty()) saver().wait();  // they may look at the files
  events_->add_session_log({.status = SessionLog::Status::kCheckpoint, .checkpoint_path = prefix}, step);
  bool stop = false;
  for (const auto& listener : options_.listeners) {
    if (!listener->after_save(session, step)) continue;
    context_->log("A CheckpointSaverListener requested that training be stopped.");
    stop = true;
  }
  return stop;
}

}  // namespace tutti
