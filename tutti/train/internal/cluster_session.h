// The way to clusters, where they are built in.
#pragma once

#include <memory>
#include <string>

#include "tutti/distributed/server.h"

namespace tutti::internal {

// As connect(); kUnimplemented in a build without clusters.
Result<std::unique_ptr<Session>> cluster_session(const std::string& master, Graph& graph,
                                                 const ConnectOptions& options);

}  // namespace tutti::internal
