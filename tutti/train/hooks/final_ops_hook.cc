#include "tutti/train/hooks/final_ops_hook.h"

namespace tutti {

void FinalOpsHook::end(Session& session) {
  Result<std::vector<Tensor>> values = session.try_run(options_.feeds, options_.fetches, options_.targets);
  if (!values.ok() && values.status().code() == Code::kOutOfRange) {
    throw_error(values.status().with_context(
        "FinalOpsHook: what runs at the end depends on an input that has ended; it should read variables only"));
  }
  values_ = std::move(values).value_or_throw();
}

}  // namespace tutti
