#include "tutti/distributed/rpc/internal/connection_limits.h"

#include <utility>

namespace tutti::rpc_internal {

Result<ConnectionLimits::Connection*> ConnectionLimits::enter(const std::string& peer) {
  MutexLock lock(mu_);
  Connection& connection = connections_[peer];
  if (connection.calls >= limits_.calls_per_connection) {
    if (connection.calls == 0) connections_.erase(peer);
    return resource_exhausted("connection ", peer, ": ", limits_.calls_per_connection,
                              " calls are open, which is the most at a time");
  }
  if (connection.calls++ == 0) connection.peer = peer;
  return &connection;
}

std::vector<std::function<void()>> ConnectionLimits::take_allowed(Connection& connection) {
  std::vector<std::function<void()>> allowed;
  while (!connection.waiting.empty() && connection.reads < kReads &&
         connection.answer_bytes <= limits_.connection_bytes) {
    allowed.push_back(std::move(connection.waiting.front()));
    connection.waiting.pop_front();
    ++connection.reads;
  }
  return allowed;
}

void ConnectionLimits::read_when_allowed(Connection& connection, std::function<void()> read) {
  std::vector<std::function<void()>> allowed;
  {
    MutexLock lock(mu_);
    connection.waiting.push_back(std::move(read));
    allowed = take_allowed(connection);
  }
  for (const auto& start : allowed) start();
}

Status ConnectionLimits::read_ended(Connection& connection, std::size_t bytes) {
  std::vector<std::function<void()>> allowed;
  Status status;
  {
    MutexLock lock(mu_);
    --connection.reads;
    connection.request_bytes += bytes;
    if (connection.request_bytes > limits_.connection_bytes) {
      status = resource_exhausted("connection ", connection.peer, ": ", connection.request_bytes,
                                  " bytes of requests are unanswered, more than ", limits_.connection_bytes);
    }
    allowed = take_allowed(connection);
  }
  for (const auto& start : allowed) start();
  return status;
}

void ConnectionLimits::answering(Connection& connection, std::size_t bytes) {
  MutexLock lock(mu_);
  connection.answer_bytes += bytes;
}

void ConnectionLimits::leave(Connection& connection, std::size_t request_bytes, std::size_t answer_bytes) {
  std::vector<std::function<void()>> allowed;
  {
    MutexLock lock(mu_);
    connection.request_bytes -= request_bytes;
    connection.answer_bytes -= answer_bytes;
    allowed = take_allowed(connection);
    // Whoever waits has entered, so that an erased connection has nobody waiting.
    if (--connection.calls == 0) connections_.erase(std::string(connection.peer));
  }
  for (const auto& start : allowed) start();
}

}  // namespace tutti::rpc_internal
