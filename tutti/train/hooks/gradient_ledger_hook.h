#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tutti/train/gradient_ledger.h"
#include "tutti/train/hooks.h"
#include "tutti/train/hooks/hook_step.h"
#include "tutti/train/hooks/second_or_step_timer.h"

namespace tutti {

struct GradientLedgerOptions {
  // Tasks with accumulators, such as "/job:ps/task:0"; empty: the session's own.
  std::vector<std::string> devices = {""};
  // Exactly one of them.
  std::optional<std::int64_t> every_n_steps = std::nullopt;
  std::optional<double> every_n_secs = std::nullopt;
};

// Says now and then, and at the end, what became of each worker's gradients since the ledgers began: "Gradients of
// /job:worker/task:1 at step 200: 600 applied, 12 stale, 0 retried". A worker that is slow has stale ones, or few. For
// the chief of synchronous replicas; others count no gradients.
class GradientLedgerHook : public SessionRunHook {
 public:
  // kInvalidArgument: not exactly one interval.
  explicit GradientLedgerHook(GradientLedgerOptions options);

  // kFailedPrecondition without a global step, kInvalidArgument without devices.
  void begin(HookContext& context) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  void say(Session& session, std::int64_t step);

  const GradientLedgerOptions options_;
  SecondOrStepTimer timer_;
  HookContext* context_ = nullptr;
  HookStep step_;
  std::optional<GradientLedgerReader> ledger_;
};

}  // namespace tutti
