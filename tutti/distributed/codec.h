// Messages as bytes, with TensorFlow's field numbers. Tensors are views on both sides: an encoded message refers to the
// memory of its tensors, a decoded tensor to the message's where that lies whole and aligned, else it is copied once.
#pragma once

#include "tutti/core/payload.h"
#include "tutti/core/status.h"
#include "tutti/distributed/messages.h"

namespace tutti {

// One pair for each message of messages.h. Encoding fails for what has no bytes (variants of some types).
// Decoding: unknown fields are skipped; kInvalidArgument names the message and the field for anything malformed; what a
// message may make of few bytes (repeated values) is limited.
#define TUTTI_CODEC(Message)                      \
  Result<Payload> encode(const Message& message); \
  Status decode(const Payload& bytes, Message& message);
TUTTI_CODEC(CreateSessionRequest)
TUTTI_CODEC(CreateSessionReply)
TUTTI_CODEC(ExtendSessionRequest)
TUTTI_CODEC(ExtendSessionReply)
TUTTI_CODEC(RunStepRequest)
TUTTI_CODEC(RunStepReply)
TUTTI_CODEC(PartialRunSetupRequest)
TUTTI_CODEC(PartialRunSetupReply)
TUTTI_CODEC(CloseSessionRequest)
TUTTI_CODEC(ListDevicesRequest)
TUTTI_CODEC(ListDevicesReply)
TUTTI_CODEC(ResetRequest)
TUTTI_CODEC(MakeCallableRequest)
TUTTI_CODEC(MakeCallableReply)
TUTTI_CODEC(RunCallableRequest)
TUTTI_CODEC(RunCallableReply)
TUTTI_CODEC(ReleaseCallableRequest)
TUTTI_CODEC(GetStatusReply)
TUTTI_CODEC(CreateWorkerSessionRequest)
TUTTI_CODEC(DeleteWorkerSessionRequest)
TUTTI_CODEC(RegisterGraphRequest)
TUTTI_CODEC(RegisterGraphReply)
TUTTI_CODEC(DeregisterGraphRequest)
TUTTI_CODEC(RunGraphRequest)
TUTTI_CODEC(RunGraphReply)
TUTTI_CODEC(CleanupGraphRequest)
TUTTI_CODEC(CleanupAllRequest)
TUTTI_CODEC(RecvTensorRequest)
TUTTI_CODEC(RecvTensorReply)
TUTTI_CODEC(RecvTensorsRequest)
TUTTI_CODEC(RecvTensorsReply)
TUTTI_CODEC(EmptyMessage)
#undef TUTTI_CODEC

}  // namespace tutti
