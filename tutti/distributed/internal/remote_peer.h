// One call to a peer: encode, call, decode.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "tutti/distributed/codec.h"
#include "tutti/distributed/worker_interface.h"
#include "tutti/transport/channel.h"

namespace tutti {

// What the stubs of both services share. Thread-safe.
class RemotePeer {
 public:
  explicit RemotePeer(std::shared_ptr<Channel> channel)
      : channel_(std::move(channel)), peer_(std::make_shared<const std::string>(channel_->describe())) {}

  template <typename Request, typename Reply>
  void call(std::string_view method, const Request& request, const CallOptions& options, ReplyDone<Reply> done) {
    Result<Payload> bytes = encode(request);
    if (!bytes.ok()) return done(bytes.status().with_context(context(*peer_, method)));
    channel_->call(method, *std::move(bytes), options,
                   [peer = peer_, method, done = std::move(done)](Status status, const Payload& answer) {
                     if (!status.ok()) return done(std::move(status));
                     Reply reply;
                     Status decoded = decode(answer, reply);
                     if (!decoded.ok()) return done(decoded.with_context(context(*peer, method)));
                     done(std::move(reply));
                   });
  }

 private:
  // "/tensorflow.WorkerService/RunGraph to grpc://host:port". Methods are constants: a view may be kept.
  static std::string context(const std::string& peer, std::string_view method) { return str_cat(method, " to ", peer); }

  const std::shared_ptr<Channel> channel_;
  const std::shared_ptr<const std::string> peer_;
};

}  // namespace tutti
