// Errors that follow from other errors.
#pragma once

#include <string_view>

#include "tutti/core/status.h"

namespace tutti {

// When a step fails in one task, the tasks that wait for its values fail too. What those report is *derived*: the cause
// is reported where it happened, and who collects the errors of a step leaves out derived ones where there is another.
//
// A derived status has "[_Derived_]" in its message, since code and message are all that crosses every wire.
Status make_derived(const Status& status);
bool is_derived(const Status& status);
// For people: the same without the mark.
Status without_derived_mark(const Status& status);

// What other tasks are told of an error in `task`: derived, "From /job:ps/replica:0/task:0:\n" before the message. What
// is derived already stays as it is, so that it names the task where it began.
Status derived_from(std::string_view task, const Status& status);

}  // namespace tutti
