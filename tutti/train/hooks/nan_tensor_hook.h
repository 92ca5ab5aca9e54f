#pragma once

#include <optional>

#include "tutti/train/hooks.h"

namespace tutti {

// kInvalidArgument, "NaN loss during training."
class NanLossDuringTrainingError : public Error {
 public:
  NanLossDuringTrainingError() : Error(invalid_argument("NaN loss during training.")) {}
};

struct NanTensorOptions {
  // True: throws NanLossDuringTrainingError. False: says so and ends the job.
  bool fail_on_nan_loss = true;
};

// Watches a loss (any elements of a floating type) for NaN.
class NanTensorHook : public SessionRunHook {
 public:
  explicit NanTensorHook(TensorName loss, NanTensorOptions options = {}) : loss_(std::move(loss)), options_(options) {}

  void begin(HookContext& context) override { context_ = &context; }
  std::optional<RunArgs> before_run(RunContext& context) override;
  void after_run(RunContext& context, const RunValues& values) override;

 private:
  const TensorName loss_;
  const NanTensorOptions options_;
  HookContext* context_ = nullptr;
};

}  // namespace tutti
