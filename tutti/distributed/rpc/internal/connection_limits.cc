#include "tutti/distributed/rpc/internal/connection_limits.h"

#include <algorithm>
#include <utility>

namespace tutti::rpc_internal {
namespace {

constexpr Duration kRateWindow = std::chrono::seconds(1);
constexpr std::size_t kFewHosts = 1000;

}  // namespace

std::string host_of(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

CallRates::CallRates(int calls_per_second)
    : of_one_call_(calls_per_second > 0 ? kRateWindow / calls_per_second : Duration(0)), forget_at_(kFewHosts) {}

bool CallRates::admit(const std::string& host, TimePoint now) {
  if (of_one_call_ == Duration(0)) return true;
  if (used_until_.size() >= forget_at_) forget_silent(now);
  TimePoint& until = used_until_[host];
  const TimePoint next = std::max(until, now) + of_one_call_;
  if (next - now > kRateWindow) return false;
  until = next;
  return true;
}

// As often as the hosts double, so that it costs each call little.
void CallRates::forget_silent(TimePoint now) {
  std::erase_if(used_until_, [now](const auto& host) { return host.second <= now; });
  forget_at_ = std::max(kFewHosts, 2 * used_until_.size());
}

Result<ConnectionLimits::Connection*> ConnectionLimits::enter(const std::string& peer, TimePoint now) {
  MutexLock lock(mu_);
  if (!rates_.admit(host_of(peer), now)) {
    return resource_exhausted("host ", host_of(peer), ": more than ", limits_.calls_per_second,
                              " calls a second (--max-calls-per-second)");
  }
  const auto host = hosts_.find(host_of(peer));
  if (host != hosts_.end() && host->second.unread / kUnreadPerCall >= limits_.calls_per_connection) {
    return resource_exhausted("host ", host_of(peer), ": ", host->second.unread,
                              " calls wait for their message, which is the most at a time (ten times --max-calls)");
  }
  Connection& connection = connections_[peer];
  if (connection.calls >= limits_.calls_per_connection) {
    if (connection.calls == 0) connections_.erase(peer);
    return resource_exhausted("connection ", peer, ": ", limits_.calls_per_connection,
                              " calls are open, which is the most at a time (--max-calls)");
  }
  if (connection.calls++ == 0) {
    connection.peer = peer;
    connection.host = &hosts_[host_of(peer)];
    ++connection.host->connections;
  }
  return &connection;
}

std::vector<std::function<void()>> ConnectionLimits::take_allowed(Connection& connection) {
  std::vector<std::function<void()>> allowed;
  while (!connection.waiting.empty() && connection.reads < kReads &&
         connection.answer_bytes <= limits_.connection_bytes) {
    allowed.push_back(std::move(connection.waiting.front()));
    connection.waiting.pop_front();
    if (connection.reads++ == 0) connection.latest_read = ++reads_ended_;
  }
  return allowed;
}

void ConnectionLimits::read_when_allowed(Connection& connection, std::function<void()> read) {
  std::vector<std::function<void()>> allowed;
  {
    MutexLock lock(mu_);
    ++connection.host->unread;
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
    --connection.host->unread;
    connection.latest_read = ++reads_ended_;
    connection.request_bytes += bytes;
    if (connection.request_bytes > limits_.connection_bytes) {
      status = resource_exhausted("connection ", connection.peer, ": ", connection.request_bytes,
                                  " bytes of requests are unanswered, more than ", limits_.connection_bytes,
                                  " (--max-connection-bytes)");
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
    if (--connection.calls == 0) {
      if (--connection.host->connections == 0) hosts_.erase(host_of(connection.peer));
      connections_.erase(std::string(connection.peer));
    }
  }
  for (const auto& start : allowed) start();
}

std::optional<std::uint64_t> ConnectionLimits::owed_message(const std::string& peer) {
  MutexLock lock(mu_);
  const auto found = connections_.find(peer);
  if (found == connections_.end() || found->second.reads == 0) return std::nullopt;
  return found->second.latest_read;
}

}  // namespace tutti::rpc_internal
