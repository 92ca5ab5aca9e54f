// Calls within one process, for tests and as the least that a call can cost: no bytes are copied, and the callee works
// on the caller's thread. Servers of one process do not use it: parts of a step would run one after another, where
// shared memory lets them run side by side.
#pragma once

#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/transport/channel.h"

namespace tutti {

// Hands calls straight to `handler`, on the caller's thread. `handler` and `clock` must outlive it and its calls.
std::shared_ptr<Channel> make_inproc_channel(CallHandler& handler, Clock& clock, std::string name);

}  // namespace tutti
