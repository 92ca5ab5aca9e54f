// What sessions of clients are made with.
#pragma once

#include <string>

#include "tutti/distributed/remote_session.h"
#include "tutti/distributed/server.h"

namespace tutti {

RemoteSessionOptions remote_session_options(const std::string& target, const ConnectOptions& options, Clock* clock);

}  // namespace tutti
