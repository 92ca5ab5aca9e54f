#include "tutti/train/hooks/nan_tensor_hook.h"

#include <algorithm>
#include <cmath>

namespace tutti {
namespace {

template <typename T>
bool any_nan(const Tensor& tensor) {
  const auto values = tensor.flat<T>();
  return std::any_of(values.begin(), values.end(), [](T value) { return std::isnan(static_cast<float>(value)); });
}

bool has_nan(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::kFloat:
      return any_nan<float>(tensor);
    case DType::kDouble:
      return any_nan<double>(tensor);
    case DType::kHalf:
      return any_nan<Half>(tensor);
    case DType::kBfloat16:
      return any_nan<Bfloat16>(tensor);
    default:
      return false;
  }
}

}  // namespace

std::optional<RunArgs> NanTensorHook::before_run(RunContext&) { return RunArgs{.fetches = {loss_}}; }

void NanTensorHook::after_run(RunContext& context, const RunValues& values) {
  if (!has_nan(values.results[0])) return;
  context_->log(str_cat("Model diverged with loss = NaN (", loss_.str(), ")."));
  if (options_.fail_on_nan_loss) throw NanLossDuringTrainingError();
  context.request_stop();
}

}  // namespace tutti
