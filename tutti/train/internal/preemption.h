// Which errors mean that a task was lost, so that a new session may go on where the old one ended.
#pragma once

#include "tutti/core/status.h"

namespace tutti::internal {

inline bool is_preemption(const Status& status) {
  return status.code() == Code::kAborted || status.code() == Code::kUnavailable;
}

}  // namespace tutti::internal
