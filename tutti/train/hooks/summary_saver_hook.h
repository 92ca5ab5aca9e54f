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
struct Scaffold;

struct SummarySaverOptions {
  // Exactly one of them.
  std::optional<double> save_secs = std::nullopt;
  std::optional<std::int64_t> save_steps = std::nullopt;
  // Where to: a directory, or a writer. Neither: nowhere.
  std::string output_dir = "";
  std::shared_ptr<EventWriter> summary_writer = nullptr;
  // What: exactly one of them. Scalars or vectors of serialised Summary messages.
  std::shared_ptr<Scaffold> scaffold = nullptr;
  std::vector<TensorName> summary_op = {};
};

// Writes summaries of the first step and then at intervals, each under the global step after its step.
class SummarySaverHook : public SessionRunHook {
 public:
  // kInvalidArgument: not exactly one interval, not exactly one thing to write.
  explicit SummarySaverHook(SummarySaverOptions options);

  void begin(HookContext& context) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  std::vector<TensorName> summaries() const;
  void write(const Tensor& summaries, std::int64_t step);

  const SummarySaverOptions options_;
  SecondOrStepTimer timer_;
  HookContext* context_ = nullptr;
  std::shared_ptr<EventLog> events_;
  HookStep step_;
  bool requested_ = false;                 // the step under way fetches summaries
  std::optional<std::int64_t> next_step_;  // nothing before the first step
};

}  // namespace tutti
