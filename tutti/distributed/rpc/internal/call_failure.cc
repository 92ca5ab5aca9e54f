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

bool begins_with_any(const std::string& text, std::initializer_list<std::string_view> beginnings) {
  for (const std::string_view beginning : beginnings) {
    if (text.starts_with(beginning)) return true;
  }
  return false;
}

// gRPC tells these apart in its messages only. Empty: not a message of its own. That a call was not sent is said only
// of what gRPC itself can have written: a peer that is not Tutti's may quote such a text of its own calls.
std::string_view failed_step(const std::string& text) {
  if (begins_with_any(text, {"DNS resolution failed", "empty address list"})) {
    return "name lookup failed; the call was not sent";
  }
  if (begins_with_any(text, {"failed to connect to all addresses", "connections to all backends failing"})) {
    const bool shaking = has_any(text, {"andshake", "erification", "SSL", "ertificate", "Peer name"});
    return shaking ? "handshake failed; the call was not sent" : "cannot connect; the call was not sent";
  }
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
  // A server that stops ends what it still does so.
  if (status.code() == Code::kCancelled && status.message() == "CANCELLED") {
    return unavailable(channel, ": the server ended the call (", method, ")");
  }
  const bool lost_stream = status.code() == Code::kUnknown && status.message() == "Stream removed";
  if (status.code() != Code::kUnavailable && !lost_stream) return status;
  const std::string_view step = failed_step(status.message());
  if (step.empty()) return status;
  return unavailable(channel, ": ", step, " (", method, "): ", status.message());
}

}  // namespace tutti::rpc_internal
