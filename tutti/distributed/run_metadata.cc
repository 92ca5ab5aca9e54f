#include "tutti/distributed/run_metadata.h"

#include "tutti/distributed/internal/message_parts.h"

namespace tutti {

std::string run_metadata_bytes(const StepStats& stats) {
  const StepReport report{.step_stats = stats};
  const Result<Payload> bytes = encode_fields([&report](auto& f) { fields(f, report); });
  return bytes.ok() ? bytes->flatten() : std::string();  // nothing in it can fail
}

}  // namespace tutti
