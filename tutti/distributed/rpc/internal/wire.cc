#include "tutti/distributed/rpc/internal/wire.h"

#include <grpcpp/support/slice.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tutti::rpc_internal {
namespace {

// Below this a copy into a slice costs less than a holder of the owner on the heap.
constexpr std::size_t kCopiedBytes = 256;

// As TensorFlow cuts them.
constexpr std::size_t kMostMessageText = 3072;
// In headers a byte outside of printable ASCII takes three, and peers refuse headers over 8 KiB by default.
constexpr std::size_t kMostEncodedText = 6144;
constexpr std::string_view kCut = " ... [truncated]";

void drop_owner(void* owner) { delete static_cast<std::shared_ptr<const void>*>(owner); }

grpc::Slice to_slice(const Payload::Piece& piece) {
  if (piece.bytes.size() <= kCopiedBytes) return {piece.bytes.data(), piece.bytes.size()};
  auto owner = std::make_unique<std::shared_ptr<const void>>(piece.owner);
  // gRPC only reads what it sends, though its type does not say so.
  auto* bytes = const_cast<std::byte*>(piece.bytes.data());
  return {bytes, piece.bytes.size(), drop_owner, owner.release()};
}

std::size_t encoded_size(char c) { return c >= ' ' && c <= '~' && c != '%' ? 1 : 3; }

// How much of `text` may be sent; all of it, or up to the beginning of a UTF-8 character.
std::size_t sendable(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t encoded = 0; end < text.size(); ++end) {
    encoded += encoded_size(text[end]);
    if (end == kMostMessageText || encoded > kMostEncodedText) break;
  }
  if (end == text.size()) return end;
  const auto inside_character = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80; };
  std::size_t begin = end;
  while (begin > 0 && end - begin < 4 && inside_character(begin)) --begin;
  return inside_character(begin) ? end : begin;  // not UTF-8 at all
}

}  // namespace

grpc::ByteBuffer to_byte_buffer(const Payload& payload) {
  std::vector<grpc::Slice> slices;
  slices.reserve(payload.pieces().size());
  for (const Payload::Piece& piece : payload.pieces()) slices.push_back(to_slice(piece));
  return {slices.data(), slices.size()};
}

Payload to_payload(const grpc::ByteBuffer& buffer) {
  Payload payload;
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return payload;
  // Each by itself: a value that is kept must not keep the rest of its message.
  for (const grpc::Slice& slice : slices) {
    auto owner = std::make_shared<const grpc::Slice>(slice);
    payload.append({reinterpret_cast<const std::byte*>(owner->begin()), owner->size()}, owner);
  }
  return payload;
}

grpc::Status to_grpc_status(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string& text = status.message();
  const std::size_t end = sendable(text);
  const auto code = static_cast<grpc::StatusCode>(status.code());
  return end == text.size() ? grpc::Status(code, text) : grpc::Status(code, str_cat(text.substr(0, end), kCut));
}

Status from_grpc_status(const grpc::Status& status) {
  if (status.ok()) return {};
  const int code = status.error_code();
  const bool known = code > 0 && code <= static_cast<int>(Code::kUnauthenticated);
  return {known ? static_cast<Code>(code) : Code::kUnknown, status.error_message()};
}

gpr_timespec to_grpc_time(TimePoint when) {
  const TimePoint now = std::chrono::steady_clock::now();
  if (when > now + std::chrono::hours(24 * 365)) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  // gRPC rounds up to milliseconds, within which a call could still be answered.
  const auto left = when <= now ? std::chrono::seconds(-1) : std::chrono::nanoseconds(when - now);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

int message_limit(std::size_t bytes) { return static_cast<int>(std::min(bytes, kMostMessageBytes)); }

}  // namespace tutti::rpc_internal
