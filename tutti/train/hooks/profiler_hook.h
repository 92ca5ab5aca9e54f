#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tutti/train/event_log.h"
#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"
#include "tutti/train/hooks/second_or_step_timer.h"

namespace tutti {

struct ProfilerOptions {
  // Exactly one of them.
  std::optional<std::int64_t> save_steps = std::nullopt;
  std::optional<double> save_secs = std::nullopt;
  std::string output_dir = "";  // empty: where the program runs
  // Arrows from where a value was made to where it was used.
  bool show_dataflow = true;
};

// Traces a step now and then, and writes timeline-STEP.json, which chrome://tracing and Perfetto show, and the step's
// RunMetadata to the event file, under the tag "step_STEP", for TensorBoard. The first step is left out: it is slower
// than the others, being compiled. (TensorFlow's show_memory is not there: steps do not record their tensors' memory.)
class ProfilerHook : public SessionRunHook {
 public:
  // kInvalidArgument: not exactly one interval.
  explicit ProfilerHook(ProfilerOptions options);

  void begin(HookContext& context) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  void save(std::int64_t step, const RunMetadata& metadata);

  const ProfilerOptions options_;
  SecondOrStepTimer timer_;
  HookContext* context_ = nullptr;
  std::shared_ptr<EventLog> events_;
  HookStep step_;
  bool requested_ = false;                 // the step under way is traced
  std::optional<std::int64_t> next_step_;  // nothing before the first step
};

}  // namespace tutti
