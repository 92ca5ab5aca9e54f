#include "tutti/distributed/rpc/internal/call_failure.h"

#include <initializer_list>
#include <string_view>

namespace tutti::rpc_internal {
namespace {

bool has_any(const std::string& text, std::initializer_list<std::string_view> parts) {
  for (const std::string_view part : parts) {
    if (text.find(part) != std::string::npos) return true;
  }
  return false;
}

// gRPC tells these apart in its messages only. Empty: not a message of its own.
std::string_view failed_step(const std::string& text) {
  if (has_any(text, {"DNS resolution failed", "name resolution", "Domain name not found", "empty address list"})) {
    return "name lookup failed; the call was not sent";
  }
  const bool connecting = has_any(text, {"failed to connect to all addresses", "connections to all backends failing"});
  if (connecting && has_any(text, {"andshake", "erification", "SSL", "ertificate", "Peer name"})) {
    return "handshake failed; the call was not sent";
  }
  if (connecting) return "cannot connect; the call was not sent";
  if (has_any(text, {"Socket closed", "Connection reset", "Broken pipe", "GOAWAY", "keepalive", "ransport closed",
                     "Endpoint", "RST_STREAM", "Connection timed out", "recvmsg", "sendmsg", "Stream removed"})) {
    return "connection lost";
  }
  return {};
}

}  // namespace

Status explain_failure(const Status& status, const std::string& channel, const std::string& method) {
  if (status.code() == Code::kDeadlineExceeded && status.message() == "Deadline Exceeded") {
    return deadline_exceeded(channel, ": no answer to ", method, " before the deadline");
  }
  const bool lost_stream = status.code() == Code::kUnknown && status.message() == "Stream removed";
  if (status.code() != Code::kUnavailable && !lost_stream) return status;
  const std::string_view step = failed_step(status.message());
  if (step.empty()) return status;
  return unavailable(channel, ": ", step, " (", method, "): ", status.message());
}

}  // namespace tutti::rpc_internal
