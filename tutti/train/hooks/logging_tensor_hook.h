#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tutti/train/hooks.h"
#include "tutti/train/hooks/second_or_step_timer.h"

namespace tutti {

struct LoggingTensorOptions {
  // Under these names, in this order.
  std::vector<std::pair<std::string, TensorName>> tensors = {};
  // One of them, unless it is only at the end.
  std::optional<std::int64_t> every_n_iter = std::nullopt;  // of this session's steps
  std::optional<double> every_n_secs = std::nullopt;
  bool at_end = false;
  // Makes the line out of the values, by name. Null: "loss = 0.25, accuracy = 0.9 (1.234 sec)", arrays as numpy has
  // them; the time since the line before, but for the first.
  std::function<std::string(const std::map<std::string, Tensor>& values)> formatter = nullptr;
};

// Says the values of tensors now and then, the first step's among them.
class LoggingTensorHook : public SessionRunHook {
 public:
  // kInvalidArgument: no tensors, a name twice, both intervals or none without at_end, an interval of 0 and less.
  explicit LoggingTensorHook(LoggingTensorOptions options);

  void begin(HookContext& context) override;
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;
  void end(Session& session) override;

 private:
  void say(const std::vector<Tensor>& values);

  const LoggingTensorOptions options_;
  std::vector<TensorName> fetches_;         // of options_.tensors, in order
  std::optional<SecondOrStepTimer> timer_;  // nothing: only at the end
  HookContext* context_ = nullptr;
  std::int64_t iteration_ = 0;
  bool requested_ = false;  // the step under way fetches them
};

}  // namespace tutti
