// Where a training session runs, and how.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "tutti/distributed/server.h"
#include "tutti/runtime/local_session.h"
#include "tutti/runtime/session.h"

namespace tutti {

struct SessionSettings {
  ConnectOptions cluster;  // for a session on a cluster
  SessionOptions local;    // for one on the own machine
  // Makes the session instead, as in `[&](Graph& graph) { return server.connect(graph); }`. It waits by its own rules.
  std::function<Result<std::unique_ptr<Session>>(Graph& graph)> connect = nullptr;
};

// A session on `master`: "" and "local" are the own machine, "grpc://host:port" is a cluster.
Result<std::unique_ptr<Session>> open_session(const std::string& master, Graph& graph, const SessionSettings& settings);

}  // namespace tutti
