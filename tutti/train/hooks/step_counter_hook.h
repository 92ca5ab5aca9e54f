#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"
#include "tutti/train/hooks/second_or_step_timer.h"

namespace tutti {

class EventLog;
class EventWriter;

struct StepCounterOptions {
  // At most one of them; none: every 100 steps.
  std::optional<std::int64_t> every_n_steps = std::nullopt;
  std::optional<double> every_n_secs = std::nullopt;
  // Where the rate is written besides the log: a directory, or a writer.
  std::string output_dir = "";
  std::shared_ptr<EventWriter> summary_writer = nullptr;
};

// Says how many global steps pass in a second: "global_step/sec: 123.4". Warns when the step stands still.
class StepCounterHook : public SessionRunHook {
 public:
  explicit StepCounterHook(StepCounterOptions options = {});

  void begin(HookContext& context) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  void tell(const SecondOrStepTimer::Elapsed& elapsed, std::int64_t step);
  void warn_when_still(std::int64_t step);

  const StepCounterOptions options_;
  SecondOrStepTimer timer_;
  HookContext* context_ = nullptr;
  std::shared_ptr<EventLog> events_;
  HookStep step_;
  std::optional<std::int64_t> last_step_;
  int still_ = 0;  // steps of the session without one of the global step
  int warnings_ = 0;
};

}  // namespace tutti
