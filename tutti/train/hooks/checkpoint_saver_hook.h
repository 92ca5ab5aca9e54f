#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"
#include "tutti/train/hooks/second_or_step_timer.h"

namespace tutti {

class EventLog;
class Saver;
struct Scaffold;

// Told about each save.
class CheckpointSaverListener {
 public:
  virtual ~CheckpointSaverListener() = default;
  virtual void begin() {}
  virtual void before_save(Session& /*session*/, std::int64_t /*global_step*/) {}
  // True: the job is to end.
  virtual bool after_save(Session& /*session*/, std::int64_t /*global_step*/) { return false; }
  virtual void end(Session& /*session*/, std::int64_t /*global_step*/) {}
};

struct CheckpointSaverOptions {
  std::string checkpoint_dir = "";
  // Exactly one of them.
  std::optional<double> save_secs = std::nullopt;
  std::optional<std::int64_t> save_steps = std::nullopt;
  // What saves: exactly one of them.
  std::shared_ptr<Saver> saver = nullptr;
  std::shared_ptr<Scaffold> scaffold = nullptr;
  std::string checkpoint_basename = "model.ckpt";
  std::vector<std::shared_ptr<CheckpointSaverListener>> listeners = {};
  // graph.pbtxt in the directory, and a .meta beside each checkpoint.
  bool save_graph_def = true;
};

// Saves when a session was made, then at intervals, and at the end if the step has moved. The directory's event file
// gets the graph, and a note of each save. A save in the background (SaverOptions::save_in_background) that fails is
// logged, and training goes on; one that keeps the caller waiting, and the last one, throw. The end waits for a save in
// the background, also the end of a job that failed by itself, and so does what tells a listener that it is done.
class CheckpointSaverHook : public SessionRunHook {
 public:
  // kInvalidArgument: no directory, not exactly one interval, not exactly one thing that saves.
  explicit CheckpointSaverHook(CheckpointSaverOptions options);

  void begin(HookContext& context) override;
  void after_create_session(Session& session, Coordinator& coordinator) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;
  void failed(Session& session, const Status& error) override;
  void after_close_session(Session& session) override;

 private:
  Saver& saver() const;
  void write_graph();
  // True: a listener wants the job to end.
  bool save(Session& session, std::int64_t step);
  bool save_or_warn(Session& session, std::int64_t step);
  void warn(const Status& failed) const;
  void wait_and_say();

  const CheckpointSaverOptions options_;
  SecondOrStepTimer timer_;
  HookContext* context_ = nullptr;
  std::shared_ptr<EventLog> events_;
  HookStep step_;
  Status last_save_;  // with what it failed, as far as that was seen
};

}  // namespace tutti
