// Calls within one process: no bytes are copied.
#pragma once

#include <memory>
#include <string>

#include "tutti/core/clock.h"
#include "tutti/transport/channel.h"

namespace tutti {

// Hands calls straight to `handler`, on the caller's thread. `handler` and `clock` must outlive it and its calls.
std::shared_ptr<Channel> make_inproc_channel(CallHandler& handler, Clock& clock, std::string name);

}  // namespace tutti
