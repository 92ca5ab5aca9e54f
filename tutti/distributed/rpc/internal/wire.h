// Between Tutti's types and gRPC's: bytes without copies, statuses, points in time.
#pragma once

#include <grpc/support/time.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <cstddef>
#include <limits>

#include "tutti/core/clock.h"
#include "tutti/core/payload.h"
#include "tutti/core/status.h"

namespace tutti::rpc_internal {

// The most that gRPC's frames and protobuf can say.
inline constexpr std::size_t kMostMessageBytes = std::numeric_limits<std::int32_t>::max();

// The slices refer to the payload's pieces and hold their owners.
grpc::ByteBuffer to_byte_buffer(const Payload& payload);
// The pieces refer to the buffer's slices and hold all of them.
Payload to_payload(const grpc::ByteBuffer& buffer);

// Codes are the same numbers. Messages travel in HTTP/2 headers, whose size peers limit: they are cut.
grpc::Status to_grpc_status(const Status& status);
Status from_grpc_status(const grpc::Status& status);

// Of a deadline, for gRPC.
gpr_timespec to_grpc_time(TimePoint when);

// A limit in bytes as the int that gRPC's settings take.
int message_limit(std::size_t bytes);

}  // namespace tutti::rpc_internal
