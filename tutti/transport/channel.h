// Calls between tasks: a method's name and bytes one way, a status and bytes back. Implemented in process (inproc/),
// over shared memory between processes of one host (shm/) and over gRPC (distributed/rpc/); the simulated network of
// the tests is one more.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tutti/core/cancellation.h"
#include "tutti/core/clock.h"
#include "tutti/core/payload.h"
#include "tutti/core/status.h"

namespace tutti {

struct CallOptions {
  // kDeadlineExceeded when no answer has come by then; nothing: no limit.
  std::optional<TimePoint> deadline;
  // Waits for a peer that is not there yet, instead of kUnavailable at once.
  bool wait_for_ready = false;
  // Ends the call early, with its cause, and tells the peer. Must outlive the call.
  Cancellation* cancellation = nullptr;
  // Names a wait that the call's end ends, for a transport that lets the waiting thread help (ShmTransport::help).
  const void* waiter = nullptr;
};

// The way to one task. Thread-safe. Destroying it ends its calls with kCancelled.
//
// A call has an effect at the peer at most once. kUnavailable: the peer could not be reached or went away; whether the
// call had its effect is then unknown, unless the message says that it was never sent.
class Channel {
 public:
  using Done = std::function<void(Status, Payload)>;

  virtual ~Channel() = default;
  // `method` as on TensorFlow's wire: "/tensorflow.WorkerService/RunGraph". `done` runs exactly once, on any thread,
  // possibly before this returns, no lock held.
  virtual void call(std::string_view method, Payload request, const CallOptions& options, Done done) = 0;
  // For messages: "grpc://10.0.0.1:2222", "shm to /job:ps/replica:0/task:1".
  virtual std::string describe() const = 0;
};

// One call as the serving side sees it.
struct IncomingCall {
  std::string_view method;  // valid until the handler has returned
  Payload request;
  // Who calls, as far as the transport has proved it: the task that the peer's certificate or handshake names; empty:
  // nobody said.
  std::string peer_task;
  // The transport's own name for the connection, for logs and limits: "ipv4:127.0.0.1:40312".
  std::string connection;
  // Cancelled when the caller no longer waits or has gone. Lives until the reply was given.
  Cancellation* cancellation = nullptr;
};

// Serves calls. Thread-safe. `handle` must not block; it may work on the calling thread for as long as a kernel takes,
// since a transport always keeps a thread to listen with. `reply` is called exactly once, on any thread.
class CallHandler {
 public:
  using Reply = Channel::Done;

  virtual ~CallHandler() = default;
  virtual void handle(IncomingCall call, Reply reply) = 0;
};

}  // namespace tutti
